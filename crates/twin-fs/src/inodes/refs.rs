//! What clients hold of inodes: references from replies, and opens.
//!
//! Contract: the counts are kept apart from the inodes, so that an inode which clients merely know of
//! can leave memory.

use std::cell::RefCell;

use twin_rt::FixedMap;

use crate::Ino;

/// What clients hold of an inode.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Refs {
    /// References from replies.
    pub entries: u64,
    /// Opens.
    pub opens: u64,
}

/// What clients hold of all inodes.
#[derive(Default)]
pub(crate) struct References(RefCell<FixedMap<Ino, Refs>>);

impl References {
    pub(crate) fn of(&self, ino: Ino) -> Refs {
        self.0.borrow().get(&ino).copied().unwrap_or_default()
    }

    /// The inodes of which clients hold something, in order.
    pub(crate) fn held(&self) -> Vec<Ino> {
        let mut all: Vec<Ino> = self.0.borrow().keys().copied().collect();
        all.sort_unstable();
        all
    }

    /// Changes what clients hold of an inode and gives the result.
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

    /// Forgets everything, and gives the inodes of which something was held, in order.
    pub(crate) fn take(&self) -> Vec<Ino> {
        let mut all: Vec<Ino> = self.0.take().into_keys().collect();
        all.sort_unstable();
        all
    }
}
