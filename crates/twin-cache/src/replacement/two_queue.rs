//! 2Q, simplified: Johnson and Shasha, "2Q: A Low Overhead High Performance Buffer Management
//! Replacement Algorithm", VLDB 1994. New frames enter a FIFO queue; a frame that comes back
//! after it left that queue (remembered by key) or is used again much later enters the LRU queue.

use std::collections::VecDeque;

use twin_rt::FixedMap;

use super::{Replacement, list::List};
use crate::Lbn;

#[derive(Default)]
pub(super) struct TwoQueue {
    /// Frames seen once lately (A1in).
    once: List,
    /// Frames seen again (Am), least recently used first.
    again: List,
    keys: FixedMap<u32, (u64, Lbn)>,
    /// Keys that left `once` lately (A1out), with how often each stands in the queue.
    left: FixedMap<(u64, Lbn), u32>,
    left_order: VecDeque<(u64, Lbn)>,
}

impl TwoQueue {
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
        if self.left.contains_key(&key) {
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

    fn removed(&mut self, slot: u32) {
        let key = self.keys.remove(&slot);
        self.again.remove(slot);
        if self.once.remove(slot)
            && let Some(key) = key
        {
            *self.left.entry(key).or_insert(0) += 1;
            self.left_order.push_back(key);
            // The paper's Kout: keys of half as many frames as the cache holds.
            if self.left_order.len() > (self.once.len() + self.again.len()).max(16) / 2 {
                self.forget_oldest_key();
            }
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
