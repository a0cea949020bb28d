//! W-TinyLFU: Einziger, Friedman and Manes, "TinyLFU: A Highly Efficient Cache Admission Policy", ACM
//! Transactions on Storage 13(4), 2017, section 4. New frames enter a window of a hundredth of the cache.
//! The oldest frame of a full window meets the oldest one on probation in the main part, which is an SLRU
//! with 80% protected: the one that was used less often of late leaves the cache. How often a block
//! was used is estimated for all blocks, by a count-min sketch of four-bit counters that are halved
//! after ten uses a frame.
//!
//! The paper's doorkeeper, a filter that saves counters for blocks that are used once, is left out.

use super::{Capacity, Item, Key, Removal, Replacement, list::Lists};

const WINDOW_SHARE: f64 = 0.01;
const PROTECTED_SHARE: f64 = 0.8;
/// Uses after which the counters are halved, for each frame of the cache.
const SAMPLE: u64 = 10;
/// The largest cache for which the sketch has counters of its own, in blocks.
const SKETCH_MAX: u64 = 1 << 26;

const WINDOW: usize = 0;
const PROBATION: usize = 1;
const PROTECTED: usize = 2;

/// A count-min sketch with conservative update: four rows of four-bit counters, sixteen to a word.
pub(super) struct Sketch {
    rows: [Vec<u64>; 4],
    uses: u64,
    sample: u64,
}

/// Odd multipliers that spread a hash over each row.
const SPREAD: [u64; 4] =
    [0x9e37_79b9_7f4a_7c15, 0xc2b2_ae3d_27d4_eb4f, 0x1656_67b1_9e37_79f9, 0xd6e8_feb8_6659_fd93];
const LOW_BITS: u64 = 0x7777_7777_7777_7777;
const ODD_BITS: u64 = 0x1111_1111_1111_1111;
const MOST: u64 = 15;

impl Sketch {
    /// A sketch for a cache of this many blocks.
    pub(super) fn new(blocks: u64) -> Sketch {
        let (words, sample) = Sketch::sizes(blocks);
        Sketch { rows: std::array::from_fn(|_| vec![0; words]), uses: 0, sample }
    }

    /// The words of a row, and the uses after which counters are halved.
    fn sizes(blocks: u64) -> (usize, u64) {
        let blocks = blocks.clamp(16, SKETCH_MAX);
        ((blocks.next_power_of_two() / 4) as usize, SAMPLE * blocks)
    }

    /// Fits it to another number of blocks.
    fn fit(&mut self, blocks: u64) {
        let (words, sample) = Sketch::sizes(blocks);
        match words > self.rows[0].len() {
            true => *self = Sketch::new(blocks),
            false => self.sample = sample,
        }
    }

    /// The word of a key in a row, and the shift of its counter.
    fn place(&self, key: Key, row: usize) -> (usize, u32) {
        let mixed = (key.0.rotate_left(32) ^ key.1 as u64).wrapping_mul(SPREAD[0]);
        let hash = (mixed ^ (mixed >> 32)).wrapping_mul(SPREAD[row] | 1);
        let hash = hash ^ (hash >> 29);
        let word = (hash >> 4) as usize & (self.rows[row].len() - 1);
        (word, (hash & 15) as u32 * 4)
    }

    pub(super) fn estimate(&self, key: Key) -> u64 {
        let counts = (0..4).map(|row| {
            let (word, shift) = self.place(key, row);
            self.rows[row][word] >> shift & MOST
        });
        counts.min().unwrap_or(0)
    }

    pub(super) fn add(&mut self, key: Key) {
        let estimate = self.estimate(key);
        if estimate < MOST {
            for row in 0..4 {
                let (word, shift) = self.place(key, row);
                let counters = &mut self.rows[row][word];
                if *counters >> shift & MOST == estimate {
                    *counters += 1 << shift;
                }
            }
        }
        self.uses += 1;
        if self.uses >= self.sample {
            self.halve();
        }
    }

    fn halve(&mut self) {
        let mut odd = 0;
        for counters in self.rows.iter_mut().flatten() {
            odd += u64::from((*counters & ODD_BITS).count_ones());
            *counters = *counters >> 1 & LOW_BITS;
        }
        self.uses = (self.uses - odd / 4) / 2;
    }
}

pub(super) struct WTinyLfu {
    window_max: u64,
    protected_max: u64,
    frames: Lists<3>,
    items: Vec<Item>,
    sketch: Sketch,
    incoming_weight: u64,
    /// The number of victims for which the main part is not searched, because all of it was in use: otherwise every
    /// search would look at frames again that are held for long.
    main_rests: usize,
}

/// The weights of the window and of the protected segment.
fn shares(capacity: Capacity) -> (u64, u64) {
    let window_max = capacity.share(WINDOW_SHARE).max(1);
    let main = Capacity { units: capacity.units.saturating_sub(window_max), ..capacity };
    (window_max, main.share(PROTECTED_SHARE))
}

impl WTinyLfu {
    pub(super) fn new(capacity: Capacity) -> WTinyLfu {
        let (window_max, protected_max) = shares(capacity);
        WTinyLfu {
            window_max,
            protected_max,
            frames: Lists::default(),
            items: Vec::new(),
            sketch: Sketch::new(capacity.blocks()),
            incoming_weight: 1,
            main_rests: 0,
        }
    }

    /// The oldest frame of the main part, those on probation first.
    fn main_victim(&mut self, usable: &mut dyn FnMut(u32) -> bool) -> Option<u32> {
        let found = self.frames.oldest_usable(PROBATION, usable);
        let found = found.or_else(|| self.frames.oldest_usable(PROTECTED, usable));
        if found.is_none() {
            self.main_rests = self.frames.len(PROBATION) + self.frames.len(PROTECTED);
        }
        found
    }

    /// Moves what the window has no room for into the main part.
    fn shrink_window(&mut self) {
        while self.frames.weight(WINDOW) > self.window_max
            && let Some(oldest) = self.frames.oldest(WINDOW)
        {
            self.frames.move_to(PROBATION, oldest);
        }
    }

    fn protect(&mut self, slot: u32) {
        self.frames.move_to(PROTECTED, slot);
        while self.frames.weight(PROTECTED) > self.protected_max
            && let Some(oldest) = self.frames.oldest(PROTECTED)
        {
            self.frames.move_to(PROBATION, oldest);
        }
    }

    fn estimate(&self, slot: u32) -> u64 {
        self.sketch.estimate(self.items[slot as usize].key)
    }
}

impl Replacement for WTinyLfu {
    /// A sketch that has got too small is replaced by an empty one.
    fn resized(&mut self, capacity: Capacity) {
        (self.window_max, self.protected_max) = shares(capacity);
        self.shrink_window();
        self.sketch.fit(capacity.blocks());
    }

    fn missed(&mut self, item: Item) -> bool {
        self.sketch.add(item.key);
        self.incoming_weight = u64::from(item.weight);
        true
    }

    fn inserted(&mut self, slot: u32, item: Item) {
        super::remember(&mut self.items, slot, item);
        self.frames.push(WINDOW, slot, item.weight);
        self.shrink_window();
    }

    fn cleaned(&mut self, slot: u32, item: Item) {
        self.frames.push(self.frames.last_list(slot), slot, item.weight);
        self.shrink_window();
    }

    fn touched(&mut self, slot: u32) {
        self.sketch.add(self.items[slot as usize].key);
        match self.frames.list_of(slot) {
            Some(WINDOW) => self.frames.move_to(WINDOW, slot),
            Some(_) => self.protect(slot),
            None => {}
        }
    }

    fn removed(&mut self, slot: u32, _why: Removal) {
        self.frames.remove(slot);
    }

    fn victim(&mut self, usable: &mut dyn FnMut(u32) -> bool) -> Option<u32> {
        let rests = self.main_rests > 0;
        self.main_rests = self.main_rests.saturating_sub(1);
        let main = if rests { None } else { self.main_victim(usable) };
        let is_full = self.frames.weight(WINDOW) + self.incoming_weight > self.window_max;
        if !is_full && main.is_some() {
            return main;
        }
        match (self.frames.oldest_usable(WINDOW, usable), main) {
            // Between equals the one in the main part stays.
            (Some(candidate), Some(main)) => {
                let admitted = self.estimate(candidate) > self.estimate(main);
                Some(if admitted { main } else { candidate })
            }
            (Some(candidate), None) => Some(candidate),
            (None, main) => main.or_else(|| self.main_victim(usable)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An estimate is never below the uses since the last halving, and for most keys right.
    #[test]
    fn estimates_are_close_and_never_too_small() {
        let mut sketch = Sketch::new(1000);
        let uses = |key: i64| if key % 10 == 0 { 12 } else { 1 };
        let keys = || (0..900).map(|key| (1, key));
        for key in keys() {
            (0..uses(key.1)).for_each(|_| sketch.add(key));
        }
        assert!(keys().all(|key| sketch.estimate(key) >= uses(key.1)));
        let right = keys().filter(|key| sketch.estimate(*key) == uses(key.1)).count();
        assert!(right > 800, "{right} of 900");
    }

    #[test]
    fn what_was_used_long_ago_is_forgotten() {
        let mut sketch = Sketch::new(100);
        (0..12).for_each(|_| sketch.add((1, 0)));
        let before = sketch.estimate((1, 0));
        (0..3000).for_each(|n| sketch.add((2, n)));
        assert!(before == 12 && sketch.estimate((1, 0)) < 6);
    }
}
