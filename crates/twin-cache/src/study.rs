//! Replacement policies without a cache: which of a stream of accesses would have been hits.
//!
//! Contract: the policies are those of the cache, and are called as the cache calls them for blocks
//! that are only read. An access touches a frame, or evicts the policy's victims until there is room and
//! adds a frame. There are no contents, no files and no time, so a study of millions of accesses takes
//! less than a second. Blocks and objects are numbers from 0 on without gaps, so that no access needs a
//! hash.
//!
//! Start at [`Study`]; [`LruSizes`] is faster for LRU, because it has all sizes in one pass.

use crate::{Capacity, Item, Removal, Replacement};

/// The value for a block that is in no frame.
const NOWHERE: u32 = u32::MAX;

/// What is told of each access.
pub trait Observer {
    /// The access with this number found its block.
    fn hit(&mut self, _access: u64, _block: u32) {}
    /// The access with this number did not.
    fn missed(&mut self, _access: u64, _block: u32) {}
    /// A block was evicted.
    fn evicted(&mut self, _block: u32) {}
}

impl Observer for () {}

/// How much of the cache each block takes.
pub trait Weights {
    /// True if they differ.
    const DIFFER: bool;
    /// The weight of a block.
    fn of(&self, block: u32) -> u32;
}

/// Blocks of one size.
#[derive(Clone, Copy, Debug)]
pub struct Blocks;

impl Weights for Blocks {
    const DIFFER: bool = false;

    fn of(&self, _: u32) -> u32 {
        1
    }
}

/// Objects with their sizes in bytes.
#[derive(Clone, Copy, Debug)]
pub struct Objects<'a>(pub &'a [u32]);

impl Weights for Objects<'_> {
    const DIFFER: bool = true;

    fn of(&self, object: u32) -> u32 {
        self.0[object as usize]
    }
}

/// A policy at work on accesses, in a cache that is empty at the beginning.
pub struct Study<W> {
    policy: Box<dyn Replacement>,
    weights: W,
    capacity: u64,
    used: u64,
    /// The slot of each block.
    places: Vec<u32>,
    /// The block in each slot.
    holds: Vec<u32>,
    free: Vec<u32>,
    accesses: u64,
    hits: u64,
}

impl<W: Weights> Study<W> {
    /// A study of a policy that was made for this capacity. Blocks are numbers below `blocks`.
    pub fn new(
        policy: Box<dyn Replacement>,
        capacity: Capacity,
        blocks: u32,
        weights: W,
    ) -> Study<W> {
        Study {
            policy,
            weights,
            capacity: capacity.units,
            used: 0,
            places: vec![NOWHERE; blocks as usize],
            holds: Vec::new(),
            free: Vec::new(),
            accesses: 0,
            hits: 0,
        }
    }

    /// The accesses so far.
    pub fn accesses(&self) -> u64 {
        self.accesses
    }

    /// The accesses so far that found their block.
    pub fn hits(&self) -> u64 {
        self.hits
    }

    /// Those that did not.
    pub fn misses(&self) -> u64 {
        self.accesses - self.hits
    }

    /// The weight of what is in the cache.
    pub fn used(&self) -> u64 {
        self.used
    }

    /// The next accesses.
    ///
    /// # Panics
    /// If one is not below the number of blocks.
    pub fn feed<O: Observer>(&mut self, accesses: impl IntoIterator<Item = u32>, observer: &mut O) {
        for block in accesses {
            self.access(block, observer);
        }
    }

    /// The next accesses, each with the number of the next access to its block, or `u32::MAX`.
    ///
    /// # Panics
    /// If one is not below the number of blocks.
    pub fn feed_with_future<O: Observer>(
        &mut self,
        accesses: impl IntoIterator<Item = (u32, u32)>,
        observer: &mut O,
    ) {
        for (block, next) in accesses {
            self.policy.future(if next == u32::MAX { u64::MAX } else { next.into() });
            self.access(block, observer);
        }
    }

    #[inline]
    fn access<O: Observer>(&mut self, block: u32, observer: &mut O) {
        let number = self.accesses;
        self.accesses += 1;
        let slot = self.places[block as usize];
        if slot == NOWHERE {
            observer.missed(number, block);
            self.miss(block, observer);
        } else {
            self.hits += 1;
            self.policy.touched(slot);
            observer.hit(number, block);
        }
        self.let_leave(observer);
    }

    fn miss<O: Observer>(&mut self, block: u32, observer: &mut O) {
        let weight = self.weights.of(block);
        let item = Item { key: (0, block.into()), weight };
        if u64::from(weight) > self.capacity || !self.policy.missed(item) {
            return;
        }
        self.let_leave(observer);
        while self.used + u64::from(weight) > self.capacity {
            let Some(victim) = self.policy.victim(&mut |_| true) else { return };
            self.policy.removed(victim, Removal::Evicted);
            self.vacate(victim, observer);
            self.let_leave(observer);
        }
        let slot = match self.free.pop() {
            Some(slot) => slot,
            None => {
                self.holds.push(block);
                self.holds.len() as u32 - 1
            }
        };
        self.holds[slot as usize] = block;
        self.places[block as usize] = slot;
        self.used += u64::from(weight);
        self.policy.inserted(slot, item);
    }

    fn vacate<O: Observer>(&mut self, slot: u32, observer: &mut O) {
        let block = self.holds[slot as usize];
        self.places[block as usize] = NOWHERE;
        self.used -= u64::from(self.weights.of(block));
        self.free.push(slot);
        observer.evicted(block);
    }

    /// What the policy does not want any more leaves; only objects do that.
    #[inline]
    fn let_leave<O: Observer>(&mut self, observer: &mut O) {
        if W::DIFFER {
            while let Some(slot) = self.policy.leaving() {
                self.vacate(slot, observer);
            }
        }
    }
}

/// The number of `accesses` to blocks of one size that find their block in a cache of `frames` frames,
/// which is empty at the beginning. Blocks are numbers below `blocks`.
///
/// # Panics
/// If `frames` is zero, or an access is not below `blocks`.
pub fn hits(
    policy: Box<dyn Replacement>,
    frames: u32,
    blocks: u32,
    accesses: impl IntoIterator<Item = u32>,
) -> u64 {
    assert!(frames > 0, "a cache has at least one frame");
    let capacity = Capacity::frames(frames.into());
    let mut study = Study::new(policy, capacity, blocks, Blocks);
    study.feed(accesses, &mut ());
    study.hits()
}

/// For each access the number of the next one to the same block, or `u32::MAX`.
pub fn next_accesses(accesses: &[u32], blocks: u32) -> Vec<u32> {
    let mut latest = vec![u32::MAX; blocks as usize];
    let mut next = vec![u32::MAX; accesses.len()];
    for (number, block) in accesses.iter().enumerate().rev() {
        next[number] = std::mem::replace(&mut latest[*block as usize], number as u32);
    }
    next
}

/// A block in the stack of [`LruSizes`].
#[derive(Clone, Copy)]
struct Stacked {
    above: u32,
    below: u32,
    /// The first size with which the block is in the cache; the number of sizes if there is none.
    part: u32,
}

/// LRU for several sizes in one pass: the stack algorithm of Mattson, Gecsei, Slutz and Traiger,
/// "Evaluation Techniques for Storage Hierarchies", IBM Systems Journal 9(2), 1970. A cache of any size
/// has the top of one stack. A mark stands at the last block of each size, so that an access costs a
/// step for each size with which it is a miss, and no search.
pub struct LruSizes {
    sizes: Vec<u32>,
    stack: Vec<Stacked>,
    top: u32,
    bottom: u32,
    len: u32,
    /// The block at the depth of each size, if the stack is that deep.
    marks: Vec<u32>,
    /// The accesses that are hits from each size on, and misses with all at the end.
    hits_from: Vec<u64>,
}

impl LruSizes {
    /// For caches of these numbers of frames, in ascending order without repetition.
    ///
    /// # Panics
    /// If there is none, or they are not in order or begin with zero.
    pub fn new(sizes: &[u32], blocks: u32) -> LruSizes {
        let ordered = sizes.windows(2).all(|pair| pair[0] < pair[1]);
        assert!(ordered && sizes.first().is_some_and(|size| *size > 0), "sizes {sizes:?}");
        let nowhere = Stacked { above: NOWHERE, below: NOWHERE, part: sizes.len() as u32 };
        LruSizes {
            sizes: sizes.to_vec(),
            stack: vec![nowhere; blocks as usize],
            top: NOWHERE,
            bottom: NOWHERE,
            len: 0,
            marks: vec![NOWHERE; sizes.len()],
            hits_from: vec![0; sizes.len() + 1],
        }
    }

    /// The next accesses.
    ///
    /// # Panics
    /// If one is not below the number of blocks.
    pub fn feed(&mut self, accesses: impl IntoIterator<Item = u32>) {
        accesses.into_iter().for_each(|block| self.access(block));
    }

    #[inline]
    fn access(&mut self, block: u32) {
        let Stacked { part, above, .. } = self.stack[block as usize];
        self.hits_from[part as usize] += 1;
        if block == self.top {
            return;
        }
        // What is at the marks above goes one down.
        for size in 0..part as usize {
            let mark = self.marks[size];
            if mark == NOWHERE {
                break;
            }
            let marked = &mut self.stack[mark as usize];
            marked.part = size as u32 + 1;
            self.marks[size] = if marked.above == NOWHERE { block } else { marked.above };
        }
        if part as usize == self.sizes.len() {
            self.push(block);
            return;
        }
        if self.marks[part as usize] == block {
            self.marks[part as usize] = above;
        }
        self.unlink(block);
        self.link(block);
    }

    /// Puts a block on top that was not in the stack; the stack keeps the largest size.
    fn push(&mut self, block: u32) {
        self.link(block);
        self.len += 1;
        if self.len > self.sizes[self.sizes.len() - 1] {
            self.unlink(self.bottom);
            self.len -= 1;
        } else if let Ok(size) = self.sizes.binary_search(&self.len) {
            self.marks[size] = self.bottom;
        }
    }

    fn link(&mut self, block: u32) {
        self.stack[block as usize] = Stacked { above: NOWHERE, below: self.top, part: 0 };
        match self.top {
            NOWHERE => self.bottom = block,
            top => self.stack[top as usize].above = block,
        }
        self.top = block;
    }

    fn unlink(&mut self, block: u32) {
        let Stacked { above, below, .. } = self.stack[block as usize];
        match above {
            NOWHERE => self.top = below,
            above => self.stack[above as usize].below = below,
        }
        match below {
            NOWHERE => self.bottom = above,
            below => self.stack[below as usize].above = above,
        }
    }

    /// The misses so far with each size.
    pub fn misses(&self) -> Vec<u64> {
        let mut misses: u64 = self.hits_from.iter().sum();
        let hits = self.hits_from[..self.sizes.len()].iter();
        hits.map(|hits| {
            misses -= hits;
            misses
        })
        .collect()
    }
}

#[cfg(test)]
mod tests {
    use std::rc::Rc;

    use twin_disk::Block;
    use twin_rt::Rng;

    use super::*;
    use crate::{Cache, FileFrames, Lbn, replacement};

    fn accesses(seed: u64) -> Vec<u32> {
        let mut rng = Rng::new(seed);
        (0..20_000).map(|_| (rng.below(200) * rng.below(200) / 200) as u32).collect()
    }

    #[test]
    fn every_policy_hits_as_often_as_in_the_cache() {
        let accesses = accesses(1);
        for entry in &replacement::REGISTRY {
            let policy = || entry.make(Capacity::frames(50));
            let cache = Cache::new(50 * 4096, 4096, policy());
            let file: Rc<FileFrames> = FileFrames::new(0);
            for &block in &accesses {
                if cache.get(&file, Lbn::from(block)).is_none() {
                    cache.insert(&file, Lbn::from(block), Some(Block::Zero(4096)));
                }
            }
            let here = hits(policy(), 50, 200, accesses.iter().copied());
            assert_eq!(here, cache.stats().hits, "{}", entry.name);
        }
    }

    #[test]
    fn lru_in_one_pass_is_lru_for_each_size() {
        for seed in 0..20 {
            let mut rng = Rng::new(seed);
            let accesses: Vec<u32> = match seed % 3 {
                0 => accesses(seed),
                1 => (0..20_000).map(|at| at % 190).collect(),
                _ => (0..20_000).map(|_| rng.below(1 + rng.clone().below(200)) as u32).collect(),
            };
            let mut sizes: Vec<u32> = (0..12).map(|_| 1 + rng.below(220) as u32).collect();
            sizes.sort_unstable();
            sizes.dedup();
            let mut all = LruSizes::new(&sizes, 200);
            all.feed(accesses.iter().copied());
            let one = |frames: &u32| {
                let policy =
                    replacement::REGISTRY.default_entry().make(Capacity::frames((*frames).into()));
                accesses.len() as u64 - hits(policy, *frames, 200, accesses.iter().copied())
            };
            assert_eq!(all.misses(), sizes.iter().map(one).collect::<Vec<_>>(), "seed {seed}");
        }
    }

    /// Nothing has fewer misses than the optimum, with any size.
    #[test]
    fn no_policy_hits_more_often_than_the_optimum() {
        let optimum = replacement::REGISTRY.iter().find(|entry| entry.needs_future()).unwrap();
        for (seed, frames) in [(3, 10), (4, 50), (5, 120)] {
            let accesses = accesses(seed);
            let next = next_accesses(&accesses, 200);
            let hits_of = |entry: &twin_settings::RegistryEntry<crate::Policy>| {
                let capacity = Capacity::frames(frames);
                let mut study = Study::new(entry.make(capacity), capacity, 200, Blocks);
                study.feed_with_future(accesses.iter().copied().zip(next.iter().copied()), &mut ());
                study.hits()
            };
            let best = hits_of(optimum);
            for entry in &replacement::REGISTRY {
                let hits = hits_of(entry);
                assert!(hits <= best, "{}: {hits} of {best}, {frames} frames", entry.name);
                assert!(hits > 0, "{}: {hits} of {best}, {frames} frames", entry.name);
            }
        }
    }

    /// Objects of all sizes, some larger than a part of the cache or than all of it: the cache is
    /// never over its capacity, and no object is in it that has left.
    #[test]
    fn objects_never_take_more_than_the_cache_has() {
        for rules in [crate::Rules::Paper, crate::Rules::LibCacheSim] {
            for entry in &replacement::REGISTRY {
                let mut rng = Rng::new(7);
                let sizes: Vec<u32> =
                    (0..200).map(|_| 1 << rng.below(12) as u32).collect::<Vec<_>>();
                let capacity = Capacity { units: 3000, mean: 300, rules };
                let mut study = Study::new(entry.make(capacity), capacity, 200, Objects(&sizes));
                for access in accesses(9) {
                    study.feed([access], &mut ());
                    assert!(study.used() <= 3000, "{}", entry.name);
                }
                let there = study.holds.iter().enumerate();
                let there =
                    there.filter(|(slot, block)| study.places[**block as usize] == *slot as u32);
                let weight: u64 = there.map(|(_, block)| u64::from(sizes[*block as usize])).sum();
                assert_eq!(weight, study.used(), "{}", entry.name);
                assert!(study.hits() > 1000, "{}: {} hits", entry.name, study.hits());
            }
        }
    }
}
