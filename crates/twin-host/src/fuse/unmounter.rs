//! Unmounts with umount(2) as the superuser, with fusermount3 as an ordinary user.

use std::fs;
use std::io;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use rustix::mount::UnmountFlags;

/// The program that mounts and unmounts for ordinary users.
pub(super) const HELPER: &str = "fusermount3";
/// How often, and at which interval, to try to unmount a mount in use: desktops look at new mounts
/// for a moment.
const BUSY_TRIES: u32 = 10;
const BUSY_PAUSE: Duration = Duration::from_millis(20);

/// Unmounts. The process that serves the mount must not do it: the kernel may send requests to the
/// file system first.
#[derive(Clone, Debug)]
pub(super) struct Unmounter {
    pub(super) dir: PathBuf,
    pub(super) by_helper: bool,
}

impl Unmounter {
    /// Unmounts, unless a process keeps using the mount.
    #[allow(clippy::disallowed_methods)] // Never in the process of the core: see above.
    pub(super) fn unmount(&self) -> Result<(), String> {
        for _ in 1..BUSY_TRIES {
            match self.run(UnmountFlags::NOFOLLOW, &["-u"]) {
                Err(why) if why.contains("busy") => thread::sleep(BUSY_PAUSE),
                result => return result,
            }
        }
        self.run(UnmountFlags::NOFOLLOW, &["-u"])
    }

    /// Removes the mount from the tree. It ends when its last user is gone.
    pub(super) fn detach(&self) -> Result<(), String> {
        self.run(UnmountFlags::NOFOLLOW | UnmountFlags::DETACH, &["-u", "-z"])
    }

    /// Unmounts. If a process uses the mount, writes out what the kernel holds and detaches it.
    pub(super) fn unmount_or_detach(&self) -> Result<(), String> {
        if self.unmount().is_ok() {
            return Ok(());
        }
        if let Ok(dir) = fs::File::open(&self.dir) {
            let _ = rustix::fs::syncfs(&dir);
        }
        self.detach()
    }

    fn run(&self, flags: UnmountFlags, helper_flags: &[&str]) -> Result<(), String> {
        if !self.by_helper {
            return rustix::mount::unmount(&self.dir, flags)
                .map_err(|errno| io::Error::from(errno).to_string());
        }
        let mut command = Command::new(HELPER);
        command.args(helper_flags).arg("--").arg(&self.dir).stdin(Stdio::null());
        let output = command.output().map_err(|error| format!("{HELPER}: {error}"))?;
        if output.status.success() {
            return Ok(());
        }
        Err(String::from_utf8_lossy(&output.stderr).trim().to_string())
    }
}
