//! A mount in its own daemon, which a test uses as programs do. It ends with the test, however that ends.

use std::cell::Cell;
use std::fs;
use std::io::{self, ErrorKind};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use rustix::mount::UnmountFlags;
use rustix::process::{Pid, Signal, WaitOptions};
use twin_host::fuse::unmount;

use super::{Config, Outcome, PATIENCE, Temp, start};

/// A mount and its daemon.
pub(crate) struct Mounted {
    pub(crate) base: Temp,
    pub(crate) pid: i32,
    /// Whether the daemon was waited for, so that its number may be a stranger's.
    reaped: Cell<bool>,
    watchdog: Child,
}

impl Mounted {
    pub(crate) fn new(name: &str, config: Config) -> Result<Mounted, String> {
        let base = Temp::new(name);
        for dir in ["source", "mount", "reference"] {
            fs::create_dir(base.0.join(dir)).map_err(|e| e.to_string())?;
        }
        if let Some(user) = config.user {
            for dir in ["", "source", "mount"] {
                std::os::unix::fs::chown(base.0.join(dir), Some(user), Some(user))
                    .map_err(|e| e.to_string())?;
            }
        }
        let (source, dir) = (base.0.join("source"), base.0.join("mount"));
        let pid = start(&source, &dir, &config)?;
        // The number may belong to a stranger when the watchdog wakes up, if this test was killed: it
        // makes sure that the process is this one's child.
        let me = std::process::id();
        let script = format!(
            "sleep {PATIENCE}; read -r line < /proc/{pid}/stat; \
             case $line in *') '?' {me} '*) kill -9 {pid};; esac"
        );
        let watchdog = Command::new("sh")
            .args(["-c", &script])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()
            .map_err(|e| e.to_string())?;
        Ok(Mounted { base, pid, reaped: Cell::new(false), watchdog })
    }

    pub(crate) fn dir(&self) -> PathBuf {
        self.base.0.join("mount")
    }

    pub(crate) fn source(&self) -> PathBuf {
        self.base.0.join("source")
    }

    pub(crate) fn at(&self, name: &str) -> PathBuf {
        self.dir().join(name)
    }

    pub(crate) fn unmount(&self) -> Outcome {
        unmount(&self.dir())?;
        match self.daemon_status()? {
            Some(0) => Ok(()),
            other => Err(format!("the daemon's status after unmounting is {other:?}").into()),
        }
    }

    /// The exit status of the daemon, `None` while it runs. Reaps it.
    pub(crate) fn daemon_status(&self) -> io::Result<Option<i32>> {
        let pid = Pid::from_raw(self.pid);
        let ended = rustix::process::waitpid(pid, WaitOptions::NOHANG)?;
        self.reaped.set(self.reaped.get() || ended.is_some());
        Ok(ended.map(|(_, status)| status.exit_status().unwrap_or(-1)))
    }

    pub(crate) fn kill(&self, signal: Signal) -> io::Result<()> {
        let pid = Pid::from_raw(self.pid).ok_or(ErrorKind::InvalidInput)?;
        Ok(rustix::process::kill_process(pid, signal)?)
    }

    pub(crate) fn is_mounted(&self) -> bool {
        let table = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
        table.contains(&format!(" {} ", self.dir().display()))
    }

    /// Waits until the daemon has ended.
    pub(crate) fn wait_for_daemon(&self) -> Result<i32, String> {
        for _ in 0..PATIENCE * 100 {
            if let Some(status) = self.daemon_status().map_err(|e| e.to_string())? {
                return Ok(status);
            }
            pause();
        }
        Err("the daemon did not end".into())
    }
}

#[allow(clippy::disallowed_methods)] // A test outside the runtime.
pub(crate) fn pause() {
    std::thread::sleep(std::time::Duration::from_millis(10));
}

impl Drop for Mounted {
    fn drop(&mut self) {
        // With its group: the shell alone would leave its sleep behind.
        if let Some(group) = Pid::from_raw(self.watchdog.id() as i32) {
            let _ = rustix::process::kill_process_group(group, Signal::KILL);
        }
        let _ = self.watchdog.wait();
        if !self.reaped.get() {
            let _ = self.kill(Signal::KILL);
        }
        let _ = rustix::mount::unmount(self.dir(), UnmountFlags::DETACH);
        if !self.reaped.get() {
            let _ = rustix::process::waitpid(Pid::from_raw(self.pid), WaitOptions::empty());
        }
    }
}
