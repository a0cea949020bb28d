//! The operations of clients; each file contains one operation or a few related ones.
//!
//! Contract: an operation first loads what it needs, which may wait, and then changes the state in
//! one step without waiting, so that a log write or a crash between two steps sees only whole
//! operations. Long truncations and allocations take several steps, each of which leaves a
//! consistent state. This is the only layer that is called from outside, through
//! [`Operations::run`]. It asks [`perm`] who may do what; the layers below do the work.

mod acl;
mod attr;
mod create;
mod file;
mod lookup;
mod quota;
mod read_dir;
mod reconnect;
mod remove;
mod rename;
mod xattr;
mod xattr_store;

use std::rc::Rc;

pub(crate) use read_dir::entry_cost;
use rename::NameIn;
use twin_rt::{RwLock, Time};

use crate::core::Core;
use crate::data::{Files, WriteAt};
use crate::dir::Directories;
use crate::file_type::streams::Streams;
use crate::inodes::Inode;
use crate::layout::{Layout, SyncScope};
use crate::orphans::Orphans;
use crate::{Ino, LookupEntry, Op, OpKind, Peeked, Reply, Request, Result, Work, perm};

/// The operations on a volume, and the layers that they work on.
pub(crate) struct Operations {
    core: Rc<Core>,
    layout: Rc<dyn Layout>,
    files: Rc<Files>,
    orphans: Rc<Orphans>,
    dirs: Directories,
    /// Held while a name moves between two directories. No directory can move meanwhile, so the
    /// check that a directory does not move below itself stays valid.
    rename_lock: RwLock,
    /// Held while the quotas of the volume change.
    quota_lock: RwLock,
    streams: Streams,
}

impl Operations {
    pub(crate) fn new(core: &Rc<Core>, layout: &Rc<dyn Layout>) -> Operations {
        let rename_lock = RwLock::new();
        let quota_lock = RwLock::new();
        rename_lock.yield_in(&core.rt);
        quota_lock.yield_in(&core.rt);
        let files = Files::new(core, layout);
        let orphans = Orphans::new(core, layout, &files);
        Operations {
            core: Rc::clone(core),
            layout: Rc::clone(layout),
            dirs: Directories::new(core, layout, &files, &orphans),
            files,
            orphans,
            rename_lock,
            quota_lock,
            streams: Streams::default(),
        }
    }

    /// See [`Orphans::finish`].
    pub(crate) async fn finish_orphan(&self, ino: Ino) -> Result<()> {
        self.orphans.finish(ino).await
    }

    /// Drops the references and opens of all clients, and frees the inodes that only these held.
    pub(crate) async fn drop_clients(&self) -> Result<()> {
        self.streams.close_all(&self.core);
        for ino in self.core.drop_refs() {
            self.orphans.reap(ino).await?;
        }
        Ok(())
    }

    /// The entry of an inode for a reply. The call adds the reference that the reply carries.
    fn entry(&self, inode: &Inode) -> LookupEntry {
        self.core.change_refs(inode.ino, |refs| refs.entries += 1);
        LookupEntry { attr: inode.attr(), generation: inode.d.borrow().generation }
    }

    /// See [`FileSystem::peek`](crate::FileSystem::peek).
    pub(crate) fn peek(&self, dir: Ino, name: &[u8]) -> Peeked {
        match self.core.cached_inode(dir) {
            Some(inode) if inode.d.borrow().is_dir() => self.dirs.peek(&inode, name),
            _ => Peeked::Unknown,
        }
    }

    /// See [`FileSystem::due`](crate::FileSystem::due). Nobody asks where the order of tasks knows no deadlines.
    pub(crate) fn due(&self, op: &Op) -> Option<Time> {
        match *op {
            Op::Read { ino, off, len } if self.core.rt.knows_deadlines() => {
                let stream = self.streams.of(ino, off, self.core.geometry.block_size)?;
                stream.due(self.core.rt.now(), off, len)
            }
            _ => None,
        }
    }

    /// Executes one request. What would make the future of every operation larger, because it takes more than
    /// others, is boxed.
    pub(crate) async fn run(&self, request: Request) -> Result<Reply> {
        let Request { id, cred, op, .. } = request;
        self.core.cpu.charge(Work::Op(kind_of(&op))).await;
        if op.changes_volume() {
            self.core.check_writable()?;
        }
        match op {
            Op::Lookup { dir, name } => self.op_lookup(dir, &name, &cred).await,
            Op::Forget { ino, count } => self.op_forget(ino, count).await,
            Op::GetAttr { ino } => Ok(Reply::Attr(self.files.inode(ino).await?.attr())),
            Op::SetAttr { ino, set } => self.op_set_attr(ino, &set, &cred, id).await,
            Op::ReadLink { ino } => self.op_read_link(ino).await,
            Op::MakeNode { dir, name, mode, rdev } => {
                self.op_make_node(dir, &name, mode, rdev, &cred).await
            }
            Op::MakeDir { dir, name, mode } => self.op_make_dir(dir, &name, mode, &cred).await,
            Op::Symlink { dir, name, target } => self.op_symlink(dir, &name, &target, &cred).await,
            Op::Create { dir, name, mode, exclusive } => {
                self.op_create(dir, &name, mode, exclusive, &cred).await
            }
            Op::Unlink { dir, name } => self.op_remove(dir, &name, false, &cred).await,
            Op::RemoveDir { dir, name } => self.op_remove(dir, &name, true, &cred).await,
            Op::Rename { dir, name, to_dir, to_name, mode } => {
                let from = NameIn { dir, name: &name };
                let to = NameIn { dir: to_dir, name: &to_name };
                Box::pin(self.op_rename(from, to, mode, &cred)).await
            }
            Op::Link { ino, dir, name } => self.op_link(ino, dir, &name, &cred).await,
            Op::Open { ino, read, write, truncate } => {
                self.op_open(ino, read, write, truncate, &cred, id).await
            }
            Op::Release { ino } => self.op_release(ino).await,
            Op::Read { ino, off, len } => self.op_read(ino, off, len).await,
            Op::Write { ino, off, data } => {
                self.op_write(ino, WriteAt::At(off), &data, Some(&cred), id).await
            }
            Op::Append { ino, data, .. } => {
                self.op_write(ino, WriteAt::End, &data, Some(&cred), id).await
            }
            Op::WriteBack { ino, off, data } => {
                self.op_write(ino, WriteAt::At(off), &data, None, id).await
            }
            Op::Fsync { ino, data_only } => self.op_fsync(ino, data_only).await,
            Op::ReadDir { dir, cookie, max_bytes, plus } => {
                self.op_read_dir(dir, cookie, max_bytes, plus).await
            }
            Op::StatFs => Ok(Reply::Stat(self.layout.figures(&self.core).stat)),
            Op::Access { ino, mask } => {
                let inode = self.files.inode(ino).await?;
                perm::access(&self.guarded(&inode, &cred).await?, &cred, mask).map(|()| Reply::Done)
            }
            Op::SetXattr { ino, name, value, mode } => {
                self.op_set_xattr(ino, &name, &value, mode, &cred).await
            }
            Op::GetXattr { ino, name } => self.op_get_xattr(ino, &name, &cred).await,
            Op::ListXattr { ino } => self.op_list_xattr(ino, &cred).await,
            Op::RemoveXattr { ino, name } => self.op_remove_xattr(ino, &name, &cred).await,
            Op::Fallocate { ino, off, len, mode } => {
                Box::pin(self.op_fallocate(ino, off, len, mode, &cred, id)).await
            }
            Op::Seek { ino, off, what } => self.op_seek(ino, off, what).await,
            // An unmount sends a sync to a read-only volume as well; there is nothing to write.
            Op::Sync if self.core.settings.read_only => Ok(Reply::Done),
            Op::Sync => self.layout.sync(&self.core, SyncScope::Volume).await.map(|()| Reply::Done),
        }
    }
}

/// The cost class of an operation, for the processor model.
fn kind_of(op: &Op) -> OpKind {
    match op {
        Op::Lookup { .. } => OpKind::Lookup,
        Op::MakeNode { .. } | Op::MakeDir { .. } | Op::Symlink { .. } | Op::Create { .. } => {
            OpKind::Create
        }
        Op::Unlink { .. } | Op::RemoveDir { .. } => OpKind::Remove,
        Op::Rename { .. } | Op::Link { .. } => OpKind::Rename,
        Op::Open { .. } | Op::Release { .. } => OpKind::Open,
        Op::Read { .. } => OpKind::Read,
        Op::Write { .. } | Op::Append { .. } | Op::WriteBack { .. } => OpKind::Write,
        Op::GetAttr { .. } | Op::SetAttr { .. } | Op::Access { .. } => OpKind::Attr,
        Op::ReadDir { .. } => OpKind::ReadDir,
        Op::Fsync { .. } | Op::Sync => OpKind::Sync,
        _ => OpKind::Other,
    }
}
