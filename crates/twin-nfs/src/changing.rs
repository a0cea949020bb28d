//! Which inodes are being changed now, so that weak cache consistency data is right.
//!
//! Contract: a client takes the attributes before and after its operation as those between which
//! only this operation changed the file. The server may therefore send the former only if no other
//! operation changed the file at the same time. An operation [begins](Changing::begin) before it
//! takes the attributes and [ends](Changing::end) after it has taken the later ones, and after the change
//! is durable.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;

use twin_fs::Ino;
use twin_rt::{Event, FixedMap};

#[derive(Clone, Copy, Default)]
struct Changes {
    running: u32,
    /// Two of those that are running have run at the same time.
    mixed: bool,
}

/// The operations that change inodes of one volume now.
#[derive(Default)]
pub(crate) struct Changing {
    by_inode: RefCell<FixedMap<Ino, Changes>>,
    /// The numbers of the operations that run.
    running: RefCell<BTreeSet<u64>>,
    next: Cell<u64>,
    ended: Event,
}

impl Changing {
    /// An operation that may change the inode begins. Returns its number.
    pub(crate) fn begin(&self, ino: Ino) -> u64 {
        let mut all = self.by_inode.borrow_mut();
        let changes = all.entry(ino).or_default();
        changes.mixed |= changes.running > 0;
        changes.running += 1;
        let number = self.next.get();
        self.next.set(number + 1);
        self.running.borrow_mut().insert(number);
        number
    }

    /// The operation with this number ends; returns true if no other one ran meanwhile.
    pub(crate) fn end(&self, ino: Ino, number: u64) -> bool {
        self.running.borrow_mut().remove(&number);
        self.ended.notify();
        let mut all = self.by_inode.borrow_mut();
        let Some(changes) = all.get_mut(&ino) else { return false };
        changes.running -= 1;
        let alone = !changes.mixed;
        if changes.running == 0 {
            all.remove(&ino);
        }
        alone
    }

    /// Waits until the operations have ended that run now.
    pub(crate) async fn ends(&self) {
        let before = self.next.get();
        let over = || self.running.borrow().first().is_none_or(|&first| first >= before);
        self.ended.wait_until(over).await;
    }
}

#[cfg(test)]
mod tests {
    use std::task::Poll;

    use super::*;

    #[test]
    fn operations_that_overlap_are_not_alone() {
        let changing = Changing::default();
        let only = changing.begin(1);
        assert!(changing.end(1, only));
        let (first, second, other) = (changing.begin(1), changing.begin(1), changing.begin(2));
        assert!(!changing.end(1, first));
        assert!(
            !changing.end(1, second),
            "the first one ended, but has changed the file meanwhile"
        );
        assert!(changing.end(2, other));
        let again = changing.begin(1);
        assert!(changing.end(1, again));
    }

    #[test]
    fn who_waits_does_not_wait_for_what_begins_later() {
        let rt = twin_rt::Rt::new(twin_rt::ClockOnly::default(), 1);
        let changing = Changing::default();
        let before = changing.begin(1);
        let wait = async {
            let mut waits = std::pin::pin!(changing.ends());
            let first = std::future::poll_fn(|cx| Poll::Ready(waits.as_mut().poll(cx))).await;
            assert!(first.is_pending());
            changing.begin(1);
            changing.end(1, before);
            waits.await;
        };
        rt.block_on(wait).unwrap();
    }
}
