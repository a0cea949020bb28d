//! Orphans: inodes without names, which are freed when no client uses them, or after a crash.
//!
//! Contract: an operation that removes a name, reference or open of an inode reports it here
//! ([`Orphans::unlink`], [`Orphans::reap`]). The inode is freed when it has none of them. If
//! freeing fails for want of room the operation succeeds all the same, and the inode is freed
//! later, after another one was. The layout records each orphan on the device, so a crash loses
//! none ([`Orphans::finish`]).

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::rc::Rc;

use crate::core::Core;
use crate::data::Files;
use crate::dinode::Dinode;
use crate::inodes::{Inode, Refs};
use crate::layout::{InodeEvent, Layout};
use crate::{FsError, Ino, Result, Timestamp};

/// The inodes without names. See the module.
pub(crate) struct Orphans {
    core: Rc<Core>,
    layout: Rc<dyn Layout>,
    files: Rc<Files>,
    /// Inodes that have lost their last name and are not freed yet. Those from before the volume was
    /// opened are not among them: nobody uses them, and [`finish`](Orphans::finish) frees them.
    nameless: RefCell<BTreeSet<Ino>>,
    /// Inodes that could not be freed for want of room.
    postponed: RefCell<BTreeSet<Ino>>,
}

impl Orphans {
    pub(crate) fn new(core: &Rc<Core>, layout: &Rc<dyn Layout>, files: &Rc<Files>) -> Rc<Orphans> {
        Rc::new(Orphans {
            core: Rc::clone(core),
            layout: Rc::clone(layout),
            files: Rc::clone(files),
            nameless: RefCell::default(),
            postponed: RefCell::default(),
        })
    }

    /// Reduces the link count of an inode by one name. A directory has only one name.
    pub(crate) fn unlink(&self, inode: &Rc<Inode>, now: Timestamp) {
        let is_last = {
            let mut d = inode.d.borrow_mut();
            d.ctime = now;
            d.nlink = if d.is_dir() { 0 } else { d.nlink.saturating_sub(1) };
            d.nlink == 0
        };
        // The layout records the orphan in the step that removes the last name, so that a crash
        // after that step does not lose the inode.
        if is_last {
            self.nameless.borrow_mut().insert(inode.ino);
            self.layout.inode_event(&self.core, InodeEvent::Orphaned(inode));
        }
        self.core.mark_inode_dirty(inode);
    }

    /// Frees a hidden file. The caller has just cleared its number in the inode that it belonged
    /// to. Everything before the first await is one step with that, so a crash finds either the
    /// number in the inode or the orphan.
    pub(crate) async fn free_hidden(&self, hidden: &Rc<Inode>) -> Result<()> {
        hidden.d.borrow_mut().nlink = 0;
        self.layout.inode_event(&self.core, InodeEvent::Orphaned(hidden));
        self.core.mark_inode_dirty(hidden);
        self.destroy(hidden).await
    }

    /// Finishes what a crash interrupted: frees the inode if it has no name, otherwise frees its
    /// blocks beyond the end of the file. If there is no room for that it is done later.
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
        self.files.free_tail(&inode, self.core.geometry.blocks_for(size)).await?;
        if nlink == 0 { self.destroy(&inode).await } else { Ok(()) }
    }

    /// Frees an inode if it has neither names nor users. Operations call it whenever they have
    /// removed a name, reference or open.
    pub(crate) async fn reap(&self, ino: Ino) -> Result<()> {
        match self.reap_now(ino).await {
            Ok(true) => self.finish_postponed().await,
            result => self.or_later(ino, result.map(drop)),
        }
    }

    /// Turns a lack of room into success and remembers the inode, to be freed later.
    fn or_later(&self, ino: Ino, freed: Result<()>) -> Result<()> {
        if let Err(FsError::NoSpace) = freed {
            self.postponed.borrow_mut().insert(ino);
            return Ok(());
        }
        freed
    }

    /// Tries one of the postponed inodes again. Called after an inode was freed, which made room.
    async fn finish_postponed(&self) -> Result<()> {
        let Some(ino) = self.postponed.borrow_mut().pop_first() else { return Ok(()) };
        match self.finish(ino).await {
            Err(FsError::NotFound) => Ok(()),
            result => result,
        }
    }

    /// True if a locked inode must not be freed by this caller: it has users again, the last of
    /// which frees it, or another task freed it while this one waited for the lock.
    fn is_used_or_gone(&self, ino: Ino) -> bool {
        self.core.refs(ino) != Refs::default() || self.core.cached_inode(ino).is_none()
    }

    /// Frees an inode if it has neither names nor users; true if it did.
    async fn reap_now(&self, ino: Ino) -> Result<bool> {
        // Looked up in memory, because most inodes whose last user goes have names and are not in
        // memory any more: a kernel that forgets many would have them all read from the device.
        if self.core.refs(ino) != Refs::default() || !self.nameless.borrow().contains(&ino) {
            return Ok(false);
        }
        // If it has left memory since it lost its name, it is loaded again.
        let inode = match self.files.any_inode(ino).await {
            Ok(inode) => inode,
            Err(FsError::NotFound) => return Ok(false),
            Err(error) => return Err(error),
        };
        let _alone = inode.lock.write().await;
        // The wait for the lock may have let another task open or free the inode.
        if self.is_used_or_gone(ino) {
            return Ok(false);
        }
        self.destroy(&inode).await?;
        Ok(true)
    }

    /// Frees an inode with its blocks and hidden files. The caller holds its write lock.
    async fn destroy(&self, inode: &Rc<Inode>) -> Result<()> {
        self.core.check_writable()?;
        for which in [Hidden::Index, Hidden::Attributes] {
            let ino = which.of(&inode.d.borrow());
            if ino != 0 {
                let hidden = self.files.any_inode(ino).await?;
                // The number is cleared in one step with making the hidden file an orphan: after a
                // crash recovery must not reach the hidden file from this inode again.
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
            // An earlier attempt to free its blocks ended for want of room.
            self.files.free_tail(inode, 0).await?;
        }
        self.nameless.borrow_mut().remove(&inode.ino);
        let (quota, taken) = {
            let d = inode.d.borrow();
            (d.quota, d.quota_use())
        };
        self.core.quotas.count_inode(quota, taken, false);
        self.core.quotas.forget_root(inode.ino);
        self.layout.inode_event(&self.core, InodeEvent::Adopted(inode));
        self.layout.inode_event(&self.core, InodeEvent::Freed(inode));
        self.layout.release(&self.core, self.core.features.new_inode_bytes);
        Ok(())
    }
}

/// The kinds of hidden files that an inode may have.
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
