//! Least frequently used: evicts the frame with the fewest uses since it was inserted, among equals the
//! one that has had this number for longest. In constant time but for the search of a count: Shah, Mitra
//! and Matani, "An O(1) algorithm for implementing the LFU cache eviction scheme", 2010.

use std::collections::BTreeMap;

use super::list::{Ends, Pool};
use super::{Item, Removal, Replacement};

#[derive(Default)]
pub(super) struct Lfu {
    pool: Pool,
    /// The frames with each number of uses.
    by_uses: BTreeMap<u32, Ends>,
    uses: Vec<u32>,
}

impl Lfu {
    fn push(&mut self, slot: u32, uses: u32) {
        let i = slot as usize;
        if self.uses.len() <= i {
            self.uses.resize(i + 1, 0);
        }
        self.uses[i] = uses;
        self.pool.push(self.by_uses.entry(uses).or_default(), slot);
    }

    fn remove(&mut self, slot: u32) -> bool {
        if !self.pool.contains(slot) {
            return false;
        }
        let uses = self.uses[slot as usize];
        if let Some(ends) = self.by_uses.get_mut(&uses) {
            self.pool.remove(ends, slot);
            if ends.is_empty() {
                self.by_uses.remove(&uses);
            }
        }
        true
    }
}

impl Replacement for Lfu {
    fn inserted(&mut self, slot: u32, _: Item) {
        self.push(slot, 1);
    }

    fn cleaned(&mut self, slot: u32, _: Item) {
        self.push(slot, self.uses[slot as usize]);
    }

    fn touched(&mut self, slot: u32) {
        if self.remove(slot) {
            self.push(slot, self.uses[slot as usize].saturating_add(1));
        }
    }

    fn removed(&mut self, slot: u32, _why: Removal) {
        self.remove(slot);
    }

    fn victim(&mut self, usable: &mut dyn FnMut(u32) -> bool) -> Option<u32> {
        self.by_uses.values_mut().find_map(|ends| self.pool.oldest_usable(ends, usable))
    }
}
