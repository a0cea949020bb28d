//! S3-FIFO: Yang, Zhang, Qiu, Yue and Rashmi, "FIFO Queues are All You Need for Cache Eviction", SOSP
//! 2023, algorithm 1. New frames enter a small queue, from which most leave the cache soon; those that
//! were used more than once meanwhile move to the main queue, and so do blocks that return soon after
//! they left. In the main queue a frame that was used is inserted again.
//!
//! The main queue gives a frame back when the small one moves frames to it and it is full; the search
//! ends there, because one frame is enough.
//!
//! Rules of libCacheSim for objects: whether a block returns is decided before room is made; a frame is taken from the main queue if that is beyond its size, not
//! if the small one is within its own; and before the first eviction what the small queue has no room
//! for enters the main queue.

use super::ghosts::Ghosts;
use super::{Capacity, Item, Key, Removal, Replacement, list::Lists};

/// The share of the cache that is the small queue.
const SMALL_SHARE: f64 = 0.1;
/// The uses from which on a frame moves from the small queue to the main one.
const MOVES_AT: u8 = 2;
/// Uses are counted up to here.
const MOST_USES: u8 = 3;

const SMALL: usize = 0;
const MAIN: usize = 1;

pub(super) struct S3Fifo {
    by_paper: bool,
    small_max: u64,
    main_max: u64,
    queues: Lists<2>,
    frames: Vec<(Item, u8)>,
    ghosts: Ghosts<1>,
    has_evicted: bool,
    /// The block for which room is made, if it returns.
    returning: Option<Key>,
}

impl S3Fifo {
    pub(super) fn new(capacity: Capacity) -> S3Fifo {
        let small_max = capacity.share(SMALL_SHARE);
        S3Fifo {
            by_paper: capacity.by_paper(),
            small_max,
            main_max: capacity.units - small_max.min(capacity.units),
            queues: Lists::default(),
            frames: Vec::new(),
            ghosts: Ghosts::default(),
            has_evicted: false,
            returning: None,
        }
    }

    /// The frame that leaves the main queue (EVICTM).
    fn evict_main(&mut self, usable: &mut dyn FnMut(u32) -> bool) -> Option<u32> {
        for _ in 0..(usize::from(MOST_USES) + 1) * self.queues.len(MAIN) {
            let slot = self.queues.oldest(MAIN)?;
            let uses = &mut self.frames[slot as usize].1;
            if *uses == 0 && usable(slot) {
                return Some(slot);
            }
            *uses = uses.saturating_sub(1);
            self.queues.move_to(MAIN, slot);
        }
        None
    }

    /// The frame that leaves the small queue, or the main one if it got too large (EVICTS).
    fn evict_small(&mut self, usable: &mut dyn FnMut(u32) -> bool) -> Option<u32> {
        for _ in 0..self.queues.len(SMALL) {
            let slot = self.queues.oldest(SMALL)?;
            let uses = &mut self.frames[slot as usize].1;
            if *uses < MOVES_AT {
                if usable(slot) {
                    return Some(slot);
                }
                self.queues.move_to(SMALL, slot);
                continue;
            }
            *uses = 0;
            self.queues.move_to(MAIN, slot);
            if self.by_paper && self.queues.weight(MAIN) > self.main_max {
                return self.evict_main(usable);
            }
        }
        None
    }
}

impl Replacement for S3Fifo {
    fn resized(&mut self, capacity: Capacity) {
        self.small_max = capacity.share(SMALL_SHARE);
        self.main_max = capacity.units - self.small_max.min(capacity.units);
    }

    fn missed(&mut self, item: Item) -> bool {
        if self.by_paper {
            return true;
        }
        let weight = u64::from(item.weight);
        let returns = self.ghosts.remove(item.key).is_some();
        self.returning = returns.then_some(item.key);
        weight < self.small_max || (returns && weight == self.small_max)
    }

    fn inserted(&mut self, slot: u32, item: Item) {
        let i = slot as usize;
        if self.frames.len() <= i {
            self.frames.resize(i + 1, (item, 0));
        }
        self.frames[i] = (item, 0);
        let is_full = self.queues.weight(SMALL) >= self.small_max;
        let fills = !self.by_paper && !self.has_evicted && is_full;
        let returns = self.returning.take() == Some(item.key);
        let returns = returns || self.ghosts.remove(item.key).is_some();
        let queue = if returns || fills { MAIN } else { SMALL };
        self.queues.push(queue, slot, item.weight);
    }

    fn cleaned(&mut self, slot: u32, item: Item) {
        self.queues.push(self.queues.last_list(slot), slot, item.weight);
    }

    fn touched(&mut self, slot: u32) {
        let uses = &mut self.frames[slot as usize].1;
        *uses = (*uses + 1).min(MOST_USES);
    }

    fn removed(&mut self, slot: u32, why: Removal) {
        if self.queues.remove(slot) == Some(SMALL) && why == Removal::Evicted {
            let item = self.frames[slot as usize].0;
            // As many blocks as the main queue has frames.
            while self.ghosts.weight(0) + u64::from(item.weight) > self.main_max
                && self.ghosts.forget_oldest(0)
            {}
            self.ghosts.push(0, item, ());
        }
    }

    fn victim(&mut self, usable: &mut dyn FnMut(u32) -> bool) -> Option<u32> {
        self.has_evicted = true;
        let is_small = match self.by_paper {
            true => self.queues.weight(SMALL) >= self.small_max.max(1),
            false => self.queues.weight(MAIN) <= self.main_max,
        };
        // What the small queue has may all move to the main one.
        let found = match is_small && !self.queues.is_empty(SMALL) {
            true => self.evict_small(usable),
            false => None,
        };
        let found = found.or_else(|| self.evict_main(usable));
        found.or_else(|| self.queues.oldest_usable(SMALL, usable))
    }
}
