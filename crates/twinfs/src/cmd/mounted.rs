//! A mount by this program, as a child process, for commands that measure.
//!
//! Contract: what is mounted here is unmounted, and its daemon has ended, when the value is dropped, whatever
//! happened in between.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// How often, and after which pause, to look whether a mount is there or has gone.
const TRIES: u32 = 1000;
const PAUSE: Duration = Duration::from_millis(10);

/// A mounted volume and its daemon.
pub(super) struct Mounted {
    dir: PathBuf,
    daemon: Option<Child>,
}

/// Makes a volume in `image` with these options of `twinfs mkfs`.
///
/// # Errors
/// If that fails, in its words.
pub(super) fn mkfs(options: &[&str], image: &Path) -> Result<(), String> {
    let made = this_program()?.arg("mkfs").args(options).arg(image).output();
    let made = made.map_err(|e| format!("mkfs: {e}"))?;
    match made.status.success() {
        true => Ok(()),
        false => Err(String::from_utf8_lossy(&made.stderr).trim().to_owned()),
    }
}

impl Mounted {
    /// Mounts the volume in `image` at `dir`, a directory that is made if need be.
    ///
    /// # Errors
    /// If the daemon does not mount it, in its words.
    pub(super) fn start(image: &Path, dir: &Path, options: &[&str]) -> Result<Mounted, String> {
        let text = |e: std::io::Error| format!("{}: {e}", dir.display());
        if !dir.exists() {
            std::fs::create_dir(dir).map_err(text)?;
        }
        let mut command = this_program()?;
        command.args(["mount", "--foreground"]).args(options).arg(image).arg(dir);
        // A terminal's interrupt is ours to answer.
        std::os::unix::process::CommandExt::process_group(&mut command, 0);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        let daemon = command.spawn().map_err(|e| format!("mount: {e}"))?;
        let mut mounted = Mounted { dir: dir.into(), daemon: Some(daemon) };
        for _ in 0..TRIES {
            if is_mounted(dir) {
                return Ok(mounted);
            }
            if mounted.has_ended() {
                let daemon = mounted.daemon.take();
                let output = daemon.and_then(|daemon| daemon.wait_with_output().ok());
                let said = output.map(|o| String::from_utf8_lossy(&o.stderr).trim().to_owned());
                return Err(format!("mount: {}", said.unwrap_or_default()));
            }
            pause();
        }
        Err(format!("{} is not mounted after {} s", dir.display(), TRIES / 100))
    }

    /// The process that serves it.
    pub(super) fn pid(&self) -> Option<u32> {
        self.daemon.as_ref().map(Child::id)
    }

    /// Unmounts it: everything is on the device, and the daemon has ended, when this returns.
    ///
    /// # Errors
    /// If it stays mounted, or something was lost.
    pub(super) fn end(mut self) -> Result<(), String> {
        self.unmount()
    }

    fn has_ended(&mut self) -> bool {
        self.daemon.as_mut().is_none_or(|daemon| !matches!(daemon.try_wait(), Ok(None)))
    }

    fn unmount(&mut self) -> Result<(), String> {
        if self.daemon.is_none() {
            return Ok(());
        }
        let output = this_program()?.arg("umount").arg(&self.dir).output();
        let output = output.map_err(|e| format!("umount: {e}"))?;
        for _ in 0..TRIES {
            if self.has_ended() {
                break;
            }
            pause();
        }
        if let Some(mut daemon) = self.daemon.take() {
            let _ = daemon.kill();
            let _ = daemon.wait();
        }
        if output.status.success() {
            return Ok(());
        }
        Err(String::from_utf8_lossy(&output.stderr).trim().to_owned())
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = self.unmount();
    }
}

/// This program, to be run again.
pub(super) fn this_program() -> Result<Command, String> {
    let path = std::env::current_exe().map_err(|e| format!("this program: {e}"))?;
    Ok(Command::new(path))
}

/// Waits outside of any runtime.
#[allow(clippy::disallowed_methods)]
fn pause() {
    std::thread::sleep(PAUSE);
}

fn is_mounted(dir: &Path) -> bool {
    let table = std::fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let dir = dir.canonicalize().unwrap_or_else(|_| dir.into());
    table.lines().any(|line| line.split(' ').nth(4).is_some_and(|at| Path::new(at) == dir))
}
