//! A replacement policy: a queue with a hand that spares frames which were used (SIEVE; Zhang and others, 2024).

mod twinfs;

use twinfs::replacement::{Capacity, Item, Removal, Replacement};

crate::export!(replacement, "NAME", "a queue with a hand that spares used frames", Sieve);

/// No slot.
const NONE: u32 = u32::MAX;

/// The place of a slot in the queue.
#[derive(Clone, Copy)]
struct Place {
    newer: u32,
    older: u32,
    is_ranked: bool,
    was_used: bool,
}

const NOWHERE: Place = Place { newer: NONE, older: NONE, is_ranked: false, was_used: false };

/// The slots in order of insertion.
struct Sieve {
    places: Vec<Place>,
    newest: u32,
    oldest: u32,
    hand: u32,
    ranked: usize,
}

impl Sieve {
    fn link(&mut self, slot: u32) {
        self.places[slot as usize] =
            Place { newer: NONE, older: self.newest, is_ranked: true, was_used: false };
        match self.newest {
            NONE => self.oldest = slot,
            newest => self.places[newest as usize].newer = slot,
        }
        self.newest = slot;
        self.ranked += 1;
    }

    fn unlink(&mut self, slot: u32) {
        let Place { newer, older, .. } = std::mem::replace(&mut self.places[slot as usize], NOWHERE);
        match newer {
            NONE => self.newest = older,
            newer => self.places[newer as usize].older = older,
        }
        match older {
            NONE => self.oldest = newer,
            older => self.places[older as usize].newer = newer,
        }
        if self.hand == slot {
            self.hand = newer;
        }
        self.ranked -= 1;
    }
}

impl Replacement for Sieve {
    fn new(_: Capacity) -> Self {
        Sieve { places: Vec::new(), newest: NONE, oldest: NONE, hand: NONE, ranked: 0 }
    }

    fn inserted(&mut self, slot: u32, _: Item) {
        if self.places.len() <= slot as usize {
            self.places.resize(slot as usize + 1, NOWHERE);
        }
        self.link(slot);
    }

    fn touched(&mut self, slot: u32) {
        if let Some(place) = self.places.get_mut(slot as usize) {
            place.was_used = true;
        }
    }

    fn removed(&mut self, slot: u32, _: Removal) {
        // A dirty frame is not in the queue any more when it is dropped.
        if self.places.get(slot as usize).is_some_and(|place| place.is_ranked) {
            self.unlink(slot);
        }
    }

    fn victim(&mut self, usable: &mut dyn FnMut(u32) -> bool) -> Option<u32> {
        // The first round may do no more than forget uses.
        for _ in 0..2 * self.ranked {
            let slot = if self.hand == NONE { self.oldest } else { self.hand };
            let place = &mut self.places[slot as usize];
            self.hand = place.newer;
            if !std::mem::take(&mut place.was_used) && usable(slot) {
                return Some(slot);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hand_spares_what_was_used_and_goes_on_from_there() {
        let mut policy = Sieve::new(Capacity { units: 3, mean: 1 });
        for slot in 0..3 {
            policy.inserted(slot, Item { file: 1, block: slot.into(), weight: 1 });
        }
        policy.touched(0);
        assert_eq!(policy.victim(&mut |_| true), Some(1));
        policy.removed(1, Removal::Evicted);
        assert_eq!(policy.victim(&mut |_| true), Some(2));
        assert_eq!(policy.victim(&mut |_| false), None);
    }
}
