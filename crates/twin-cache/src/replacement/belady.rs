//! Belady's optimum (MIN): Belady, "A Study of Replacement Algorithms for a Virtual-Storage Computer", IBM
//! Systems Journal 5(2), 1966. Evicts the frame whose next use is furthest in the future. It needs to know
//! all accesses in advance, so it is for studies of recorded accesses. It is the optimum where all blocks have
//! one size: of objects of several sizes it evicts by time alone, and others may have fewer misses.

use std::collections::BinaryHeap;

use super::{Item, Removal, Replacement};

pub(super) struct Belady {
    /// When the block that is accessed now will be used next.
    next: u64,
    /// The next use of each frame; `None` for frames that are not ranked.
    frames: Vec<Option<u64>>,
    /// The frames by next use, with some that have been used or removed since.
    order: BinaryHeap<(u64, u32)>,
}

impl Default for Belady {
    fn default() -> Belady {
        Belady { next: u64::MAX, frames: Vec::new(), order: BinaryHeap::new() }
    }
}

/// So many outdated ranks are kept at least.
const OUTDATED: usize = 1024;

impl Belady {
    /// Drops outdated ranks when they are the most: hits leave one each, and may be as many as the accesses.
    fn forget_the_past(&mut self) {
        if self.order.len() > 2 * self.frames.len() + OUTDATED {
            let ranks = (0..).zip(&self.frames);
            self.order = ranks.filter_map(|(slot, next)| Some(((*next)?, slot))).collect();
        }
    }
}

impl Replacement for Belady {
    fn future(&mut self, next: u64) {
        self.next = next;
    }

    fn inserted(&mut self, slot: u32, _: Item) {
        let i = slot as usize;
        if self.frames.len() <= i {
            self.frames.resize(i + 1, None);
        }
        self.frames[i] = Some(self.next);
        self.order.push((self.next, slot));
    }

    fn touched(&mut self, slot: u32) {
        self.frames[slot as usize] = Some(self.next);
        self.order.push((self.next, slot));
        self.forget_the_past();
    }

    fn removed(&mut self, slot: u32, _why: Removal) {
        if let Some(next) = self.frames.get_mut(slot as usize) {
            *next = None;
        }
    }

    fn victim(&mut self, usable: &mut dyn FnMut(u32) -> bool) -> Option<u32> {
        let mut held = Vec::new();
        let mut found = None;
        while let Some(rank) = self.order.pop() {
            let (next, slot) = rank;
            if self.frames[slot as usize] != Some(next) {
                continue;
            }
            held.push(rank);
            if usable(slot) {
                found = Some(slot);
                break;
            }
        }
        self.order.extend(held);
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each hit left a rank behind: four million accesses to a thousand blocks took 120 MB.
    #[test]
    fn hits_take_no_memory() {
        let mut belady = Belady::default();
        for slot in 0..10 {
            belady.future(u64::from(slot));
            belady.inserted(slot, Item { key: (0, slot.into()), weight: 1 });
        }
        for access in 10..100_000 {
            belady.future(access + 10);
            belady.touched((access % 10) as u32);
        }
        assert!(belady.order.len() < 2 * OUTDATED, "{} ranks", belady.order.len());
        assert_eq!(belady.victim(&mut |_| true), Some(9));
    }
}
