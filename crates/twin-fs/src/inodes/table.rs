//! The inodes in memory, by number.
//!
//! Contract: an inode is in the table at most once. It stays while a task uses it or while it or
//! one of its blocks is dirty; an idle inode stays as long as the limit on their number allows.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;

use twin_cache::Cache;
use twin_rt::FixedMap;

use super::inode::Inode;
use crate::Ino;

/// The most inodes that are considered for eviction whenever one is added.
const SWEEP: usize = 8;

/// The inodes in memory. See the module.
#[derive(Default)]
pub(crate) struct InodeTable {
    by_number: RefCell<FixedMap<Ino, Rc<Inode>>>,
    /// The numbers in the order in which they are considered for eviction.
    clock: RefCell<VecDeque<Ino>>,
}

impl InodeTable {
    pub(crate) fn get(&self, ino: Ino) -> Option<Rc<Inode>> {
        self.by_number.borrow().get(&ino).cloned()
    }

    /// Adds an inode, unless the table has one with its number, and returns the one in the table.
    /// Evicts idle inodes if there are more than `most`.
    pub(crate) fn add(&self, inode: Rc<Inode>, cache: &Cache, most: usize) -> Rc<Inode> {
        if let Some(there) = self.get(inode.ino) {
            return there;
        }
        self.by_number.borrow_mut().insert(inode.ino, Rc::clone(&inode));
        self.clock.borrow_mut().push_back(inode.ino);
        self.evict(cache, most);
        inode
    }

    pub(crate) fn remove(&self, ino: Ino) {
        self.by_number.borrow_mut().remove(&ino);
    }

    /// Evicts idle inodes in a bounded second-chance sweep, until there are no more than `most`.
    fn evict(&self, cache: &Cache, most: usize) {
        for _ in 0..SWEEP {
            if self.len() <= most {
                return;
            }
            let Some(ino) = self.clock.borrow_mut().pop_front() else { return };
            let Some(inode) = self.get(ino) else { continue };
            if is_idle(&inode) && !inode.frames.has_dirty() && cache.release(&inode.frames) {
                self.remove(ino);
            } else {
                self.clock.borrow_mut().push_back(ino);
            }
        }
    }

    /// Drops every clean block and every idle inode.
    pub(crate) fn drop_idle(&self, cache: &Cache) {
        let mut inodes: Vec<_> = self.by_number.borrow().values().cloned().collect();
        inodes.sort_by_key(|inode| inode.ino);
        for inode in inodes {
            if cache.release(&inode.frames) && is_idle(&inode) {
                self.remove(inode.ino);
            }
        }
        let by_number = self.by_number.borrow();
        self.clock.borrow_mut().retain(|ino| by_number.contains_key(ino));
    }

    pub(crate) fn len(&self) -> usize {
        self.by_number.borrow().len()
    }
}

/// True if an inode is clean and only the table and the caller have a reference to it.
fn is_idle(inode: &Rc<Inode>) -> bool {
    Rc::strong_count(inode) == 2 && !inode.is_dirty()
}
