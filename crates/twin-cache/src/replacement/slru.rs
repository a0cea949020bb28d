//! SLRU: Karedla, Love and Wherry, "Caching Strategies to Improve Disk System Performance", IEEE
//! Computer 27(3), 1994. A new frame is on probation; one that is used again is protected. A frame that
//! has to leave the protected segment is on probation again, as the youngest. Victims are the least
//! recently used frames on probation. The paper leaves the sizes of the segments open.
//!
//! Rules of libCacheSim for objects: five segments of equal size. A use moves an object up by one, what a
//! segment has no room for moves down by one, and out of the lowest also while the cache has room. New
//! objects enter the lowest segment that has room for them.

use super::{Capacity, Item, Removal, Replacement, list::Lists};

/// The share of the cache that is protected.
const PROTECTED_SHARE: f64 = 0.8;
/// The largest number of segments.
const MOST: usize = 5;

pub(super) struct Slru {
    segments: Lists<MOST>,
    /// The largest weight of each segment that is used, the lowest first.
    largest: Vec<u64>,
    /// The size of the largest object that is admitted.
    admits: u64,
    leaving: Vec<u32>,
}

/// The largest weight of each segment, the lowest first.
fn largest(capacity: Capacity) -> Vec<u64> {
    match capacity.by_paper() {
        true => vec![u64::MAX, capacity.share(PROTECTED_SHARE)],
        false => vec![capacity.units / MOST as u64; MOST],
    }
}

impl Slru {
    pub(super) fn new(capacity: Capacity) -> Slru {
        let admits = match capacity.by_paper() {
            true => u64::MAX,
            false => capacity.units / MOST as u64,
        };
        let largest = largest(capacity);
        Slru { segments: Lists::default(), largest, admits, leaving: Vec::new() }
    }

    /// Moves what a segment has no room for to the one below.
    fn cool(&mut self, segment: usize) {
        while self.segments.weight(segment) > self.largest[segment] {
            let Some(oldest) = self.segments.oldest(segment) else { return };
            if segment == 0 {
                self.segments.remove(oldest);
                self.leaving.push(oldest);
            } else {
                self.segments.move_to(segment - 1, oldest);
                self.cool(segment - 1);
            }
        }
    }
}

impl Replacement for Slru {
    fn resized(&mut self, capacity: Capacity) {
        self.largest = largest(capacity);
        (1..self.largest.len()).rev().for_each(|segment| self.cool(segment));
    }

    fn missed(&mut self, item: Item) -> bool {
        u64::from(item.weight) <= self.admits
    }

    fn inserted(&mut self, slot: u32, item: Item) {
        let weight = u64::from(item.weight);
        let has_room = |segment: &usize| {
            self.segments.weight(*segment).saturating_add(weight) <= self.largest[*segment]
        };
        let segment = (0..self.largest.len()).find(has_room).unwrap_or(0);
        self.segments.push(segment, slot, item.weight);
    }

    fn cleaned(&mut self, slot: u32, item: Item) {
        let segment = self.segments.last_list(slot);
        self.segments.push(segment, slot, item.weight);
        self.cool(segment);
    }

    fn touched(&mut self, slot: u32) {
        let Some(segment) = self.segments.list_of(slot) else { return };
        let next = (segment + 1).min(self.largest.len() - 1);
        self.segments.move_to(next, slot);
        if next != segment {
            self.cool(next);
        }
    }

    fn removed(&mut self, slot: u32, _why: Removal) {
        self.segments.remove(slot);
    }

    fn victim(&mut self, usable: &mut dyn FnMut(u32) -> bool) -> Option<u32> {
        (0..self.largest.len()).find_map(|segment| self.segments.oldest_usable(segment, usable))
    }

    fn leaving(&mut self) -> Option<u32> {
        self.leaving.pop()
    }
}
