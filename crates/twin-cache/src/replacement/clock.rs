//! Second chance: a frame that was used since the hand last passed it is skipped once.

use super::{Removal, Replacement, list::List};
use crate::Lbn;

#[derive(Default)]
pub(super) struct Clock {
    /// The frames; the hand points at the oldest one.
    ring: List,
    used: Vec<bool>,
}

impl Clock {
    fn set_used(&mut self, slot: u32, used: bool) {
        let i = slot as usize;
        if self.used.len() <= i {
            self.used.resize(i + 1, false);
        }
        self.used[i] = used;
    }
}

impl Replacement for Clock {
    fn inserted(&mut self, slot: u32, _: (u64, Lbn)) {
        self.ring.push(slot);
        self.set_used(slot, false);
    }

    fn touched(&mut self, slot: u32) {
        self.set_used(slot, true);
    }

    fn removed(&mut self, slot: u32, _why: Removal) {
        self.ring.remove(slot);
    }

    fn victim(&mut self, usable: &mut dyn FnMut(u32) -> bool) -> Option<u32> {
        // The first round clears the used bits, so the second one finds a usable frame if there is
        // any.
        for _ in 0..2 * self.ring.len() {
            let slot = self.ring.iter().next()?;
            if !self.used[slot as usize] && usable(slot) {
                return Some(slot);
            }
            self.used[slot as usize] = false;
            self.ring.remove(slot);
            self.ring.push(slot);
        }
        None
    }
}
