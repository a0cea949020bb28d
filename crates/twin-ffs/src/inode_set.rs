//! Sets of inode numbers that are kept with an open volume.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::rc::Rc;

use twin_cache::Frame;
use twin_fs::Ino;

/// A set of inode numbers.
#[derive(Default)]
pub(crate) struct InodeSet(RefCell<BTreeSet<Ino>>);

impl InodeSet {
    pub(crate) fn insert(&self, ino: Ino) {
        self.0.borrow_mut().insert(ino);
    }

    pub(crate) fn remove(&self, ino: Ino) {
        self.0.borrow_mut().remove(&ino);
    }

    pub(crate) fn contains(&self, ino: Ino) -> bool {
        self.0.borrow().contains(&ino)
    }

    /// All of them, ascending.
    pub(crate) fn list(&self) -> Vec<Ino> {
        self.0.borrow().iter().copied().collect()
    }
}

/// Inode numbers taken but not in use, with the blocks of their table, once these are in memory.
#[derive(Default)]
pub(crate) struct PickedNumbers(RefCell<BTreeMap<Ino, Option<Rc<Frame>>>>);

impl PickedNumbers {
    pub(crate) fn insert(&self, ino: Ino, table_block: Option<Rc<Frame>>) {
        self.0.borrow_mut().insert(ino, table_block);
    }

    /// Takes a number out, with its block; `None` if it was not picked.
    pub(crate) fn remove(&self, ino: Ino) -> Option<Option<Rc<Frame>>> {
        self.0.borrow_mut().remove(&ino)
    }

    /// Those in a range, ascending.
    pub(crate) fn within(&self, range: Range<Ino>) -> Vec<Ino> {
        self.0.borrow().range(range).map(|(ino, _)| *ino).collect()
    }
}
