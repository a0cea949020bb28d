//! Serves an existing directory of any file system as a [`FileSystem`]: every operation is passed
//! on to it.
//!
//! It serves to record a workload where it runs today, and to test the front end on a file system
//! that is known to work. An `O_PATH` descriptor holds every inode that the kernel knows, so that
//! its names may change, as in libfuse's `passthrough_ll`. Every operation is a system call that is
//! executed in place: nothing here ever waits.
//!
//! The superuser's mirror may hold any number of inodes, an ordinary user's only as many as the
//! limit on descriptors allows.
//!
//! If the superuser runs it, it acts with the identity of the client (see `identity`). It clears
//! the umask of the process and raises its limit on descriptors; both belong to the whole process.

mod attrs;
mod files;
mod handle;
mod identity;
mod names;
mod nodes;

use std::cell::RefCell;
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::{AtFlags, Mode, OFlags};
use rustix::io::Errno;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit, umask};
use twin_fs::{
    FileSystem, FsError, Ino, LookupEntry, Op, Reply, Request, Result, VolumeStat, mode,
};

use crate::fuse::{from_errno, sync_file_system};
use identity::Identity;
use nodes::Nodes;

/// A file system that passes all operations through to a directory of the host.
pub struct Mirror {
    nodes: RefCell<Nodes>,
    /// `/proc/self/fd`, through which held inodes are opened.
    held: OwnedFd,
    identity: Identity,
}

impl Mirror {
    /// Mirrors a directory.
    ///
    /// # Errors
    /// If it is not a directory, is not readable, or `/proc` is not mounted.
    pub fn open(source: &Path) -> io::Result<Mirror> {
        Mirror::with_fd_limit(source, raise_fd_limit())
    }

    /// As [`Mirror::open`], for a replay of what another file system answered. There a listing may
    /// have returned references to inodes that a listing here does not return, in another order
    /// and in pieces of other sizes; so forgotten inodes remain known where the host allows it, as
    /// they do on a file system whose inode numbers are its own.
    pub fn for_replay(source: &Path) -> io::Result<Mirror> {
        let mirror = Mirror::open(source)?;
        mirror.nodes.borrow_mut().keep_forgotten();
        Ok(mirror)
    }

    /// As [`Mirror::open`], with about `most_fds` descriptors at most.
    pub fn with_fd_limit(source: &Path, most_fds: usize) -> io::Result<Mirror> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root = rustix::fs::open(source, flags, Mode::empty())?;
        let held = rustix::fs::open("/proc/self/fd", flags, Mode::empty())?;
        umask(Mode::empty());
        let nodes = Nodes::new(root, most_fds)?;
        Ok(Mirror { nodes: RefCell::new(nodes), held, identity: Identity::of_process() })
    }

    fn run(&self, request: Request) -> Result<Reply, Errno> {
        let Request { id, cred, op, .. } = request;
        let _as = if changes(&op) || !cred.checked { self.identity.assume(&cred) } else { None };
        match op {
            Op::Lookup { dir, name } => self.lookup(dir, &name),
            Op::Forget { ino, count } => {
                self.nodes.borrow_mut().forget(ino, count);
                Ok(Reply::Done)
            }
            Op::GetAttr { ino } => self.get_attr(ino).map(Reply::Attr),
            Op::SetAttr { ino, set } => self.set_attr(ino, &set).map(Reply::Attr),
            Op::Access { ino, mask } => self.access(ino, mask),
            Op::ReadLink { ino } => self.read_link(ino),
            Op::MakeNode { dir, name, mode, rdev } => {
                self.make_node(dir, &name, mode::without_umask(mode), rdev)
            }
            Op::MakeDir { dir, name, mode } => self.make_dir(dir, &name, mode::without_umask(mode)),
            Op::Symlink { dir, name, target } => self.symlink(dir, &name, &target),
            Op::Create { dir, name, mode, exclusive } => {
                self.create(dir, &name, mode::without_umask(mode), exclusive)
            }
            Op::Unlink { dir, name } => self.remove(dir, &name, AtFlags::empty()),
            Op::RemoveDir { dir, name } => self.remove(dir, &name, AtFlags::REMOVEDIR),
            Op::Rename { dir, name, to_dir, to_name, mode } => {
                self.rename((dir, &name), (to_dir, &to_name), mode)
            }
            Op::Link { ino, dir, name } => self.link(ino, dir, &name),
            Op::ReadDir { dir, cookie, max_bytes, plus } => {
                self.read_dir(dir, cookie, max_bytes as usize, plus)
            }
            Op::Open { ino, read, write, truncate } => self.open_file(ino, read, write, truncate),
            Op::Release { ino } => {
                self.nodes.borrow_mut().release(ino);
                Ok(Reply::Done)
            }
            Op::Read { ino, off, len } => self.read(ino, off, len as usize),
            // The mirrored file system keeps times itself.
            Op::Write { ino, off, data } | Op::WriteBack { ino, off, data } => {
                self.write(id, ino, Some(off), &data)
            }
            Op::Append { ino, data, .. } => self.write(id, ino, None, &data),
            Op::Fsync { ino, data_only } => self.fsync(ino, data_only),
            Op::Fallocate { ino, off, len, mode } => self.fallocate(ino, off, len, mode),
            Op::Seek { ino, off, what } => self.seek(ino, off, what),
            Op::SetXattr { ino, name, value, mode } => self.set_xattr(ino, &name, &value, mode),
            Op::GetXattr { ino, name } => self.get_xattr(ino, &name),
            Op::ListXattr { ino } => self.list_xattr(ino),
            Op::RemoveXattr { ino, name } => self.remove_xattr(ino, &name),
            Op::StatFs => self.stat_fs(),
            Op::Sync => {
                let root = self.reopen(twin_fs::ROOT_INO, OFlags::RDONLY)?;
                match sync_file_system(&root.into()) {
                    Ok(()) => Ok(Reply::Done),
                    Err(error) => Err(Errno::from_io_error(&error).unwrap_or(Errno::IO)),
                }
            }
        }
    }

    /// Opens a held inode for more than its path.
    fn reopen(&self, ino: Ino, flags: OFlags) -> Result<OwnedFd, Errno> {
        let fd = self.nodes.borrow_mut().path_fd(ino)?;
        let name = rustix::path::DecInt::from_fd(&fd);
        rustix::fs::openat(&self.held, name, flags | OFlags::CLOEXEC, Mode::empty())
    }

    fn stat_fs(&self) -> Result<Reply, Errno> {
        let root = self.nodes.borrow_mut().path_fd(twin_fs::ROOT_INO)?;
        let stat = rustix::fs::fstatvfs(&root)?;
        Ok(Reply::Stat(VolumeStat {
            block_size: stat.f_frsize as u32,
            io_size: stat.f_bsize as u32,
            blocks: stat.f_blocks,
            free: stat.f_bavail,
            inodes: stat.f_files,
            free_inodes: stat.f_ffree,
        }))
    }
}

impl FileSystem for Mirror {
    async fn execute(&self, request: Request) -> Result<Reply, FsError> {
        self.run(request).map_err(|errno| from_errno(errno, "the mirrored directory"))
    }

    fn known(&self, ino: Ino) -> Option<LookupEntry> {
        let attr = self.get_attr(ino).ok()?;
        Some(LookupEntry { attr, generation: 0 })
    }
}

/// Syncs a descriptor of [`Mirror::descriptor`], on whatever thread.
///
/// # Errors
/// That of the host.
pub fn sync(file: &OwnedFd, data_only: bool) -> Result<(), FsError> {
    let synced = if data_only { rustix::fs::fdatasync(file) } else { rustix::fs::fsync(file) };
    synced.map_err(|errno| from_errno(errno, "the mirrored directory"))
}

/// True for operations whose result depends on the client even if the kernel has checked the
/// permission bits: owners of new inodes, rules of ownership, set-id bits.
fn changes(op: &Op) -> bool {
    !matches!(
        op,
        Op::Lookup { .. }
            | Op::Forget { .. }
            | Op::GetAttr { .. }
            | Op::ReadLink { .. }
            | Op::Release { .. }
            | Op::Read { .. }
            | Op::Fsync { .. }
            | Op::ReadDir { .. }
            | Op::StatFs
            | Op::GetXattr { .. }
            | Op::ListXattr { .. }
            | Op::Seek { .. }
            | Op::Sync
    )
}

/// Raises the limit on open descriptors as far as this process may, and returns it.
fn raise_fd_limit() -> usize {
    let kernel_s = std::fs::read_to_string("/proc/sys/fs/nr_open").ok();
    let kernel_s = kernel_s.and_then(|text| text.trim().parse::<u64>().ok());
    let old = getrlimit(Resource::Nofile);
    let most = |limit: u64| Rlimit { current: Some(limit), maximum: Some(limit) };
    for limit in [kernel_s, old.maximum].into_iter().flatten() {
        if setrlimit(Resource::Nofile, most(limit)).is_ok() {
            return limit as usize;
        }
    }
    old.current.unwrap_or(1024) as usize
}

#[cfg(test)]
mod tests {
    use super::*;
    use twin_fs::{ROOT_INO, SetAttr, SetTime};

    #[test]
    fn times_of_a_forgotten_inode_can_be_set_just_after_its_name_is_gone() {
        let dir = std::env::temp_dir().join(format!("twinfs-departed-{}", std::process::id()));
        std::fs::create_dir(&dir).unwrap();
        let mirror = Mirror::for_replay(&dir).unwrap();
        let run = |op| mirror.run(Request::root(1, op));
        let name: twin_fs::Name = (*b"a").into();
        let made =
            run(Op::MakeNode { dir: ROOT_INO, name: name.clone(), mode: 0o100_644, rdev: 0 });
        let Ok(Reply::Entry(entry)) = made else { panic!("{made:?}") };
        let ino = entry.attr.ino;
        run(Op::Forget { ino, count: 1 }).unwrap();
        let unlinked = run(Op::Unlink { dir: ROOT_INO, name });
        let set = SetAttr { mtime: Some(SetTime::Now), ..SetAttr::default() };
        let set = run(Op::SetAttr { ino, set });
        std::fs::remove_dir(&dir).unwrap();
        assert!(unlinked.is_ok(), "{unlinked:?}");
        // Only the superuser's mirror knows an inode that was forgotten.
        if rustix::process::geteuid().is_root() {
            assert!(set.is_ok(), "{set:?}");
        }
    }
}
