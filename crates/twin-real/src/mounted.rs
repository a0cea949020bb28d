//! A file system that is mounted, by the kernel or by a daemon that is our child.
//!
//! Contract: what is mounted here is unmounted, and its daemon has ended, when the value is dropped, whatever
//! happened in between. [`Mounted::end`] is the way that reports loss.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use crate::runner::{Runner, output};
use crate::systems::{Mount, System};

/// How often, and after which pause, to look whether a mount is there or has gone: ten seconds.
const TRIES: u32 = 1000;
const PAUSE: Duration = Duration::from_millis(10);
/// How often a mount that somebody uses is asked to go before it is taken out of the tree.
const TRIES_OF_BUSY: u32 = 20;

/// A mounted file system and its daemon.
#[derive(Debug)]
pub struct Mounted {
    dir: PathBuf,
    /// This program, if it serves the mount: it also unmounts it, and says what was lost.
    program: Option<PathBuf>,
    /// The tmpfs below it.
    memory: Option<PathBuf>,
    daemon: Option<Child>,
    /// It is out of the way, and another may be in its place.
    ended: bool,
}

impl Mounted {
    /// Mounts what is on `device`; see [`Runner::mount`].
    pub(crate) fn new(
        runner: &Runner<'_>,
        system: &System,
        device: &Path,
        dir: &Path,
        options: &[&str],
    ) -> Result<Mounted, String> {
        make_dir(dir)?;
        let program = system.is_ours().then(|| runner.program.clone());
        let mut mounted =
            Mounted { dir: dir.into(), program, memory: None, daemon: None, ended: false };
        match system.mount() {
            Mount::Kernel(fs, fs_options) => {
                let mut mount = Command::new("mount");
                mount.args(["-t", fs, "-o", fs_options]).arg(device).arg(dir);
                output(&mut mount)?;
            }
            Mount::Daemon(words) => {
                let mut more = system.mount_words();
                more.extend(options);
                mounted.start(runner, words, &more, device)?;
            }
            Mount::OverMemory(words) => {
                let memory = dir.with_extension("memory");
                make_dir(&memory)?;
                let mut mount = Command::new("mount");
                output(mount.args(["-t", "tmpfs", "tmpfs"]).arg(&memory))?;
                mounted.memory = Some(memory.clone());
                mounted.start(runner, words, options, &memory)?;
            }
        }
        Ok(mounted)
    }

    /// Starts the daemon, with more words at the end, and waits until it has mounted.
    fn start(
        &mut self,
        runner: &Runner<'_>,
        words: &[&str],
        more: &[&str],
        device: &Path,
    ) -> Result<(), String> {
        let mut command = Command::new(runner.tool(words[0]));
        for word in words[1..].iter().chain(more) {
            match *word {
                "DEVICE" => command.arg(device),
                "DIR" => command.arg(&self.dir),
                word => command.arg(word),
            };
        }
        // A terminal's interrupt is ours to answer.
        std::os::unix::process::CommandExt::process_group(&mut command, 0);
        // Other daemons may say more than a pipe holds that nobody reads.
        let said = if self.program.is_some() { Stdio::piped() } else { Stdio::null() };
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(said);
        self.daemon = Some(command.spawn().map_err(|e| format!("{}: {e}", words[0]))?);
        for _ in 0..TRIES {
            if is_mounted(&self.dir) {
                return Ok(());
            }
            if self.has_exited() {
                return Err(self.last_words(words[0]));
            }
            pause();
        }
        let seconds = PAUSE.as_millis() as u64 * u64::from(TRIES) / 1000;
        Err(format!("{}: {} has not mounted it after {seconds} s", self.dir.display(), words[0]))
    }

    /// What a daemon said that did not mount.
    fn last_words(&mut self, name: &str) -> String {
        let output = self.daemon.take().and_then(|daemon| daemon.wait_with_output().ok());
        let Some(output) = output else { return format!("{name} ended before it mounted") };
        match String::from_utf8_lossy(&output.stderr).trim() {
            "" => format!("{name} ended before it mounted: {}", output.status),
            said => format!("{name}: {said}"),
        }
    }

    /// The process that serves it.
    pub fn pid(&self) -> Option<u32> {
        self.daemon.as_ref().map(Child::id)
    }

    /// Unmounts it: everything is on the device, and the daemon has ended, when this returns.
    ///
    /// # Errors
    /// If something was lost, as far as its daemon says.
    pub fn end(mut self) -> Result<(), String> {
        self.unmount()
    }

    fn has_exited(&mut self) -> bool {
        self.daemon.as_mut().is_none_or(|daemon| !matches!(daemon.try_wait(), Ok(None)))
    }

    fn unmount(&mut self) -> Result<(), String> {
        if std::mem::replace(&mut self.ended, true) {
            return Ok(());
        }
        let ended = match (&self.program, &self.daemon) {
            // It failed to mount.
            (Some(_), None) => Ok(()),
            (Some(program), Some(_)) => unmount_ours(program, &self.dir),
            (None, _) => {
                unmount(&self.dir);
                Ok(())
            }
        };
        for _ in 0..TRIES {
            if self.has_exited() {
                break;
            }
            pause();
        }
        if let Some(mut daemon) = self.daemon.take() {
            let _ = daemon.kill();
            let _ = daemon.wait();
        }
        if let Some(memory) = self.memory.take() {
            unmount(&memory);
        }
        ended
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = self.unmount();
    }
}

fn make_dir(dir: &Path) -> Result<(), String> {
    match std::fs::create_dir(dir) {
        Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => {
            Err(format!("{}: {error}", dir.display()))
        }
        _ => Ok(()),
    }
}

/// Has this program unmount one of its mounts, which waits until its daemon has ended.
fn unmount_ours(program: &Path, dir: &Path) -> Result<(), String> {
    let output = Command::new(program).arg("umount").arg(dir).stdin(Stdio::null()).output();
    let output = output.map_err(|e| format!("umount: {e}"))?;
    match output.status.success() {
        true => Ok(()),
        false => Err(String::from_utf8_lossy(&output.stderr).trim().to_owned()),
    }
}

/// Unmounts; if a process keeps it busy, takes it out of the tree.
fn unmount(dir: &Path) {
    for _ in 0..TRIES_OF_BUSY {
        if !is_mounted(dir) || output(Command::new("umount").arg(dir)).is_ok() {
            return;
        }
        pause();
    }
    let _ = output(Command::new("umount").arg("--lazy").arg(dir));
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
