//! CAR: Bansal and Modha, "CAR: Clock with Adaptive Replacement", FAST 2004, figure 2. As ARC, but T1 and
//! T2 are clocks: a use only sets a bit, and a frame moves when the hand passes it.
//!
//! Rules of libCacheSim for objects: sizes are bytes, so that the target of T1 hardly moves; the target is
//! adapted before room is made, in whole numbers; B1 is trimmed for any block, and B2 never is.

use super::ghosts::Ghosts;
use super::marks::Marks;
use super::{Capacity, Item, Removal, Replacement, list::Lists};

/// The lists, of frames and of ghosts: T1 and B1, T2 and B2. The hand of a clock points at the oldest.
const ONCE: usize = 0;
const AGAIN: usize = 1;

pub(super) struct Car {
    capacity: Capacity,
    /// The target size of T1.
    p: f64,
    frames: Lists<2>,
    used: Marks,
    items: Vec<Item>,
    ghosts: Ghosts<2>,
    /// The block for which room is made, and the list that it will be in if that is known.
    incoming: Option<(Item, Option<usize>)>,
}

impl Car {
    pub(super) fn new(capacity: Capacity) -> Car {
        Car {
            capacity,
            p: 0.0,
            frames: Lists::default(),
            used: Marks::default(),
            items: Vec::new(),
            ghosts: Ghosts::default(),
            incoming: None,
        }
    }

    /// Lines 6 to 10 of the figure: discards a ghost, if the incoming block is none.
    fn trim_ghosts(&mut self) {
        let weight = |list| self.frames.weight(list) + self.ghosts.weight(list);
        let (first, all) = (weight(ONCE), weight(ONCE) + weight(AGAIN));
        let is_ghost = |(item, _): (Item, _)| self.ghosts.list_of(item.key).is_some();
        let by_paper = self.capacity.by_paper();
        if by_paper && self.incoming.is_some_and(is_ghost) {
            return;
        }
        if first >= self.capacity.units {
            self.ghosts.forget_oldest(ONCE);
        } else if by_paper && all >= 2 * self.capacity.units {
            self.ghosts.forget_oldest(AGAIN);
        }
    }

    /// Lines 12 to 20: the list of a block that was not in the cache, after the target was adapted.
    fn adapt(&mut self, item: Item) -> usize {
        let Some(list) = self.ghosts.list_of(item.key) else { return ONCE };
        let (own, other) = (self.ghosts.weight(list), self.ghosts.weight(1 - list));
        let ratio = match self.capacity.by_paper() {
            true => other as f64 / own as f64,
            false => (other / own) as f64,
        };
        self.p = match list {
            ONCE => (self.p + ratio.max(1.0)).min(self.capacity.units as f64),
            _ => (self.p - ratio.max(1.0)).max(0.0),
        };
        self.ghosts.remove(item.key);
        AGAIN
    }
}

impl Replacement for Car {
    fn resized(&mut self, capacity: Capacity) {
        self.capacity = capacity;
        self.p = self.p.min(self.capacity.units as f64);
    }

    fn missed(&mut self, item: Item) -> bool {
        let list = (!self.capacity.by_paper()).then(|| self.adapt(item));
        self.incoming = Some((item, list));
        true
    }

    fn inserted(&mut self, slot: u32, item: Item) {
        super::remember(&mut self.items, slot, item);
        let known = self.incoming.take().and_then(|(_, list)| list);
        let list = known.unwrap_or_else(|| self.adapt(item));
        self.frames.push(list, slot, item.weight);
        self.used.set(slot, false);
    }

    fn cleaned(&mut self, slot: u32, item: Item) {
        self.frames.push(self.frames.last_list(slot), slot, item.weight);
    }

    fn touched(&mut self, slot: u32) {
        self.used.set(slot, true);
    }

    fn removed(&mut self, slot: u32, why: Removal) {
        if let Some(list) = self.frames.remove(slot)
            && why == Removal::Evicted
        {
            self.ghosts.push(list, self.items[slot as usize], ());
            self.trim_ghosts();
        }
    }

    fn victim(&mut self, usable: &mut dyn FnMut(u32) -> bool) -> Option<u32> {
        // A frame is passed at most twice before its bit is clear.
        for _ in 0..3 * (self.frames.len(ONCE) + self.frames.len(AGAIN)) {
            let is_first = self.frames.weight(ONCE) as f64 >= self.p.max(1.0);
            let list = if is_first || self.frames.is_empty(AGAIN) { ONCE } else { AGAIN };
            let slot = self.frames.oldest(list)?;
            if self.used.get(slot) {
                self.used.set(slot, false);
                self.frames.move_to(AGAIN, slot);
            } else if let Some(slot) = self.frames.oldest_usable(list, usable) {
                // Those before it are in use.
                if !self.used.get(slot) {
                    return Some(slot);
                }
            } else {
                return self.frames.oldest_usable(1 - list, usable);
            }
        }
        None
    }
}
