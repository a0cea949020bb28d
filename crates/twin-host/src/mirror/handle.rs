//! Handles: names of inodes that remain valid when descriptors are closed. Only the superuser may
//! open them.
#![allow(unsafe_code)] // Handles have no safe wrapper.

use std::mem::offset_of;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use rustix::io::Errno;

/// The longest handle of any file system (MAX_HANDLE_SZ), in bytes.
const MAX_LEN: usize = 128;

/// The host's `struct file_handle` with room for any handle.
#[repr(C)]
struct Raw {
    len: u32,
    kind: i32,
    bytes: [u8; MAX_LEN],
}

const _: () = assert!(offset_of!(Raw, bytes) == size_of::<libc::file_handle>());

/// Names an inode of one file system, even after it was removed or its number was reused.
pub(super) struct Handle {
    kind: i32,
    bytes: Box<[u8]>,
}

impl Handle {
    /// The handle of an open inode.
    pub(super) fn of(fd: &OwnedFd) -> Result<Handle, Errno> {
        let mut raw = Raw { len: MAX_LEN as u32, kind: 0, bytes: [0; MAX_LEN] };
        let mut mount = 0;
        // SAFETY: the path is a constant string; the handle points to a structure of the layout
        // that the call wants (asserted above) with as much room behind it as its length says;
        // the mount number goes to a live integer.
        let done = unsafe {
            let handle = (&raw mut raw).cast();
            let flags = libc::AT_EMPTY_PATH;
            libc::name_to_handle_at(fd.as_raw_fd(), c"".as_ptr(), handle, &raw mut mount, flags)
        };
        if done != 0 {
            return Err(last_error());
        }
        Ok(Handle { kind: raw.kind, bytes: raw.bytes[..raw.len as usize].into() })
    }

    /// Opens the inode as a path only. `mount` is any open directory of its file system.
    pub(super) fn open(&self, mount: &OwnedFd) -> Result<OwnedFd, Errno> {
        let mut raw = Raw { len: self.bytes.len() as u32, kind: self.kind, bytes: [0; MAX_LEN] };
        raw.bytes[..self.bytes.len()].copy_from_slice(&self.bytes);
        let flags = libc::O_PATH | libc::O_CLOEXEC;
        // SAFETY: the handle is laid out as above and lives through the call, which only reads it.
        let fd =
            unsafe { libc::open_by_handle_at(mount.as_raw_fd(), (&raw mut raw).cast(), flags) };
        if fd < 0 {
            return Err(last_error());
        }
        // SAFETY: the call has just opened the descriptor, and nothing else owns it.
        Ok(unsafe { OwnedFd::from_raw_fd(fd) })
    }
}

fn last_error() -> Errno {
    Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::IO)
}
