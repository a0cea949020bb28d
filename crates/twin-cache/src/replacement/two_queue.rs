//! 2Q, simplified: Johnson and Shasha, "2Q: A Low Overhead High Performance Buffer Management
//! Replacement Algorithm", VLDB 1994. New frames enter a FIFO queue; a frame that comes back
//! after it left that queue (remembered by key) or is used again much later enters the LRU queue.

use std::collections::VecDeque;

use twin_rt::FixedMap;

use super::{Removal, Replacement, list::List};
use crate::Lbn;

#[derive(Default)]
pub(super) struct TwoQueue {
    /// Frames seen once lately (A1in).
    once: List,
    /// Frames seen again (Am), least recently used first.
    again: List,
    keys: FixedMap<u32, (u64, Lbn)>,
    /// Frames that are dirty: their keys, and whether they were in `again`, where they return to.
    dirty: FixedMap<u32, ((u64, Lbn), bool)>,
    /// Keys that left `once` lately (A1out), with how often each stands in the queue.
    left: FixedMap<(u64, Lbn), u32>,
    left_order: VecDeque<(u64, Lbn)>,
}

impl TwoQueue {
    /// Remembers the key of a frame that was evicted from `once`.
    fn remember(&mut self, key: (u64, Lbn)) {
        *self.left.entry(key).or_insert(0) += 1;
        self.left_order.push_back(key);
        // The paper's Kout: keys of half as many frames as the cache holds.
        if self.left_order.len() > (self.once.len() + self.again.len()).max(16) / 2 {
            self.forget_oldest_key();
        }
    }

    fn forget_oldest_key(&mut self) {
        if let Some(key) = self.left_order.pop_front()
            && let Some(n) = self.left.get_mut(&key)
        {
            *n -= 1;
            if *n == 0 {
                self.left.remove(&key);
            }
        }
    }
}

impl Replacement for TwoQueue {
    fn inserted(&mut self, slot: u32, key: (u64, Lbn)) {
        self.keys.insert(slot, key);
        let before = self.dirty.remove(&slot).filter(|(dirtied, _)| *dirtied == key);
        let again = before.map_or_else(|| self.left.contains_key(&key), |(_, again)| again);
        if again {
            self.again.push(slot);
        } else {
            self.once.push(slot);
        }
    }

    fn touched(&mut self, slot: u32) {
        // A use of a frame in `once` is taken for the same visit and does not count.
        if self.again.remove(slot) {
            self.again.push(slot);
        }
    }

    fn removed(&mut self, slot: u32, why: Removal) {
        let Some(key) = self.keys.remove(&slot) else { return };
        let (again, once) = (self.again.remove(slot), self.once.remove(slot));
        match why {
            Removal::Dropped => {}
            Removal::Dirtied => drop(self.dirty.insert(slot, (key, again))),
            Removal::Evicted if once => self.remember(key),
            Removal::Evicted => {}
        }
    }

    fn victim(&mut self, usable: &mut dyn FnMut(u32) -> bool) -> Option<u32> {
        // The paper's Kin: the FIFO queue keeps a quarter of the frames.
        let frames = self.once.len() + self.again.len();
        let (first, second) = if self.once.len() * 4 > frames {
            (&mut self.once, &mut self.again)
        } else {
            (&mut self.again, &mut self.once)
        };
        first.oldest_usable(usable).or_else(|| second.oldest_usable(usable))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Frames that became dirty were remembered as if they had been evicted, and so each block that
    /// was written once counted as used again, and pushed out those that were. Nothing met it: the
    /// study of the policies has no writes, and no answer is wrong if the cache holds less.
    #[test]
    fn a_frame_that_was_dirty_returns_to_the_queue_that_it_was_in() {
        let mut policy = TwoQueue::default();
        policy.inserted(1, (7, 1));
        policy.removed(1, Removal::Dirtied);
        policy.inserted(1, (7, 1));
        assert_eq!((policy.once.len(), policy.again.len(), policy.left.len()), (1, 0, 0));

        policy.removed(1, Removal::Evicted);
        policy.inserted(2, (7, 1));
        policy.removed(2, Removal::Dirtied);
        policy.inserted(2, (7, 1));
        assert_eq!((policy.once.len(), policy.again.len()), (0, 1), "it was used again");
    }

    #[test]
    fn a_slot_that_another_block_has_now_is_a_new_frame() {
        let mut policy = TwoQueue::default();
        policy.inserted(1, (7, 1));
        policy.removed(1, Removal::Evicted);
        policy.inserted(1, (7, 1));
        // It is dirty when its block is freed, of which a policy does not hear.
        policy.removed(1, Removal::Dirtied);
        policy.inserted(1, (8, 0));
        assert_eq!((policy.once.len(), policy.again.len()), (1, 0));
    }

    #[test]
    fn a_block_that_is_gone_is_not_remembered() {
        let mut policy = TwoQueue::default();
        policy.inserted(1, (7, 1));
        policy.removed(1, Removal::Dropped);
        policy.inserted(2, (7, 1));
        assert_eq!((policy.once.len(), policy.again.len()), (1, 0));
    }
}
