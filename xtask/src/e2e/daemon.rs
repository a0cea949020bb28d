//! The processes that serve mounts, found by their arguments.
//!
//! The background process is a fork of `twinfs mount IMAGE DIR` and keeps its arguments. Everything
//! that the scenarios mount lies in folders of this run, so an argument below such a folder
//! identifies one of our daemons. The mount itself cannot be asked, because it may hang.

use std::ffi::OsStr;
use std::fs;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::Duration;

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use crate::clock::{Stopwatch, pause_ms};
use crate::processes;

/// Time limit for a killed process to exit.
const PATIENCE: Duration = Duration::from_secs(10);

/// A daemon, held by a file descriptor so that its process number cannot be reused.
pub(crate) struct Daemon {
    pid: Pid,
    held: OwnedFd,
}

impl Daemon {
    /// The daemon that serves a directory, if there is one.
    pub(crate) fn of_mount(dir: &Path) -> Option<Daemon> {
        find(dir).into_iter().next()
    }

    /// Kills it with SIGKILL, so that it cannot write anything, and waits until it has exited.
    pub(crate) fn kill(&self) {
        let _ = pidfd_send_signal(&self.held, Signal::KILL);
        let watch = Stopwatch::start();
        while self.lives() && watch.elapsed() < PATIENCE {
            pause_ms(1);
        }
    }

    /// Whether it is still running.
    pub(crate) fn lives(&self) -> bool {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.pid.as_raw_nonzero()));
        let signalled = rustix::process::test_kill_process(self.pid).is_ok();
        // A zombie, which has exited but was not waited for, is not running.
        let dead = stat.is_ok_and(|stat| stat.rsplit(')').next().unwrap_or("").starts_with(" Z"));
        signalled && !dead
    }
}

/// Kills all daemons that serve anything below a folder.
pub(crate) fn kill_all(below: &Path) {
    for daemon in find(below) {
        daemon.kill();
    }
}

/// All processes of the program that have an argument at or below a path.
fn find(below: &Path) -> Vec<Daemon> {
    processes::all().into_iter().filter_map(|pid| hold(pid, below)).collect()
}

/// Holds a process if it is such a daemon, and checks this again after holding it.
fn hold(pid: Pid, below: &Path) -> Option<Daemon> {
    if !is_ours(pid, below) {
        return None;
    }
    let held = pidfd_open(pid, PidfdFlags::empty()).ok()?;
    is_ours(pid, below).then_some(Daemon { pid, held })
}

fn is_ours(pid: Pid, below: &Path) -> bool {
    let Ok(line) = fs::read(format!("/proc/{}/cmdline", pid.as_raw_nonzero())) else {
        return false;
    };
    serves(&line, below)
}

/// Whether a command line, with zero-terminated arguments, mounts at or below a path.
fn serves(line: &[u8], below: &Path) -> bool {
    let arguments: Vec<&Path> =
        line.split(|&byte| byte == 0).map(|part| Path::new(OsStr::from_bytes(part))).collect();
    let twinfs = arguments.first().and_then(|first| first.file_name());
    twinfs.is_some_and(|name| name == "twinfs")
        && arguments.get(1) == Some(&Path::new("mount"))
        && arguments[2..].iter().any(|argument| argument.starts_with(below))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_mounts_of_the_program_below_the_path_are_ours() {
        let below = Path::new("/tmp/run");
        assert!(serves(b"/tmp/run/twinfs\0mount\0/tmp/run/a.img\0/tmp/run/mnt\0", below));
        assert!(serves(b"twinfs\0mount\0/dev/loop0\0/tmp/run/mnt\0", below));
        assert!(!serves(b"twinfs\0mount\0/tmp/other.img\0/mnt\0", below));
        assert!(!serves(b"twinfs\0check\0/tmp/run/a.img\0", below));
        assert!(!serves(b"vi\0mount\0/tmp/run/a.img\0", below));
        assert!(!serves(b"", below));
    }

    #[test]
    fn a_mount_is_told_from_its_neighbour() {
        let line = b"twinfs\0mount\0/tmp/run/a.img\0/tmp/run/mnt\0";
        assert!(serves(line, Path::new("/tmp/run/mnt")));
        assert!(!serves(line, Path::new("/tmp/run/mn")));
    }
}
