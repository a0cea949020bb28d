//! Evicts the least recently used frame.

use super::{Item, Removal, Replacement, list::List};

#[derive(Default)]
pub(super) struct Lru(List);

impl Replacement for Lru {
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
        self.0.oldest_usable(usable)
    }
}
