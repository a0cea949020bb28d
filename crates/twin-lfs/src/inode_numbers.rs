//! Inode numbers: the list of those that are free, those that were picked and are not in use yet,
//! those in need of work after a crash, and those freed since the last log write.
//!
//! Contract: bookkeeping of what is in memory. The list itself is in the inode map: each free
//! number's entry names the next, and here is the first.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use twin_cache::Frame;
use twin_fs::Ino;

struct Numbers {
    free_head: Ino,
    free: u64,
    /// With their map blocks.
    picked: BTreeMap<Ino, Rc<Frame>>,
    orphans: BTreeSet<Ino>,
    /// With the number of the life that ended.
    freed: Vec<(Ino, u32)>,
}

/// The inode numbers that are free, picked or in need of work.
pub(crate) struct InodeNumbers(RefCell<Numbers>);

impl InodeNumbers {
    /// A list of `free` numbers that begins with `free_head`.
    pub(crate) fn new(free_head: Ino, free: u64) -> InodeNumbers {
        InodeNumbers(RefCell::new(Numbers {
            free_head,
            free,
            picked: BTreeMap::new(),
            orphans: BTreeSet::new(),
            freed: Vec::new(),
        }))
    }

    /// The first number of the list; 0 if it is empty.
    pub(crate) fn free_head(&self) -> Ino {
        self.0.borrow().free_head
    }

    /// Numbers on the list.
    pub(crate) fn free(&self) -> u64 {
        self.0.borrow().free
    }

    /// The list is another one.
    pub(crate) fn set_list(&self, free_head: Ino, free: u64) {
        let mut numbers = self.0.borrow_mut();
        (numbers.free_head, numbers.free) = (free_head, free);
    }

    /// Adds `more` numbers at the head of the list; the first of them is `free_head`.
    pub(crate) fn extend_list(&self, free_head: Ino, more: u64) {
        self.set_list(free_head, self.free() + more);
    }

    /// Takes the first number off the list, behind which comes `next`.
    pub(crate) fn pick_first(&self, next: Ino, map_block: Rc<Frame>) {
        let mut numbers = self.0.borrow_mut();
        let ino = std::mem::replace(&mut numbers.free_head, next);
        // The count is the checkpoint's, which may contradict the list on a damaged volume.
        numbers.free = numbers.free.saturating_sub(1);
        numbers.picked.insert(ino, map_block);
    }

    /// Counts a number as picked that is not on the list.
    pub(crate) fn pick(&self, ino: Ino, map_block: Rc<Frame>) {
        self.0.borrow_mut().picked.insert(ino, map_block);
    }

    /// A picked number is in use from now on, or is about to be put back. Gives its map block.
    pub(crate) fn take_picked(&self, ino: Ino) -> Option<Rc<Frame>> {
        self.0.borrow_mut().picked.remove(&ino)
    }

    /// The picked numbers, ascending.
    pub(crate) fn picked(&self) -> Vec<Ino> {
        self.0.borrow().picked.keys().copied().collect()
    }

    /// Puts a number at the head of the list. Gives the one behind it.
    pub(crate) fn put_back(&self, ino: Ino) -> Ino {
        let mut numbers = self.0.borrow_mut();
        numbers.free += 1;
        std::mem::replace(&mut numbers.free_head, ino)
    }

    /// The next log write says that a number was freed after this life.
    pub(crate) fn note_freed(&self, ino: Ino, generation: u32) {
        self.0.borrow_mut().freed.push((ino, generation));
    }

    /// True if the next log write has numbers to tell of.
    pub(crate) fn any_freed(&self) -> bool {
        !self.0.borrow().freed.is_empty()
    }

    /// What was noted since the last log write.
    pub(crate) fn take_freed(&self) -> Vec<(Ino, u32)> {
        std::mem::take(&mut self.0.borrow_mut().freed)
    }

    /// Notes whether an inode needs work after a crash. True if that is new.
    pub(crate) fn set_orphan(&self, ino: Ino, is_orphan: bool) -> bool {
        let orphans = &mut self.0.borrow_mut().orphans;
        match is_orphan {
            true => orphans.insert(ino),
            false => orphans.remove(&ino),
        }
    }

    /// The inodes in need of work after a crash, ascending.
    pub(crate) fn orphans(&self) -> Vec<Ino> {
        self.0.borrow().orphans.iter().copied().collect()
    }
}
