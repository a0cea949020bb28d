//! Unmounting from outside, and waiting for the daemon to go.
//!
//! How the daemon is found: its front end answers an ioctl of our own on the mounted root with
//! its process number. The process is then held by a pidfd, and the number asked again: if it is
//! still the same, the descriptor cannot mean another process that came later. A process that has
//! ended has let go of its image, and everything that it wrote is on disk.
#![allow(unsafe_code)] // An ioctl has no safe wrapper.

use std::fmt;
use std::fs::{self, File};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use super::abi::IOCTL_DAEMON;
use super::mount::{MOUNT_TYPE, Unmounter};
use super::mountinfo::mounted_at;

/// Why a directory could not be unmounted.
#[derive(Debug)]
pub enum UnmountError {
    /// None of ours is mounted there.
    NotMounted(PathBuf),
    /// Not everything could be written: it is still mounted.
    Sync {
        /// The directory.
        dir: PathBuf,
        /// What the file system said.
        error: io::Error,
    },
    /// The kernel or fusermount3 refused; somebody uses it.
    Refused {
        /// The directory.
        dir: PathBuf,
        /// What it said.
        why: String,
    },
    /// The host refused.
    Host(io::Error),
}

impl fmt::Display for UnmountError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            UnmountError::NotMounted(dir) => {
                write!(f, "no twinfs is mounted at {}: see `mount -t {MOUNT_TYPE}`", dir.display())
            }
            UnmountError::Sync { dir, error } => {
                write!(f, "writing out {}: {error}; it is still mounted", dir.display())
            }
            UnmountError::Refused { dir, why } => {
                let dir = dir.display();
                write!(f, "cannot unmount {dir}: {why}: close what uses it (`fuser -vm {dir}`)")
            }
            UnmountError::Host(error) => write!(f, "{error}"),
        }
    }
}

impl std::error::Error for UnmountError {}

/// Unmounts a directory. Returns once its daemon has ended, so that everything is on disk and the
/// image is free. A mount whose daemon has died is only taken away.
///
/// # Errors
/// If none of ours is mounted there, if somebody uses it, or if it could not be written out.
pub fn unmount(dir: &Path) -> Result<(), UnmountError> {
    let by_helper = !rustix::process::geteuid().is_root();
    // A dead mount cannot be resolved by asking it, so ask its parent.
    let place = resolve(dir).map_err(UnmountError::Host)?;
    let ours =
        mounted_at(&place).map_err(UnmountError::Host)?.is_some_and(|m| m.kind == MOUNT_TYPE);
    if !ours {
        return Err(UnmountError::NotMounted(place));
    }
    let unmounter = Unmounter { dir: place.clone(), by_helper };
    let refused = |why| UnmountError::Refused { dir: place.clone(), why };
    let daemon = match File::open(&place) {
        Ok(root) => {
            sync(&root).map_err(|error| UnmountError::Sync { dir: place.clone(), error })?;
            daemon_of(&root)
        }
        Err(error) if error.raw_os_error() == Some(libc::ENOTCONN) => {
            return unmounter.detach().map_err(refused);
        }
        // Somebody else's mount, which does not let even the superuser in.
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => None,
        Err(error) => return Err(UnmountError::Host(error)),
    };
    unmounter.unmount().map_err(refused)?;
    match daemon {
        Some(daemon) => wait_for_end(&daemon).map_err(UnmountError::Host),
        None => Ok(()),
    }
}

/// Writes out. What fails is told here, where somebody hears it.
fn sync(root: &File) -> io::Result<()> {
    match root.sync_all() {
        Err(error) if error.raw_os_error() == Some(libc::EROFS) => Ok(()),
        result => result,
    }
}

fn resolve(dir: &Path) -> io::Result<PathBuf> {
    match (fs::canonicalize(dir), dir.parent(), dir.file_name()) {
        (Ok(place), _, _) => Ok(place),
        (Err(_), Some(parent), Some(name)) => {
            let parent = if parent.as_os_str().is_empty() { Path::new(".") } else { parent };
            Ok(fs::canonicalize(parent)?.join(name))
        }
        (Err(error), _, _) => Err(error),
    }
}

fn named_daemon(root: &File) -> Option<Pid> {
    let mut pid = 0u32;
    // SAFETY: the request has its size and direction in its number: it writes four bytes to where
    // the pointer points, which is a number of that size that lives until the call ends.
    let answered = unsafe {
        libc::ioctl(root.as_raw_fd(), libc::Ioctl::from(IOCTL_DAEMON), &raw mut pid) == 0
    };
    if answered { Pid::from_raw(i32::try_from(pid).ok()?) } else { None }
}

/// The daemon that serves a mount; none if it cannot be seen from here (another pid namespace).
fn daemon_of(root: &File) -> Option<OwnedFd> {
    let pid = named_daemon(root)?;
    let daemon = pidfd_open(pid, PidfdFlags::empty()).ok()?;
    (named_daemon(root)? == pid).then_some(daemon)
}

fn wait_for_end(daemon: &OwnedFd) -> io::Result<()> {
    loop {
        let mut fds = [PollFd::new(daemon, PollFlags::IN)];
        match poll(&mut fds, None) {
            Ok(_) => return Ok(()),
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
}
