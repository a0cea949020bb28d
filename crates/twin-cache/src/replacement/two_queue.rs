//! 2Q, the full version: Johnson and Shasha, "2Q: A Low Overhead High Performance Buffer Management
//! Replacement Algorithm", VLDB 1994. New frames enter a FIFO queue. The blocks of frames that were
//! evicted from it are remembered for some time; a block that returns in that time enters the LRU queue.

use super::ghosts::Ghosts;
use super::{Capacity, Item, Removal, Replacement, list::Lists};

/// The paper's Kin: the share of the cache that the FIFO queue keeps.
const KIN: f64 = 0.25;
/// The paper's Kout: the number of blocks that are remembered, as a share of the cache.
const KOUT: f64 = 0.5;

/// The frames that were recently inserted for the first time (A1in).
const ONCE: usize = 0;
/// The frames that returned (Am), least recently used first.
const AGAIN: usize = 1;

pub(super) struct TwoQueue {
    queues: Lists<2>,
    items: Vec<Item>,
    /// The blocks that recently left `ONCE` (A1out).
    left: Ghosts<1>,
    once_max: u64,
    left_max: u64,
}

impl TwoQueue {
    pub(super) fn new(capacity: Capacity) -> TwoQueue {
        TwoQueue {
            queues: Lists::default(),
            items: Vec::new(),
            left: Ghosts::default(),
            once_max: capacity.share(KIN),
            left_max: capacity.share(KOUT),
        }
    }
}

impl Replacement for TwoQueue {
    fn resized(&mut self, capacity: Capacity) {
        (self.once_max, self.left_max) = (capacity.share(KIN), capacity.share(KOUT));
        while self.left.weight(0) > self.left_max && self.left.forget_oldest(0) {}
    }

    fn inserted(&mut self, slot: u32, item: Item) {
        super::remember(&mut self.items, slot, item);
        let queue = if self.left.remove(item.key).is_some() { AGAIN } else { ONCE };
        self.queues.push(queue, slot, item.weight);
    }

    fn cleaned(&mut self, slot: u32, item: Item) {
        self.queues.push(self.queues.last_list(slot), slot, item.weight);
    }

    fn touched(&mut self, slot: u32) {
        // A further use of a frame in `ONCE` is taken for a part of the first one and does not
        // count.
        if self.queues.list_of(slot) == Some(AGAIN) {
            self.queues.move_to(AGAIN, slot);
        }
    }

    fn removed(&mut self, slot: u32, why: Removal) {
        if self.queues.remove(slot) == Some(ONCE) && why == Removal::Evicted {
            self.left.push(0, self.items[slot as usize], ());
            while self.left.weight(0) > self.left_max && self.left.forget_oldest(0) {}
        }
    }

    fn victim(&mut self, usable: &mut dyn FnMut(u32) -> bool) -> Option<u32> {
        let (first, second) =
            if self.queues.weight(ONCE) > self.once_max { (ONCE, AGAIN) } else { (AGAIN, ONCE) };
        let found = self.queues.oldest_usable(first, usable);
        found.or_else(|| self.queues.oldest_usable(second, usable))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn policy() -> TwoQueue {
        TwoQueue::new(Capacity::frames(8))
    }

    fn lens(policy: &TwoQueue) -> (usize, usize, usize) {
        (policy.queues.len(ONCE), policy.queues.len(AGAIN), policy.left.len(0))
    }

    /// Frames that became dirty were remembered as if they had been evicted. So each block that was
    /// written once counted as used again, and displaced blocks that really were. No other test
    /// found it: the study of policies has no writes, and a bad choice of victims makes no answer
    /// wrong.
    #[test]
    fn a_frame_that_was_dirty_returns_to_the_queue_that_it_was_in() {
        let (mut policy, item) = (policy(), Item::frame((7, 1)));
        policy.inserted(1, item);
        policy.removed(1, Removal::Dirtied);
        policy.cleaned(1, item);
        assert_eq!(lens(&policy), (1, 0, 0));

        policy.removed(1, Removal::Evicted);
        policy.inserted(2, item);
        policy.removed(2, Removal::Dirtied);
        policy.cleaned(2, item);
        assert_eq!(lens(&policy), (0, 1, 0), "it was used again");
    }

    #[test]
    fn a_slot_that_another_block_has_now_is_a_new_frame() {
        let (mut policy, item) = (policy(), Item::frame((7, 1)));
        policy.inserted(1, item);
        policy.removed(1, Removal::Evicted);
        policy.inserted(1, item);
        // The block is freed while the frame is dirty.
        policy.removed(1, Removal::Dirtied);
        policy.removed(1, Removal::Dropped);
        policy.inserted(1, Item::frame((8, 0)));
        assert_eq!(lens(&policy), (1, 0, 0));
    }

    #[test]
    fn a_block_that_is_gone_is_not_remembered() {
        let (mut policy, item) = (policy(), Item::frame((7, 1)));
        policy.inserted(1, item);
        policy.removed(1, Removal::Dropped);
        policy.inserted(2, item);
        assert_eq!(lens(&policy), (1, 0, 0));
    }
}
