//! Unmounts from another process, and waits for the end of the daemon.
//!
//! To find the daemon, our own ioctl asks the front end at the mounted root for its process number.
//! A pidfd then holds the process, and the number is asked again: if it is the same, the pidfd
//! cannot refer to a later process. A process that has ended has released its image, and everything
//! that it wrote is on disk.
#![allow(unsafe_code)] // An ioctl has no safe wrapper.

use std::fmt;
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use super::abi::{IOCTL_LOST, IOCTL_RECORDING};
use super::mountinfo::MOUNT_TYPE;
use super::server::{Server, ask_daemon, find_server, resolve};
use super::sync_all::{ask_server, hand_over};
use super::unmounter::Unmounter;

/// Why a directory could not be unmounted.
#[derive(Debug)]
pub enum UnmountError {
    /// No mount of twinfs is there.
    NotMounted(PathBuf),
    /// Not all changes could be written. It is still mounted.
    Sync {
        /// The directory that stays mounted.
        dir: PathBuf,
        /// The error of the file system.
        error: io::Error,
    },
    /// The directory is unmounted, but not all changes could be written, because the volume had
    /// stopped taking changes.
    Lost {
        /// The directory that was mounted.
        dir: PathBuf,
        /// The error of the file system.
        error: io::Error,
    },
    /// The directory is unmounted and everything was written, but the recording of it ended early.
    Unrecorded(PathBuf),
    /// The kernel or fusermount3 refused, or a process uses it.
    Refused {
        /// The directory that stays mounted.
        dir: PathBuf,
        /// The message of the kernel or of fusermount3.
        why: String,
    },
    /// A system call failed.
    Host(io::Error),
}

impl fmt::Display for UnmountError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            UnmountError::NotMounted(dir) => {
                write!(f, "no twinfs is mounted at {}: see `mount -t {MOUNT_TYPE}`", dir.display())
            }
            UnmountError::Sync { dir, error } => {
                let dir = dir.display();
                write!(
                    f,
                    "writing out {dir}: {error}; it is still mounted. Save what you can from it; \
                     `umount {dir}` then gives up what is not on the device (is that full?)"
                )
            }
            UnmountError::Lost { dir, error } => {
                let dir = dir.display();
                write!(
                    f,
                    "{dir} is unmounted, but the volume had stopped taking changes ({error}): what \
                     was written since its last sync is lost, what was synced before is there. The \
                     system's log says why (`journalctl -t twinfs`)"
                )
            }
            UnmountError::Unrecorded(dir) => {
                let dir = dir.display();
                write!(
                    f,
                    "{dir} is unmounted and everything is there, but the recording of it had ended \
                     early: it lacks what was done later. The system's log says when and why \
                     (`journalctl -t twinfs`)"
                )
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

/// Unmounts a directory. Returns when the daemon has ended, so that everything is on disk and the
/// image is free. If the daemon has died, only the mount is removed. If the volume takes no changes
/// any more, changes that are not on the device are lost.
///
/// # Errors
/// If none of our mounts is there, if a process uses it, or if it could not be written out.
pub fn unmount(dir: &Path) -> Result<(), UnmountError> {
    unmount_telling(dir, &mut |_| {})
}

/// As [`unmount`]; calls `tell` with the name of each thing that it is about to wait for.
pub fn unmount_telling(dir: &Path, tell: &mut dyn FnMut(&str)) -> Result<(), UnmountError> {
    let by_helper = !rustix::process::geteuid().is_root();
    // A dead mount cannot be resolved itself, so its parent is.
    let place = resolve(dir).map_err(UnmountError::Host)?;
    let unmounter = Unmounter { dir: place.clone(), by_helper };
    let refused = |why| UnmountError::Refused { dir: place.clone(), why };
    tell("its daemon to answer");
    let mut whose = String::new();
    let (daemon, lost, unrecorded) = match find_server(&place).map_err(UnmountError::Host)? {
        Server::None => return Err(UnmountError::NotMounted(place)),
        Server::Dead => return unmounter.detach().map_err(refused),
        Server::Unseen => (None, None, false),
        Server::Alive(root) => {
            if let Some(pid) = named_daemon(&root) {
                whose = format!(" (process {})", pid.as_raw_nonzero());
            }
            tell(&format!("its daemon{whose} to write everything out"));
            let lost = match sync(&root) {
                Ok(()) => None,
                // A later attempt would fail too, and the waiting clients need the end of the
                // mount.
                Err((error, true)) => Some(error),
                Err((error, false)) => return Err(UnmountError::Sync { dir: place, error }),
            };
            (daemon_of(&root), lost, has_ended_recording(&root))
        }
    };
    tell(&format!("the kernel and its daemon{whose} to let go of it"));
    unmounter.unmount().map_err(refused)?;
    if let Some(daemon) = daemon {
        tell(&format!("its daemon{whose} to end"));
        wait_for_end(&daemon).map_err(UnmountError::Host)?;
    }
    match lost {
        Some(error) => Err(UnmountError::Lost { dir: place, error }),
        None if unrecorded => Err(UnmountError::Unrecorded(place)),
        None => Ok(()),
    }
}

/// Writes out what the kernel holds, then what the daemon holds. Errors are returned from here,
/// where the user sees them. The flag with an error is true if the volume takes no changes any
/// more, so that a later attempt would fail in the same way.
///
/// The kernel reports each failed write in the life of the mount once, to the first caller that
/// syncs the whole mount, even if the writer has received the error long ago. Therefore the daemon
/// is asked before and after how many writes have failed.
fn sync(root: &File) -> Result<(), (io::Error, bool)> {
    let before = lost_writes(root);
    let kernel = hand_over(root);
    let lost = before.is_none() || before != lost_writes(root);
    if let Err(error) = ask_server(root) {
        let stopped = matches!(error.raw_os_error(), Some(libc::EIO | libc::EROFS));
        return Err((error, stopped));
    }
    match kernel {
        Err(error) if lost => Err((error, false)),
        _ => Ok(()),
    }
}

/// The number of the kernel's own writes that the daemon could not carry out so far. `None` if the
/// daemon does not support the question, as in older versions.
fn lost_writes(root: &File) -> Option<u64> {
    let mut lost = 0u64;
    // SAFETY: the request encodes its size and direction. It writes eight bytes to the pointer,
    // which points to a number of that size that lives until the call ends.
    let answered =
        unsafe { libc::ioctl(root.as_raw_fd(), IOCTL_LOST as libc::Ioctl, &raw mut lost) };
    (answered == 0).then_some(lost)
}

/// True if the mount was to be recorded, and was not until now.
fn has_ended_recording(root: &File) -> bool {
    let mut ended = 0u32;
    // SAFETY: the request encodes its size and direction. It writes four bytes to the pointer, which
    // points to a number of that size that lives until the call ends.
    let answered =
        unsafe { libc::ioctl(root.as_raw_fd(), IOCTL_RECORDING as libc::Ioctl, &raw mut ended) };
    answered == 0 && ended != 0
}

fn named_daemon(root: &File) -> Option<Pid> {
    Pid::from_raw(i32::try_from(ask_daemon(root).ok()?).ok()?)
}

/// The daemon that serves a mount. `None` if it is not visible from here (another pid namespace).
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
