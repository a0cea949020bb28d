//! Attributes, permissions and extended attributes.

use std::ffi::OsStr;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::rc::Rc;

use rustix::fs::{
    Access, AtFlags, Gid, Mode, OFlags, Timespec, Timestamps, UTIME_NOW, UTIME_OMIT, Uid,
    XattrFlags, chmodat, chownat, utimensat,
};
use rustix::io::Errno;
use rustix::path::DecInt;
use twin_fs::{Attr, Ino, Reply, Result, SetAttr, SetTime, XattrMode};

use super::Mirror;

/// The largest value and list of extended attributes (XATTR_SIZE_MAX), in bytes.
const XATTR_MAX: usize = 64 << 10;

impl Mirror {
    pub(super) fn get_attr(&self, ino: Ino) -> Result<Attr, Errno> {
        self.nodes.borrow_mut().attr(ino)
    }

    pub(super) fn set_attr(&self, ino: Ino, set: &SetAttr) -> Result<Attr, Errno> {
        let fd = self.nodes.borrow_mut().path_fd(ino)?;
        if let Some(size) = set.size {
            self.set_size(ino, size)?;
        }
        if set.uid.is_some() || set.gid.is_some() {
            let (uid, gid) = (set.uid.map(Uid::from_raw), set.gid.map(Gid::from_raw));
            chownat(&*fd, c"", uid, gid, AtFlags::EMPTY_PATH)?;
        }
        // After the owner, because a change of the owner clears set-id bits.
        if let Some(mode) = set.mode {
            let mode = Mode::from_raw_mode(mode);
            chmodat(&self.held, DecInt::from_fd(&*fd), mode, AtFlags::empty())?;
        }
        if set.atime.is_some() || set.mtime.is_some() {
            let times = Timestamps {
                last_access: timespec(set.atime),
                last_modification: timespec(set.mtime),
            };
            utimensat(&*fd, c"", &times, AtFlags::EMPTY_PATH)?;
        }
        // The host sets change times; no call sets them.
        self.get_attr(ino)
    }

    fn set_size(&self, ino: Ino, size: u64) -> Result<(), Errno> {
        let files = self.nodes.borrow().files(ino)?;
        let file = match files.write {
            Some(file) => file,
            None => Rc::new(self.reopen(ino, OFlags::WRONLY)?),
        };
        rustix::fs::ftruncate(&*file, size)
    }

    pub(super) fn access(&self, ino: Ino, mask: u32) -> Result<Reply, Errno> {
        let fd = self.nodes.borrow_mut().path_fd(ino)?;
        let mut access = Access::EXISTS;
        access.set(Access::READ_OK, mask & 4 != 0);
        access.set(Access::WRITE_OK, mask & 2 != 0);
        access.set(Access::EXEC_OK, mask & 1 != 0);
        // Checks the identity that the thread has assumed, not that of the process.
        let flags = AtFlags::EACCESS;
        rustix::fs::accessat(&self.held, DecInt::from_fd(&*fd), access, flags)?;
        Ok(Reply::Done)
    }

    /// A path to a held inode, for calls that take no descriptor of a path.
    fn held_path(&self, ino: Ino) -> Result<(Rc<OwnedFd>, String), Errno> {
        let fd = self.nodes.borrow_mut().path_fd(ino)?;
        let path = format!("/proc/self/fd/{}", fd.as_raw_fd());
        Ok((fd, path))
    }

    pub(super) fn set_xattr(
        &self,
        ino: Ino,
        name: &[u8],
        value: &[u8],
        mode: XattrMode,
    ) -> Result<Reply, Errno> {
        let (_held, path) = self.held_path(ino)?;
        let flags = match mode {
            XattrMode::Any => XattrFlags::empty(),
            XattrMode::Create => XattrFlags::CREATE,
            XattrMode::Replace => XattrFlags::REPLACE,
        };
        rustix::fs::setxattr(path, OsStr::from_bytes(name), value, flags)?;
        Ok(Reply::Done)
    }

    pub(super) fn get_xattr(&self, ino: Ino, name: &[u8]) -> Result<Reply, Errno> {
        let (_held, path) = self.held_path(ino)?;
        // Most requests are for attributes that do not exist, so a small buffer is tried first.
        let mut value = vec![0u8; 256];
        let name = OsStr::from_bytes(name);
        let len = match rustix::fs::getxattr(&path, name, &mut value[..]) {
            Err(Errno::RANGE) => {
                value.resize(XATTR_MAX, 0);
                rustix::fs::getxattr(&path, name, &mut value[..])?
            }
            result => result?,
        };
        value.truncate(len);
        Ok(Reply::Bytes(value.into()))
    }

    pub(super) fn list_xattr(&self, ino: Ino) -> Result<Reply, Errno> {
        let (_held, path) = self.held_path(ino)?;
        let mut names = vec![0u8; XATTR_MAX];
        let len = rustix::fs::listxattr(path, &mut names[..])?;
        names.truncate(len);
        Ok(Reply::Bytes(names.into()))
    }

    pub(super) fn remove_xattr(&self, ino: Ino, name: &[u8]) -> Result<Reply, Errno> {
        let (_held, path) = self.held_path(ino)?;
        rustix::fs::removexattr(path, OsStr::from_bytes(name))?;
        Ok(Reply::Done)
    }
}

fn timespec(time: Option<SetTime>) -> Timespec {
    match time {
        None => Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT },
        Some(SetTime::Now) => Timespec { tv_sec: 0, tv_nsec: UTIME_NOW },
        Some(SetTime::At(at)) => Timespec { tv_sec: at.secs, tv_nsec: i64::from(at.nanos) },
    }
}
