//! SIEVE: Zhang, Yang, Yue, Vigfusson and Rashmi, "SIEVE is Simpler than LRU: an Efficient Turn-Key
//! Eviction Algorithm for Web Caches", NSDI 2024. A FIFO queue whose hand moves from the oldest frame to
//! the youngest and evicts frames that were not visited; those that were stay where they are.

use super::marks::Marks;
use super::{Item, Removal, Replacement, list::List};

#[derive(Default)]
pub(super) struct Sieve {
    queue: List,
    visited: Marks,
    /// The frame that is looked at next; `None` for the oldest.
    hand: Option<u32>,
}

impl Replacement for Sieve {
    fn inserted(&mut self, slot: u32, _: Item) {
        self.queue.push(slot);
        self.visited.set(slot, false);
    }

    fn touched(&mut self, slot: u32) {
        self.visited.set(slot, true);
    }

    fn removed(&mut self, slot: u32, _why: Removal) {
        if self.hand == Some(slot) {
            self.hand = self.queue.younger(slot);
        }
        self.queue.remove(slot);
    }

    fn victim(&mut self, usable: &mut dyn FnMut(u32) -> bool) -> Option<u32> {
        // The first round clears the marks.
        for _ in 0..2 * self.queue.len() {
            let slot = self.hand.or_else(|| self.queue.oldest())?;
            if !self.visited.get(slot) && usable(slot) {
                self.hand = Some(slot);
                return Some(slot);
            }
            self.visited.set(slot, false);
            self.hand = self.queue.younger(slot);
        }
        None
    }
}
