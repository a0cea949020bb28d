//! Inodes without names: freed when nobody uses them any more, and after a crash.
//!
//! Contract: an operation that takes a name or a user from an inode says so here
//! ([`Orphans::unlink`], [`Orphans::reap`]); the inode is freed when it has neither. Where there is no room to free it, the end
//! of its name or user stands, and it is freed later, when something else was. The layout knows of
//! each inode that waits for its end, so a crash loses none ([`Orphans::finish`]).

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::rc::Rc;

use crate::core::Core;
use crate::data::Files;
use crate::dinode::{Dinode, HIDDEN};
use crate::inodes::{Inode, Refs};
use crate::layout::Layout;
use crate::{FsError, Ino, ROOT_INO, Result, Timestamp};

/// The inodes without names. See the module.
pub(crate) struct Orphans<L> {
    core: Rc<Core>,
    layout: Rc<L>,
    files: Rc<Files<L>>,
    /// Those that could not be freed for want of room.
    postponed: RefCell<BTreeSet<Ino>>,
}

impl<L: Layout> Orphans<L> {
    pub(crate) fn new(core: &Rc<Core>, layout: &Rc<L>, files: &Rc<Files<L>>) -> Rc<Orphans<L>> {
        Rc::new(Orphans {
            core: Rc::clone(core),
            layout: Rc::clone(layout),
            files: Rc::clone(files),
            postponed: RefCell::default(),
        })
    }

    /// One name of an inode goes; for a directory it is the only one.
    pub(crate) fn unlink(&self, inode: &Rc<Inode>, now: Timestamp) {
        let is_last = {
            let mut d = inode.d.borrow_mut();
            d.ctime = now;
            d.nlink = if d.is_dir() { 0 } else { d.nlink.saturating_sub(1) };
            d.nlink == 0
        };
        if is_last {
            self.layout.set_orphan(&self.core, inode, true);
        }
        self.core.mark_inode_dirty(inode);
    }

    /// Frees a hidden file. The caller has just taken it from the inode that it belonged to: what is
    /// done before the first wait is one step with that.
    pub(crate) async fn free_hidden(&self, hidden: &Rc<Inode>) -> Result<()> {
        hidden.d.borrow_mut().nlink = 0;
        self.layout.set_orphan(&self.core, hidden, true);
        self.core.mark_inode_dirty(hidden);
        self.destroy(hidden).await
    }

    /// Goes on with what a crash interrupted: frees inodes without names, cuts what is past the
    /// end of files that were being cut. What there is no room for is done later.
    pub(crate) async fn finish(&self, ino: Ino) -> Result<()> {
        self.or_later(ino, self.finish_now(ino).await)
    }

    async fn finish_now(&self, ino: Ino) -> Result<()> {
        let inode = self.files.any_inode(ino).await?;
        let _alone = inode.lock.write().await;
        if self.is_used_or_gone(ino) {
            return Ok(());
        }
        let (nlink, size) = {
            let d = inode.d.borrow();
            (d.nlink, d.size)
        };
        self.files.free_tail(&inode, self.core.shape.blocks_for(size)).await?;
        if nlink == 0 { self.destroy(&inode).await } else { Ok(()) }
    }

    /// Frees an inode if it has neither names nor users. Called whenever one of them ends.
    pub(crate) async fn reap(&self, ino: Ino) -> Result<()> {
        match self.reap_now(ino).await {
            Ok(true) => self.finish_postponed().await,
            result => self.or_later(ino, result.map(drop)),
        }
    }

    /// What there is no room for now waits until something else was freed.
    fn or_later(&self, ino: Ino, freed: Result<()>) -> Result<()> {
        if let Err(FsError::NoSpace) = freed {
            self.postponed.borrow_mut().insert(ino);
            return Ok(());
        }
        freed
    }

    /// Something was freed: one of those that wait may be now.
    async fn finish_postponed(&self) -> Result<()> {
        let Some(ino) = self.postponed.borrow_mut().pop_first() else { return Ok(()) };
        match self.finish(ino).await {
            Err(FsError::NotFound) => Ok(()),
            result => result,
        }
    }

    /// True if an inode that is held has users again, the last of whom frees it, or was freed while
    /// its lock was waited for.
    fn is_used_or_gone(&self, ino: Ino) -> bool {
        self.core.refs(ino) != Refs::default() || self.core.cached_inode(ino).is_none()
    }

    /// True if it was freed.
    async fn reap_now(&self, ino: Ino) -> Result<bool> {
        if self.core.refs(ino) != Refs::default() || ino == ROOT_INO {
            return Ok(false);
        }
        // Only inodes in memory can be in question: a name or a user ended just now, except when
        // the inode left memory in between, and then it is loaded again.
        let inode = match self.files.any_inode(ino).await {
            Ok(inode) => inode,
            Err(FsError::NotFound) => return Ok(false),
            Err(error) => return Err(error),
        };
        if inode.d.borrow().nlink > 0 || inode.d.borrow().flags & HIDDEN != 0 {
            return Ok(false);
        }
        let _alone = inode.lock.write().await;
        if self.is_used_or_gone(ino) {
            return Ok(false);
        }
        self.destroy(&inode).await?;
        Ok(true)
    }

    /// Frees an inode with all that it has. The caller holds its lock.
    async fn destroy(&self, inode: &Rc<Inode>) -> Result<()> {
        self.core.check_writable()?;
        for which in [Hidden::Index, Hidden::Attributes] {
            let ino = which.of(&inode.d.borrow());
            if ino != 0 {
                let hidden = self.files.any_inode(ino).await?;
                // One step: recovery from a crash after it must not follow the number again.
                *which.of_mut(&mut inode.d.borrow_mut()) = 0;
                self.core.mark_inode_dirty(inode);
                Box::pin(self.free_hidden(&hidden)).await?;
            }
        }
        let (size, allocated) = {
            let d = inode.d.borrow();
            (d.size, d.allocated)
        };
        if size > 0 {
            self.files.set_size(inode, 0, 0, &|| Ok(())).await?;
        } else if allocated > 0 {
            // It was being cut when room ran out.
            self.files.free_tail(inode, 0).await?;
        }
        self.layout.set_orphan(&self.core, inode, false);
        self.layout.free_inode(&self.core, inode);
        self.layout.unreserve(&self.core, self.layout.inode_bytes());
        Ok(())
    }
}

/// The hidden files that an inode may have.
#[derive(Clone, Copy)]
enum Hidden {
    Index,
    Attributes,
}

impl Hidden {
    fn of(self, d: &Dinode) -> Ino {
        match self {
            Hidden::Index => d.index_ino,
            Hidden::Attributes => d.xattr_ino,
        }
    }

    fn of_mut(self, d: &mut Dinode) -> &mut Ino {
        match self {
            Hidden::Index => &mut d.index_ino,
            Hidden::Attributes => &mut d.xattr_ino,
        }
    }
}
