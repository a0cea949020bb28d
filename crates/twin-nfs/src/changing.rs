//! Which inodes are being changed now, so that weak cache consistency data is right.
//!
//! Contract: a client takes the attributes before and after its operation as those between which
//! only this operation changed the file. The server may therefore send the former only if no other
//! operation changed the file at the same time. An operation [begins](Changing::begin) before it
//! takes the attributes and [ends](Changing::end) after it has taken the later ones.

use std::cell::RefCell;

use twin_fs::Ino;
use twin_rt::FixedMap;

#[derive(Clone, Copy, Default)]
struct Changes {
    running: u32,
    /// Two of those that are running have run at the same time.
    mixed: bool,
}

/// The operations that change inodes of one volume now.
#[derive(Default)]
pub(crate) struct Changing(RefCell<FixedMap<Ino, Changes>>);

impl Changing {
    /// An operation that may change the inode begins.
    pub(crate) fn begin(&self, ino: Ino) {
        let mut all = self.0.borrow_mut();
        let changes = all.entry(ino).or_default();
        changes.mixed |= changes.running > 0;
        changes.running += 1;
    }

    /// The operation ends; returns true if no other one ran meanwhile.
    pub(crate) fn end(&self, ino: Ino) -> bool {
        let mut all = self.0.borrow_mut();
        let Some(changes) = all.get_mut(&ino) else { return false };
        changes.running -= 1;
        let alone = !changes.mixed;
        if changes.running == 0 {
            all.remove(&ino);
        }
        alone
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_that_overlap_are_not_alone() {
        let changing = Changing::default();
        changing.begin(1);
        assert!(changing.end(1));
        changing.begin(1);
        changing.begin(1);
        changing.begin(2);
        assert!(!changing.end(1));
        assert!(!changing.end(1), "the first one ended, but has changed the file meanwhile");
        assert!(changing.end(2));
        changing.begin(1);
        assert!(changing.end(1));
    }
}
