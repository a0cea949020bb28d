//! The dirty inodes: those whose record on disk is out of date.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

use twin_rt::Time;

use super::inode::Inode;

/// The dirty inodes, in the order in which they became dirty.
pub(crate) struct DirtyInodes {
    by_turn: RefCell<BTreeMap<u64, Rc<Inode>>>,
    next: Cell<u64>,
}

impl Default for DirtyInodes {
    fn default() -> DirtyInodes {
        // Turns start at 1 because 0 marks a clean inode.
        DirtyInodes { by_turn: RefCell::default(), next: Cell::new(1) }
    }
}

impl DirtyInodes {
    pub(crate) fn add(&self, inode: &Rc<Inode>, now: Time) {
        let (since, _) = inode.dirty_times.get();
        let is_clean = inode.dirty.get() == 0;
        inode.dirty_times.set((if is_clean { now } else { since }, now));
        if is_clean {
            let turn = self.next.get();
            self.next.set(turn + 1);
            inode.dirty.set(turn);
            self.by_turn.borrow_mut().insert(turn, Rc::clone(inode));
        }
    }

    pub(crate) fn remove(&self, inode: &Inode) {
        let turn = inode.dirty.replace(0);
        if turn != 0 {
            self.by_turn.borrow_mut().remove(&turn);
        }
    }

    /// All dirty inodes, in the order in which they became dirty.
    pub(crate) fn all(&self) -> Vec<Rc<Inode>> {
        self.by_turn.borrow().values().cloned().collect()
    }

    /// Calls `f` for dirty inodes, in the order in which they became dirty, until it returns false.
    /// `f` may not change which inodes are dirty.
    pub(crate) fn each(&self, mut f: impl FnMut(&Inode) -> bool) {
        for inode in self.by_turn.borrow().values() {
            if !f(inode) {
                return;
            }
        }
    }

    /// Since when the first of them has been dirty.
    pub(crate) fn oldest(&self) -> Option<Time> {
        let by_turn = self.by_turn.borrow();
        by_turn.first_key_value().map(|(_, inode)| inode.dirty_times.get().0)
    }

    pub(crate) fn len(&self) -> usize {
        self.by_turn.borrow().len()
    }
}
