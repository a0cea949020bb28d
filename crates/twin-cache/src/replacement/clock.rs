//! Second chance: a frame that was used since the hand last passed it is skipped once. Corbató, "A
//! Paging Experiment with the Multics System", 1968.

use super::marks::Marks;
use super::{Item, Removal, Replacement, list::List};

#[derive(Default)]
pub(super) struct Clock {
    /// The frames; the hand points at the oldest one.
    ring: List,
    used: Marks,
}

impl Replacement for Clock {
    fn inserted(&mut self, slot: u32, _: Item) {
        self.ring.push(slot);
        self.used.set(slot, false);
    }

    fn touched(&mut self, slot: u32) {
        self.used.set(slot, true);
    }

    fn removed(&mut self, slot: u32, _why: Removal) {
        self.ring.remove(slot);
    }

    fn victim(&mut self, usable: &mut dyn FnMut(u32) -> bool) -> Option<u32> {
        // The first round clears the used bits, so the second one finds a usable frame if there is
        // any.
        for _ in 0..2 * self.ring.len() {
            let slot = self.ring.oldest()?;
            if !self.used.get(slot) && usable(slot) {
                return Some(slot);
            }
            self.used.set(slot, false);
            self.ring.renew(slot);
        }
        None
    }
}
