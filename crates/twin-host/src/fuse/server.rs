//! Finds the process that serves the mount at a directory.
#![allow(unsafe_code)] // An ioctl has no safe wrapper.

use std::fs::{self, File};
use std::io;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};

use super::abi::IOCTL_DAEMON;
use super::mountinfo::{MOUNT_TYPE, mounted_at};

/// The server of the mount at a directory.
pub(super) enum Server {
    /// No mount of twinfs is there.
    None,
    /// A living daemon, with the open root of its mount.
    Alive(File),
    /// The daemon has died.
    Dead,
    /// The mount belongs to another user and does not even admit the superuser.
    Unseen,
}

/// Finds the server of a directory. It does not look at the directory itself, because the kernel
/// may answer from its cache for a daemon that has died.
pub(super) fn find_server(place: &Path) -> io::Result<Server> {
    if mounted_at(place)?.is_none_or(|mounted| mounted.kind != MOUNT_TYPE) {
        return Ok(Server::None);
    }
    let dead = |error: &io::Error| {
        matches!(error.raw_os_error(), Some(libc::ENOTCONN | libc::ECONNABORTED))
    };
    match File::open(place) {
        Ok(root) => Ok(match ask_daemon(&root) {
            Err(error) if dead(&error) => Server::Dead,
            _ => Server::Alive(root),
        }),
        Err(error) if dead(&error) => Ok(Server::Dead),
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Ok(Server::Unseen),
        Err(error) => Err(error),
    }
}

/// The absolute path of a directory. It works at a dead mount as well, because only the parent is
/// resolved.
pub(super) fn resolve(dir: &Path) -> io::Result<PathBuf> {
    match (fs::canonicalize(dir), dir.parent(), dir.file_name()) {
        (Ok(place), _, _) => Ok(place),
        (Err(_), Some(parent), Some(name)) => {
            let parent = if parent.as_os_str().is_empty() { Path::new(".") } else { parent };
            Ok(fs::canonicalize(parent)?.join(name))
        }
        (Err(error), _, _) => Err(error),
    }
}

/// Asks the front end of an open root for its process number.
pub(super) fn ask_daemon(root: &File) -> io::Result<u32> {
    let mut pid = 0u32;
    // SAFETY: the request encodes its size and direction. It writes four bytes to the pointer,
    // which points to a number of that size that lives until the call ends.
    let answered =
        unsafe { libc::ioctl(root.as_raw_fd(), IOCTL_DAEMON as libc::Ioctl, &raw mut pid) };
    if answered == 0 { Ok(pid) } else { Err(io::Error::last_os_error()) }
}
