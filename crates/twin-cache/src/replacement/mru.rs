//! Evicts the most recently used frame: what a loop that is larger than the cache wants. Chou and
//! DeWitt, "An Evaluation of Buffer Management Strategies for Relational Database Systems", VLDB 1985.

use super::{Item, Removal, Replacement, list::List};

#[derive(Default)]
pub(super) struct Mru(List);

impl Replacement for Mru {
    fn inserted(&mut self, slot: u32, _: Item) {
        self.0.push(slot);
    }

    fn touched(&mut self, slot: u32) {
        self.0.renew(slot);
    }

    fn removed(&mut self, slot: u32, _why: Removal) {
        self.0.remove(slot);
    }

    fn victim(&mut self, usable: &mut dyn FnMut(u32) -> bool) -> Option<u32> {
        self.0.youngest_usable(usable)
    }
}
