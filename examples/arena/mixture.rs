//! A replacement policy with parameters, between SIEVE and S3-FIFO, that may hold blocks of runs cheaper than others.
//!
//! New blocks wait in a small queue. Those that are used there go to the main queue, whose hand spares what was used;
//! keys of those that left the small queue unused are remembered for a while (ghosts), and go to the main queue at
//! once if they come back. A block that came right behind its neighbour was read by a sequential read, and will be
//! again: it needs more uses to stay.

mod twinfs;

use std::collections::{HashMap, VecDeque};

use twinfs::replacement::{Capacity, Item, Removal, Replacement};

crate::export!(replacement, "mixture", "queues with a hand, ghosts and cheaper runs", Mixture);

// What a search changes: one line each.
/// The share of the cache that is the small queue.
const SMALL: f64 = 0.1;
/// Remembered keys, as a multiple of the cache.
const GHOSTS: f64 = 0.9;
/// The most uses that are counted.
const MOST: u8 = 3;
/// Uses that a block needs to leave the small queue for the main one.
const PROMOTE: u8 = 1;
/// What the hand takes from the uses of a block that it spares.
const DECAY: u8 = 1;
/// Whether the hand stays where it is (SIEVE), or blocks that it spares go to the beginning.
const HAND_STAYS: bool = false;
/// The uses with which a block comes back that is remembered.
const BACK: u8 = 0;
/// More uses that a block of a run needs to leave the small queue.
const RUN_PROMOTE: u8 = 0;
/// Uses that do not count for a block of a run in the main queue.
const RUN_MAIN: u8 = 0;
// End of what a search changes.

const NONE: u32 = u32::MAX;

#[derive(Clone, Copy, PartialEq)]
enum Where {
    Nowhere,
    Small,
    Main,
}

#[derive(Clone, Copy)]
struct Place {
    newer: u32,
    older: u32,
    at: Where,
    uses: u8,
    is_run: bool,
    key: (u64, i64),
}

const NOWHERE: Place =
    Place { newer: NONE, older: NONE, at: Where::Nowhere, uses: 0, is_run: false, key: (0, 0) };

#[derive(Clone, Copy)]
struct Queue {
    newest: u32,
    oldest: u32,
    len: usize,
}

const EMPTY: Queue = Queue { newest: NONE, oldest: NONE, len: 0 };

struct Mixture {
    places: Vec<Place>,
    small: Queue,
    main: Queue,
    hand: u32,
    capacity: u64,
    last: (u64, i64),
    ghosts: VecDeque<((u64, i64), u64)>,
    remembered: HashMap<(u64, i64), u64>,
    count: u64,
}

impl Mixture {
    fn link(&mut self, slot: u32, at: Where) {
        let queue = if at == Where::Small { &mut self.small } else { &mut self.main };
        let before = std::mem::replace(&mut queue.newest, slot);
        if before == NONE {
            queue.oldest = slot;
        }
        queue.len += 1;
        let place = &mut self.places[slot as usize];
        (place.newer, place.older, place.at) = (NONE, before, at);
        if before != NONE {
            self.places[before as usize].newer = slot;
        }
    }

    fn unlink(&mut self, slot: u32) {
        let Place { newer, older, at, .. } = self.places[slot as usize];
        let queue = if at == Where::Small { &mut self.small } else { &mut self.main };
        queue.len -= 1;
        match newer {
            NONE => queue.newest = older,
            newer => self.places[newer as usize].older = older,
        }
        match older {
            NONE => queue.oldest = newer,
            older => self.places[older as usize].newer = newer,
        }
        if self.hand == slot {
            self.hand = newer;
        }
        self.places[slot as usize].at = Where::Nowhere;
    }

    fn remember(&mut self, key: (u64, i64)) {
        let most = (self.capacity as f64 * GHOSTS) as usize;
        if most == 0 {
            return;
        }
        self.count += 1;
        self.remembered.insert(key, self.count);
        self.ghosts.push_back((key, self.count));
        while self.ghosts.len() > most {
            if let Some((key, number)) = self.ghosts.pop_front()
                && self.remembered.get(&key) == Some(&number)
            {
                self.remembered.remove(&key);
            }
        }
    }

    /// The victim of the small queue; what was used goes to the main one.
    fn of_small(&mut self, usable: &mut dyn FnMut(u32) -> bool) -> Option<u32> {
        let slot = self.small.oldest;
        let place = self.places[slot as usize];
        let needed = PROMOTE + if place.is_run { RUN_PROMOTE } else { 0 };
        if place.uses < needed && usable(slot) {
            return Some(slot);
        }
        self.unlink(slot);
        if place.uses < needed {
            self.link(slot, Where::Small);
        } else {
            self.places[slot as usize].uses = 0;
            self.link(slot, Where::Main);
        }
        None
    }

    /// The victim of the main queue, or none yet.
    fn of_main(&mut self, usable: &mut dyn FnMut(u32) -> bool) -> Option<u32> {
        let is_at_end = !HAND_STAYS || self.hand == NONE;
        let slot = if is_at_end { self.main.oldest } else { self.hand };
        let place = &mut self.places[slot as usize];
        let free = if place.is_run { RUN_MAIN } else { 0 };
        if place.uses <= free && usable(slot) {
            return Some(slot);
        }
        place.uses = place.uses.saturating_sub(DECAY);
        if HAND_STAYS {
            self.hand = place.newer;
        } else {
            self.unlink(slot);
            self.link(slot, Where::Main);
        }
        None
    }
}

impl Replacement for Mixture {
    fn new(capacity: Capacity) -> Self {
        Mixture {
            places: Vec::new(),
            small: EMPTY,
            main: EMPTY,
            hand: NONE,
            capacity: capacity.units,
            last: (u64::MAX, 0),
            ghosts: VecDeque::new(),
            remembered: HashMap::new(),
            count: 0,
        }
    }

    fn inserted(&mut self, slot: u32, item: Item) {
        if self.places.len() <= slot as usize {
            self.places.resize(slot as usize + 1, NOWHERE);
        }
        let key = (item.file, item.block);
        let is_run = self.last == (key.0, key.1 - 1);
        self.last = key;
        let was_here = self.remembered.remove(&key).is_some();
        let uses = if was_here { BACK } else { 0 };
        self.places[slot as usize] = Place { uses, is_run, key, ..NOWHERE };
        let is_small = !was_here && SMALL > 0.0;
        self.link(slot, if is_small { Where::Small } else { Where::Main });
    }

    fn touched(&mut self, slot: u32) {
        if let Some(place) = self.places.get_mut(slot as usize) {
            place.uses = (place.uses + 1).min(MOST);
        }
    }

    fn removed(&mut self, slot: u32, why: Removal) {
        let Some(place) = self.places.get(slot as usize).copied() else { return };
        if place.at == Where::Nowhere {
            return;
        }
        self.unlink(slot);
        if why == Removal::Evicted && place.at == Where::Small {
            self.remember(place.key);
        }
    }

    fn victim(&mut self, usable: &mut dyn FnMut(u32) -> bool) -> Option<u32> {
        let most = (self.capacity as f64 * SMALL) as usize;
        let all = self.small.len + self.main.len;
        for _ in 0..all * (usize::from(MOST) + 2) {
            let is_small = self.small.len > most || self.main.len == 0;
            let found = match is_small && self.small.len > 0 {
                true => self.of_small(usable),
                false if self.main.len > 0 => self.of_main(usable),
                false => None,
            };
            if found.is_some() {
                return found;
            }
        }
        // All that the queues would give is in use.
        let there = |slot: &u32| self.places[*slot as usize].at != Where::Nowhere;
        (0..self.places.len() as u32).filter(there).find(|slot| usable(*slot))
    }

    fn resized(&mut self, capacity: Capacity) {
        self.capacity = capacity.units;
    }
}
