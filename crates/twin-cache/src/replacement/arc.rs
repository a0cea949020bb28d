//! ARC: Megiddo and Modha, "ARC: A Self-Tuning, Low Overhead Replacement Cache", FAST 2003, figure 4.
//! Frames that were used once (T1) and again (T2), and the blocks that recently left each (B1, B2). A
//! block that returns from B1 shows that T1 should be larger, one from B2 that it should be smaller.
//!
//! Objects of different sizes weigh their bytes, in all sizes of the figure.

use super::ghosts::Ghosts;
use super::{Capacity, Item, Removal, Replacement, list::Lists};

/// The lists, of frames and of ghosts: T1 and B1, T2 and B2.
const ONCE: usize = 0;
const AGAIN: usize = 1;

pub(super) struct Arc {
    capacity: u64,
    /// The target size of T1.
    p: f64,
    frames: Lists<2>,
    items: Vec<Item>,
    ghosts: Ghosts<2>,
    /// The block for which room is made, and the list of ghosts that it was in.
    incoming: Option<(Item, Option<usize>)>,
}

impl Arc {
    pub(super) fn new(capacity: Capacity) -> Arc {
        Arc {
            capacity: capacity.units,
            p: 0.0,
            frames: Lists::default(),
            items: Vec::new(),
            ghosts: Ghosts::default(),
            incoming: None,
        }
    }

    fn incoming_weight(&self) -> u64 {
        self.incoming.map_or(1, |(item, _)| u64::from(item.weight))
    }

    /// The list from which the incoming block returns.
    fn returns_from(&self) -> Option<usize> {
        self.incoming.and_then(|(_, list)| list)
    }

    /// That a block that is known nowhere would make T1 and B1 together larger than the cache (case A
    /// of case IV).
    fn is_first_full(&self) -> bool {
        let first = self.frames.weight(ONCE) + self.ghosts.weight(ONCE);
        self.returns_from().is_none() && first + self.incoming_weight() > self.capacity
    }

    /// The list that REPLACE takes a frame from.
    fn replaced_list(&self) -> usize {
        let once = self.frames.weight(ONCE) as f64;
        let is_beyond = once > self.p || (once == self.p && self.returns_from() == Some(AGAIN));
        let is_first = !self.frames.is_empty(ONCE) && is_beyond;
        if is_first || self.frames.is_empty(AGAIN) { ONCE } else { AGAIN }
    }

    /// Makes room among the ghosts for the block of a frame that is evicted. Returns false if the
    /// block is not remembered itself.
    fn trim_ghosts(&mut self, from: usize) -> bool {
        if self.is_first_full() {
            return self.ghosts.forget_oldest(ONCE) || from == AGAIN;
        }
        let all = [ONCE, AGAIN].map(|list| self.frames.weight(list) + self.ghosts.weight(list));
        if self.returns_from().is_none() && all[ONCE] + all[AGAIN] >= 2 * self.capacity {
            self.ghosts.forget_oldest(AGAIN);
        }
        true
    }
}

impl Replacement for Arc {
    fn resized(&mut self, capacity: Capacity) {
        self.capacity = capacity.units;
        self.p = self.p.min(self.capacity as f64);
    }

    fn missed(&mut self, item: Item) -> bool {
        let list = self.ghosts.list_of(item.key);
        if let Some(list) = list {
            let (own, other) = (self.ghosts.weight(list), self.ghosts.weight(1 - list));
            let delta = (other as f64 / own as f64).max(1.0);
            self.p = match list {
                ONCE => (self.p + delta).min(self.capacity as f64),
                _ => (self.p - delta).max(0.0),
            };
            self.ghosts.remove(item.key);
        }
        self.incoming = Some((item, list));
        true
    }

    fn inserted(&mut self, slot: u32, item: Item) {
        super::remember(&mut self.items, slot, item);
        let incoming = self.incoming.take().filter(|(expected, _)| expected.key == item.key);
        let is_back = incoming.is_some_and(|(_, list)| list.is_some());
        self.frames.push(if is_back { AGAIN } else { ONCE }, slot, item.weight);
    }

    fn cleaned(&mut self, slot: u32, item: Item) {
        self.frames.push(self.frames.last_list(slot), slot, item.weight);
    }

    fn touched(&mut self, slot: u32) {
        self.frames.move_to(AGAIN, slot);
    }

    fn removed(&mut self, slot: u32, why: Removal) {
        if why == Removal::Evicted
            && let Some(list) = self.frames.list_of(slot)
            && self.trim_ghosts(list)
        {
            self.ghosts.push(list, self.items[slot as usize], ());
        }
        self.frames.remove(slot);
    }

    fn victim(&mut self, usable: &mut dyn FnMut(u32) -> bool) -> Option<u32> {
        let is_alone = self.is_first_full() && self.ghosts.len(ONCE) == 0;
        let list = if is_alone { ONCE } else { self.replaced_list() };
        let found = self.frames.oldest_usable(list, usable);
        found.or_else(|| self.frames.oldest_usable(1 - list, usable))
    }
}
