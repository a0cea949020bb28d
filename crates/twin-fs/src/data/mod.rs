//! File data: the blocks in the cache that contain the bytes of a file. The layout decides their
//! places.
//!
//! Contract: functions that do not change files need only [`Core`] ([`map`], [`read`], [`seek`]).
//! [`Files`] changes them. It first loads the blocks that a change needs, which may wait, and
//! reserves the space; then it makes the change in one step, or in several steps, each of which
//! leaves a consistent file. The caller holds the inode's lock unless a function says that it takes
//! the lock itself. Nothing here knows names.

mod blocks;
mod fallocate;
mod map;
pub(crate) mod read;
mod read_by_block;
pub(crate) mod seek;
mod truncate;
mod write;

use std::rc::Rc;

pub use blocks::dirty_parents;

use crate::admission::AdmissionGuard;
use crate::core::Core;
use crate::dinode::HIDDEN;
use crate::dirty_limit::wait_for_room;
use crate::inodes::Inode;
use crate::layout::{Layout, Need};
use crate::{FsError, Ino, Result};

/// Changes the attributes (times and set-id bits) that belong to a change of a file. It is called
/// once, without an await before the change that clients see, so that both are one step. If it
/// fails the file is not changed.
pub(crate) type Effect<'a> = &'a dyn Fn() -> Result<()>;

/// The place of a write.
#[derive(Clone, Copy, Debug)]
pub(crate) enum WriteAt {
    /// At this offset.
    At(u64),
    /// Behind the end that the file has at the write.
    End,
}

/// The operations on the data of files. See the module.
pub(crate) struct Files {
    core: Rc<Core>,
    layout: Rc<dyn Layout>,
}

impl Files {
    pub(crate) fn new(core: &Rc<Core>, layout: &Rc<dyn Layout>) -> Rc<Files> {
        Rc::new(Files { core: Rc::clone(core), layout: Rc::clone(layout) })
    }

    /// The inode for a number that came from a client; hidden files do not exist for clients.
    pub(crate) async fn inode(&self, ino: Ino) -> Result<Rc<Inode>> {
        let inode = self.any_inode(ino).await?;
        if inode.d.borrow().flags & HIDDEN != 0 {
            return Err(FsError::NotFound);
        }
        Ok(inode)
    }

    /// The inode with this number, even if it is a hidden file.
    pub(crate) async fn any_inode(&self, ino: Ino) -> Result<Rc<Inode>> {
        match self.core.cached_inode(ino) {
            Some(inode) => Ok(inode),
            None => {
                self.maybe_yield().await;
                self.layout.load_inode(&self.core, ino).await
            }
        }
    }

    /// Waits until an operation that makes up to `bytes` dirty may begin. The wait may be long, so
    /// the caller must look up again what it knew before, unless a lock protects it.
    pub(crate) async fn admit(&self, bytes: u64, need: Need) -> Result<AdmissionGuard> {
        self.maybe_yield().await;
        if self.core.cache.dirty_bytes() > 0 {
            wait_for_room(&self.core, &*self.layout, bytes).await?;
        }
        self.layout.admit(&self.core, bytes, need).await
    }

    /// As [`admit`](Self::admit), for an operation that makes at most four blocks dirty.
    pub(crate) async fn admit_small(&self, need: Need) -> Result<AdmissionGuard> {
        self.admit(4 * u64::from(self.core.geometry.block_size), need).await
    }

    /// Lets other tasks run, in tests in which every possible wait does so.
    async fn maybe_yield(&self) {
        if let Some(rt) = self.core.rt.yields() {
            // The future is boxed because only tests need it, and otherwise it would enlarge the
            // future of every operation.
            Box::pin(async move { rt.maybe_yield().await }).await;
        }
    }
}
