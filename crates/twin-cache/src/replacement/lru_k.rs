//! LRU-K with K = 2: E. O'Neil, P. O'Neil and Weikum, "The LRU-K Page Replacement Algorithm for Database
//! Disk Buffering", SIGMOD 1993, figure 2.1. Evicts the frame whose last but one use is longest ago;
//! frames that were used once come first, the least recently used of them first. The times of use of an
//! evicted block are retained for some time. Uses that follow each other soon are correlated and count
//! as one.
//!
//! Time is counted in uses of any block. The paper has two periods of time, which depend on the workload;
//! here they are shares of the cache. The one of correlated uses was chosen so that the published hit
//! ratio of LRU-2 on the OLTP string is met with 1,000 frames.

use std::collections::{BTreeSet, VecDeque};

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

/// A frame and the use after which it waits for its correlated period to end. It means nothing any more once the
/// frame was used or filled anew.
struct Waiting {
    last: u64,
    slot: u32,
}

/// What is known of a slot.
#[derive(Clone, Copy)]
struct Frame {
    item: Item,
    uses: Uses,
    /// It may be evicted; a dirty frame may not.
    is_ranked: bool,
}

/// A frame is in `order` once its correlated period is over, so that a search for a victim does not pass those whose
/// period lasts. Until then it is in `waiting`, which is in the order of uses and no longer than the period.
#[derive(Default)]
pub(super) struct LruK {
    now: u64,
    order: BTreeSet<Rank>,
    waiting: VecDeque<Waiting>,
    frames: Vec<Frame>,
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
        let Frame { uses, .. } = self.frames.get(slot as usize)?;
        Some((uses.second, uses.first, slot))
    }

    /// The frame was used now, and these are its uses with this one. Whoever has waited long enough is ranked here, at
    /// each use, and not when a victim is needed: a cache that has room needs none, however often it is used.
    fn used(&mut self, slot: u32, uses: Uses) {
        self.frames[slot as usize].uses = uses;
        self.waiting.push_back(Waiting { last: uses.last, slot });
        self.rank_those_that_waited();
    }

    /// Ranks the frames whose correlated period is over.
    fn rank_those_that_waited(&mut self) {
        while let Some(&Waiting { last, slot }) = self.waiting.front() {
            if self.now - last < self.correlated {
                break;
            }
            self.waiting.pop_front();
            self.rank_if_used_last(last, slot);
        }
    }

    fn rank_if_used_last(&mut self, last: u64, slot: u32) {
        let frame = self.frames[slot as usize];
        if frame.is_ranked && frame.uses.last == last {
            self.order.extend(self.rank(slot));
        }
    }

    /// The frame to evict if the correlated period of all lasts: the same one as if it lasted for none.
    fn correlated_victim(&self, usable: &mut dyn FnMut(u32) -> bool) -> Option<u32> {
        let waits = self.waiting.iter().filter(|waiting| {
            let frame = &self.frames[waiting.slot as usize];
            frame.is_ranked && frame.uses.last == waiting.last
        });
        let usable = waits.map(|waiting| waiting.slot).filter(|&slot| usable(slot));
        usable.min_by_key(|&slot| self.rank(slot))
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
        let frame = Frame { item, uses: Uses::default(), is_ranked: true };
        let i = slot as usize;
        if self.frames.len() <= i {
            self.frames.resize(i + 1, frame);
        }
        self.frames[i] = frame;
        self.used(slot, Uses { first: self.now, second, last: self.now });
    }

    fn cleaned(&mut self, slot: u32, _: Item) {
        let frame = &mut self.frames[slot as usize];
        frame.is_ranked = true;
        let last = frame.uses.last;
        // Otherwise it waits still. The queue is asked and not the time, since the period may have grown.
        if self.waiting.front().is_none_or(|oldest| last < oldest.last) {
            self.rank_if_used_last(last, slot);
        }
    }

    fn touched(&mut self, slot: u32) {
        let Some(rank) = self.rank(slot) else { return };
        if !self.frames[slot as usize].is_ranked {
            return;
        }
        self.now += 1;
        let uses = self.frames[slot as usize].uses;
        if self.now - uses.last <= self.correlated {
            self.used(slot, Uses { last: self.now, ..uses });
        } else {
            self.order.remove(&rank);
            // Moved by the time of the correlated uses since `first`: second = first + (last - first).
            let second = uses.last.max(uses.first);
            self.used(slot, Uses { first: self.now, second, last: self.now });
        }
    }

    fn removed(&mut self, slot: u32, why: Removal) {
        let Some(rank) = self.rank(slot) else { return };
        let frame = &mut self.frames[slot as usize];
        if !frame.is_ranked {
            return;
        }
        frame.is_ranked = false;
        let Frame { item, uses, .. } = *frame;
        self.order.remove(&rank);
        if why == Removal::Evicted {
            self.retained.push(0, item, uses);
            while self.retained.weight(0) > self.retained_max && self.retained.forget_oldest(0) {}
        }
    }

    fn victim(&mut self, usable: &mut dyn FnMut(u32) -> bool) -> Option<u32> {
        let mut held = Vec::new();
        let mut found = None;
        for &(_, _, slot) in &self.order {
            if usable(slot) {
                found = Some(slot);
                break;
            }
            held.push(slot);
        }
        // Before the others are used, which ends the wait of some.
        let found = found.or_else(|| self.correlated_victim(usable));
        // A frame that is held is in use now.
        for slot in held {
            if let Some(rank) = self.rank(slot) {
                self.order.remove(&rank);
            }
            self.now += 1;
            let uses = self.frames[slot as usize].uses;
            self.used(slot, Uses { first: self.now, last: self.now, ..uses });
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The uses of a cache with room were kept until a victim was needed, which was never.
    #[test]
    fn uses_that_need_no_victim_take_no_memory() {
        let mut policy = LruK::new(Capacity::frames(64));
        for slot in 0..16 {
            policy.inserted(slot, Item::frame((1, slot as _)));
        }
        for nth in 0..10_000 {
            policy.touched(nth % 16);
        }
        assert!(policy.waiting.len() as u64 <= policy.correlated, "{}", policy.waiting.len());
        assert_eq!(policy.order.len() + policy.waiting.len(), 16);
    }
}
