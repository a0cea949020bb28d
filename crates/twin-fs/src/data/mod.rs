//! File data: from a file's bytes to blocks in the cache, and to the layout that gives them places.
//!
//! Contract: what only looks at files works on [`Core`] alone ([`map`], [`read`], [`seek`]). What
//! changes them is [`Files`]: it loads what a change needs, waiting, has the space reserved, and then
//! makes the change in one step, or in several that each leave a sound file. The inode's lock is held
//! by the caller unless a function says that it takes it. Names are of no concern here.

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

use crate::core::Core;
use crate::dinode::HIDDEN;
use crate::inodes::Inode;
use crate::layout::{Layout, Need};
use crate::{FsError, Ino, Result};

/// What else changes in the step in which clients see a change of a file: its times and owner's
/// bits. Called once, before that step; if it fails, the step does not take place.
pub(crate) type Effect<'a> = &'a dyn Fn() -> Result<()>;

/// The files of a volume. See the module.
pub(crate) struct Files<L> {
    core: Rc<Core>,
    layout: Rc<L>,
}

impl<L: Layout> Files<L> {
    pub(crate) fn new(core: &Rc<Core>, layout: &Rc<L>) -> Rc<Files<L>> {
        Rc::new(Files { core: Rc::clone(core), layout: Rc::clone(layout) })
    }

    /// An inode that a client names.
    pub(crate) async fn inode(&self, ino: Ino) -> Result<Rc<Inode>> {
        let inode = self.any_inode(ino).await?;
        if inode.d.borrow().flags & HIDDEN != 0 {
            return Err(FsError::NotFound);
        }
        Ok(inode)
    }

    /// An inode, hidden ones included.
    pub(crate) async fn any_inode(&self, ino: Ino) -> Result<Rc<Inode>> {
        match self.core.cached_inode(ino) {
            Some(inode) => Ok(inode),
            None => {
                self.maybe_yield().await;
                self.layout.load_inode(&self.core, ino).await
            }
        }
    }

    /// Waits until an operation that makes up to `bytes` dirty may begin. The caller looks again at
    /// what it found before.
    pub(crate) async fn admit(&self, bytes: u64, need: Need) -> Result<L::Permit> {
        self.maybe_yield().await;
        self.layout.admit(&self.core, bytes, need).await
    }

    /// The same for an operation that makes only a few blocks dirty.
    pub(crate) async fn admit_small(&self, need: Need) -> Result<L::Permit> {
        self.admit(4 * u64::from(self.core.shape.block_size), need).await
    }

    /// Lets others run, in tests that ask for it at every wait.
    async fn maybe_yield(&self) {
        if let Some(rt) = self.core.rt.yields() {
            // In a box: only tests come here, and every operation would carry it.
            Box::pin(async move { rt.maybe_yield().await }).await;
        }
    }
}
