//! Evicts the least recently used frame.

use super::{Removal, Replacement, list::List};
use crate::Lbn;

#[derive(Default)]
pub(super) struct Lru(List);

impl Replacement for Lru {
    fn inserted(&mut self, slot: u32, _: (u64, Lbn)) {
        self.0.push(slot);
    }

    fn touched(&mut self, slot: u32) {
        if self.0.remove(slot) {
            self.0.push(slot);
        }
    }

    fn removed(&mut self, slot: u32, _why: Removal) {
        self.0.remove(slot);
    }

    fn victim(&mut self, usable: &mut dyn FnMut(u32) -> bool) -> Option<u32> {
        self.0.oldest_usable(usable)
    }
}
