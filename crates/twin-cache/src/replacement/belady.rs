//! Belady's optimum (MIN): Belady, "A Study of Replacement Algorithms for a Virtual-Storage Computer", IBM
//! Systems Journal 5(2), 1966. Evicts the frame whose next use is furthest in the future. It needs to know
//! all accesses in advance, so it is for studies of recorded accesses.

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
