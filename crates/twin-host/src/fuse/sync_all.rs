//! Makes everything on a mounted file system durable, whatever it is.
//!
//! The kernel does not tell a FUSE server of sync(2) and syncfs(2): it hands over what it has
//! collected, and returns. Ours answer a request of their own besides; for other servers an fsync of
//! the directory is all that reaches them.
#![allow(unsafe_code)] // An ioctl has no safe wrapper.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;

use super::abi::{IOCTL_FETCH, IOCTL_SYNC};

/// The type of file systems by FUSE, as statfs tells it.
pub(crate) const FUSE_TYPE: u64 = 0x6573_5546;

/// Makes everything durable on the file system of this directory.
///
/// # Errors
/// Those of the kernel, and of the server.
pub fn sync_file_system(dir: &File) -> io::Result<()> {
    rustix::fs::syncfs(dir)?;
    let about = rustix::fs::fstatfs(dir)?;
    if about.f_type as u64 & 0xffff_ffff != FUSE_TYPE {
        return Ok(());
    }
    let is_unknown = |error: &io::Error| {
        matches!(
            error.raw_os_error(),
            Some(libc::ENOTTY | libc::ENOSYS | libc::EINVAL | libc::EOPNOTSUPP | libc::EPERM)
        )
    };
    match ask_server(dir) {
        Err(error) if is_unknown(&error) => {}
        done => return done,
    }
    match rustix::fs::fsync(dir).map_err(io::Error::from) {
        // Some cannot sync directories.
        Err(error) if is_unknown(&error) => Ok(()),
        done => done,
    }
}

/// Has the kernel hand over what it has collected for the file system of this directory, and waits
/// until it has arrived at the server, if that is one of ours: syncfs does not wait for that.
pub fn hand_over(dir: &File) -> io::Result<()> {
    rustix::fs::syncfs(dir)?;
    // SAFETY: the request carries no data, so its third argument is not used.
    let fetched = unsafe { libc::ioctl(dir.as_raw_fd(), IOCTL_FETCH as libc::Ioctl, 0) };
    match io::Error::last_os_error() {
        error if fetched != 0 && error.raw_os_error() == Some(libc::EIO) => Err(error),
        // Others, and older ones of ours, do not know the request.
        _ => Ok(()),
    }
}

/// Asks the server of one of our mounts to make everything durable.
///
/// # Errors
/// Its error; ENOTTY or another one if it is none of ours.
pub(super) fn ask_server(dir: &File) -> io::Result<()> {
    // SAFETY: the request carries no data, so its third argument is not used.
    let synced = unsafe { libc::ioctl(dir.as_raw_fd(), IOCTL_SYNC as libc::Ioctl, 0) };
    if synced == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_of_another_file_system_is_synced_by_the_kernel_alone() {
        let dir = File::open(std::env::temp_dir()).unwrap();
        sync_file_system(&dir).unwrap();
    }
}
