//! Sets of inode numbers that are kept with an open volume.

use std::cell::{Cell, RefCell};
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

    /// All of them, ascending.
    pub(crate) fn list(&self) -> Vec<Ino> {
        self.0.borrow().iter().copied().collect()
    }
}

/// Inodes for which something must be done before they are written. What is noted again while it is
/// being done must be done again.
#[derive(Default)]
pub(crate) struct DueInodes {
    all: RefCell<BTreeMap<Ino, u64>>,
    next: Cell<u64>,
    /// The number of tasks that do it now, by inode.
    doing: RefCell<BTreeMap<Ino, u32>>,
}

/// A task that does what is due for an inode.
pub(crate) struct Doing<'a> {
    due: &'a DueInodes,
    ino: Ino,
}

impl Doing<'_> {
    /// True if another task does it too, and may have taken parts of it that are not durable.
    pub(crate) fn is_shared(&self) -> bool {
        self.due.doing.borrow().get(&self.ino).is_some_and(|&tasks| tasks > 1)
    }
}

impl Drop for Doing<'_> {
    fn drop(&mut self) {
        let mut doing = self.due.doing.borrow_mut();
        match doing.get_mut(&self.ino) {
            Some(tasks) if *tasks > 1 => *tasks -= 1,
            _ => drop(doing.remove(&self.ino)),
        }
    }
}

impl DueInodes {
    pub(crate) fn note(&self, ino: Ino) {
        let number = self.next.get();
        self.next.set(number + 1);
        self.all.borrow_mut().insert(ino, number);
    }

    pub(crate) fn contains(&self, ino: Ino) -> bool {
        !self.all.borrow().is_empty() && self.all.borrow().contains_key(&ino)
    }

    /// The number of the last note of an inode.
    pub(crate) fn number(&self, ino: Ino) -> Option<u64> {
        self.all.borrow().get(&ino).copied()
    }

    /// A task begins to do what is due. It ends when the result is dropped.
    pub(crate) fn begin(&self, ino: Ino) -> Doing<'_> {
        *self.doing.borrow_mut().entry(ino).or_insert(0) += 1;
        Doing { due: self, ino }
    }

    /// What was noted up to a number is done.
    pub(crate) fn done(&self, ino: Ino, number: u64) {
        let mut all = self.all.borrow_mut();
        if all.get(&ino) == Some(&number) {
            all.remove(&ino);
        }
    }

    /// The inode is gone.
    pub(crate) fn forget(&self, ino: Ino) {
        self.all.borrow_mut().remove(&ino);
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

    /// True if the number was picked.
    pub(crate) fn contains(&self, ino: Ino) -> bool {
        self.0.borrow().contains_key(&ino)
    }

    /// Those in a range, ascending.
    pub(crate) fn within(&self, range: Range<Ino>) -> Vec<Ino> {
        self.0.borrow().range(range).map(|(ino, _)| *ino).collect()
    }
}
