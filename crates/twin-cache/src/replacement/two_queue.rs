//! 2Q, simplified: Johnson and Shasha, "2Q: A Low Overhead High Performance Buffer Management
//! Replacement Algorithm", VLDB 1994. New frames enter a FIFO queue. The keys of frames that were
//! evicted from it are remembered for some time; a frame that returns in that time enters the LRU
//! queue.

use std::collections::VecDeque;

use twin_rt::FixedMap;

use super::{Removal, Replacement, list::List};
use crate::Lbn;

#[derive(Default)]
pub(super) struct TwoQueue {
    /// The frames that were recently inserted for the first time (A1in).
    once: List,
    /// The frames that returned (Am), least recently used first.
    again: List,
    keys: FixedMap<u32, (u64, Lbn)>,
    /// The frames that are dirty: their keys, and whether they were in `again`, to which they
    /// return.
    dirty: FixedMap<u32, ((u64, Lbn), bool)>,
    /// The keys that recently left `once` (A1out), each with its number of places in `left_order`.
    left: FixedMap<(u64, Lbn), u32>,
    left_order: VecDeque<(u64, Lbn)>,
}

impl TwoQueue {
    /// Remembers the key of a frame that was evicted from `once`.
    fn remember(&mut self, key: (u64, Lbn)) {
        *self.left.entry(key).or_insert(0) += 1;
        self.left_order.push_back(key);
        // The paper's Kout: as many keys as half of the frames in the cache.
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
        // A further use of a frame in `once` is taken for a part of the first one and does not
        // count.
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

    /// Frames that became dirty were remembered as if they had been evicted. So each block that was
    /// written once counted as used again, and displaced blocks that really were. No other test
    /// found it: the study of policies has no writes, and a bad choice of victims makes no answer
    /// wrong.
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
        // The block is freed while the frame is dirty; the policy is not told of that.
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
