//! The references and opens that clients have on inodes.
//!
//! Contract: the counts are kept apart from the inodes, so that an inode can leave memory while
//! clients have references to it.

use std::cell::RefCell;

use twin_rt::FixedMap;

use crate::Ino;

/// The number of references and opens on an inode, of all clients together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Refs {
    /// References that replies have given to clients.
    pub entries: u64,
    /// The number of opens.
    pub opens: u64,
}

/// The references and opens on all inodes.
#[derive(Default)]
pub(crate) struct References(RefCell<FixedMap<Ino, Refs>>);

impl References {
    pub(crate) fn of(&self, ino: Ino) -> Refs {
        self.0.borrow().get(&ino).copied().unwrap_or_default()
    }

    /// The inodes with references or opens, in ascending order.
    pub(crate) fn held(&self) -> Vec<Ino> {
        let mut all: Vec<Ino> = self.0.borrow().keys().copied().collect();
        all.sort_unstable();
        all
    }

    /// Changes the counts of an inode and returns the new ones.
    pub(crate) fn change(&self, ino: Ino, change: impl FnOnce(&mut Refs)) -> Refs {
        let mut all = self.0.borrow_mut();
        let refs = all.entry(ino).or_default();
        change(refs);
        let result = *refs;
        if result == Refs::default() {
            all.remove(&ino);
        }
        result
    }

    /// Forgets all counts and returns the inodes that had some, in ascending order.
    pub(crate) fn take(&self) -> Vec<Ino> {
        let mut all: Vec<Ino> = self.0.take().into_keys().collect();
        all.sort_unstable();
        all
    }
}
