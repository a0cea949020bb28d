//! Evicts any frame, each with the same probability: RR of Bosch and Mullender, "Cut-and-Paste File
//! Systems", 1996. The numbers come from a seeded stream, so that a run can be repeated.

use twin_rt::Rng;

use super::{Item, Removal, Replacement};

const NOWHERE: u32 = u32::MAX;

pub(super) struct Random {
    slots: Vec<u32>,
    /// For each slot, its index in `slots`.
    places: Vec<u32>,
    rng: Rng,
}

impl Default for Random {
    fn default() -> Random {
        Random { slots: Vec::new(), places: Vec::new(), rng: Rng::stream(1, "replacement") }
    }
}

impl Random {
    fn swap(&mut self, a: usize, b: usize) {
        self.slots.swap(a, b);
        self.places[self.slots[a] as usize] = a as u32;
        self.places[self.slots[b] as usize] = b as u32;
    }
}

impl Replacement for Random {
    fn inserted(&mut self, slot: u32, _: Item) {
        let i = slot as usize;
        if self.places.len() <= i {
            self.places.resize(i + 1, NOWHERE);
        }
        self.places[i] = self.slots.len() as u32;
        self.slots.push(slot);
    }

    fn touched(&mut self, _: u32) {}

    fn removed(&mut self, slot: u32, _why: Removal) {
        let place = self.places.get(slot as usize).copied().unwrap_or(NOWHERE);
        if place != NOWHERE {
            self.swap(place as usize, self.slots.len() - 1);
            self.slots.pop();
            self.places[slot as usize] = NOWHERE;
        }
    }

    fn victim(&mut self, usable: &mut dyn FnMut(u32) -> bool) -> Option<u32> {
        // Draws without putting back, so that every usable frame has the same chance.
        for left in (1..=self.slots.len()).rev() {
            let drawn = self.rng.below(left as u64) as usize;
            let slot = self.slots[drawn];
            if usable(slot) {
                return Some(slot);
            }
            self.swap(drawn, left - 1);
        }
        None
    }
}
