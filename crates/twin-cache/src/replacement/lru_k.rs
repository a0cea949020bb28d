//! LRU-K with K = 2: E. O'Neil, P. O'Neil and Weikum, "The LRU-K Page Replacement Algorithm for Database
//! Disk Buffering", SIGMOD 1993, figure 2.1. Evicts the frame whose last but one use is longest ago;
//! frames that were used once come first, the least recently used of them first. The times of use of an
//! evicted block are retained for some time. Uses that follow each other soon are correlated and count
//! as one.
//!
//! Time is counted in uses of any block. The paper has two periods of time, which depend on the workload;
//! here they are shares of the cache. The one of correlated uses was chosen so that the published hit
//! ratio of LRU-2 on the OLTP string is met with 1,000 frames.

use std::collections::BTreeSet;

use super::ghosts::Ghosts;
use super::{Capacity, Item, Removal, Replacement};

/// The paper's Correlated Reference Period: uses of other blocks, as a share of the frames.
const CORRELATED: f64 = 0.125;
/// The paper's Retained Information Period: the number of evicted blocks that are remembered, as a share
/// of the frames.
const RETAINED: f64 = 1.0;

/// When a block was used.
#[derive(Clone, Copy, Default)]
struct Uses {
    /// The latest use that is correlated with none before (HIST(p,1)).
    first: u64,
    /// The one before, moved by the time that its correlated uses took (HIST(p,2)); 0 if there is
    /// none.
    second: u64,
    /// The latest use (LAST).
    last: u64,
}

/// A frame in the order of eviction.
type Rank = (u64, u64, u32);

#[derive(Default)]
pub(super) struct LruK {
    now: u64,
    order: BTreeSet<Rank>,
    frames: Vec<(Item, Uses)>,
    retained: Ghosts<1, Uses>,
    correlated: u64,
    retained_max: u64,
}

impl LruK {
    pub(super) fn new(capacity: Capacity) -> LruK {
        let frames = Capacity { units: capacity.blocks(), ..capacity };
        LruK {
            correlated: frames.share(CORRELATED),
            retained_max: capacity.share(RETAINED),
            ..LruK::default()
        }
    }

    fn rank(&self, slot: u32) -> Option<Rank> {
        let (_, uses) = self.frames.get(slot as usize)?;
        Some((uses.second, uses.first, slot))
    }

    fn remove(&mut self, slot: u32) -> bool {
        self.rank(slot).is_some_and(|rank| self.order.remove(&rank))
    }

    fn add(&mut self, slot: u32) {
        self.order.extend(self.rank(slot));
    }
}

impl Replacement for LruK {
    fn resized(&mut self, capacity: Capacity) {
        let frames = Capacity { units: capacity.blocks(), ..capacity };
        (self.correlated, self.retained_max) = (frames.share(CORRELATED), capacity.share(RETAINED));
    }

    fn inserted(&mut self, slot: u32, item: Item) {
        self.now += 1;
        let second = self.retained.remove(item.key).map_or(0, |(_, uses)| uses.first);
        let i = slot as usize;
        if self.frames.len() <= i {
            self.frames.resize(i + 1, (item, Uses::default()));
        }
        self.frames[i] = (item, Uses { first: self.now, second, last: self.now });
        self.add(slot);
    }

    fn cleaned(&mut self, slot: u32, _: Item) {
        self.add(slot);
    }

    fn touched(&mut self, slot: u32) {
        let Some(rank) = self.rank(slot) else { return };
        self.now += 1;
        let Uses { first, last, .. } = self.frames[slot as usize].1;
        if self.now - last <= self.correlated {
            self.frames[slot as usize].1.last = self.now;
        } else if self.order.remove(&rank) {
            // Moved by the time of the correlated uses since `first`: second = first + (last - first).
            let uses = Uses { first: self.now, second: last.max(first), last: self.now };
            self.frames[slot as usize].1 = uses;
            self.add(slot);
        }
    }

    fn removed(&mut self, slot: u32, why: Removal) {
        if self.remove(slot) && why == Removal::Evicted {
            let (item, uses) = self.frames[slot as usize];
            self.retained.push(0, item, uses);
            while self.retained.weight(0) > self.retained_max && self.retained.forget_oldest(0) {}
        }
    }

    fn victim(&mut self, usable: &mut dyn FnMut(u32) -> bool) -> Option<u32> {
        let mut held = Vec::new();
        let mut correlated = None;
        let mut found = None;
        for &(_, _, slot) in &self.order {
            if !usable(slot) {
                held.push(slot);
                continue;
            }
            if self.now - self.frames[slot as usize].1.last >= self.correlated {
                found = Some(slot);
                break;
            }
            // In a correlated period; evicted only if all are.
            correlated = correlated.or(Some(slot));
        }
        // A frame that is held is in use now.
        for slot in held {
            self.remove(slot);
            self.now += 1;
            let uses = &mut self.frames[slot as usize].1;
            (uses.first, uses.last) = (self.now, self.now);
            self.add(slot);
        }
        found.or(correlated)
    }
}
