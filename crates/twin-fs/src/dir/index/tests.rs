//! Tests of the index: random changes compared with a list, a million entries, equal hashes, and
//! damage.

use std::collections::BTreeSet;

use twin_rt::{FixedMap, Rng};

use super::*;
use crate::dir::name_hash;

/// An index on a simulated file. Each operation begins with no block in memory, so that the harness
/// counts all loads.
struct Harness {
    file: FixedMap<u64, Vec<u8>>,
    block_size: usize,
    loads: u64,
    writes: u64,
    most_loads: u64,
}

#[derive(Default)]
struct MemoryFrames {
    blocks: BTreeMap<u64, (Vec<u8>, bool)>,
}

impl Frames for MemoryFrames {
    fn read<R>(&self, lbn: u64, f: impl FnOnce(&[u8]) -> R) -> Option<R> {
        self.blocks.get(&lbn).map(|(block, _)| f(block))
    }

    fn write<R>(&mut self, lbn: u64, f: impl FnOnce(&mut [u8]) -> R) -> Option<R> {
        self.blocks.get_mut(&lbn).map(|(block, dirty)| {
            *dirty = true;
            f(block)
        })
    }
}

impl Harness {
    fn new(block_size: usize) -> Harness {
        let file = FixedMap::default();
        let mut new = Harness { file, block_size, loads: 0, writes: 0, most_loads: 0 };
        new.run(|f| create(f, [3, 4])).unwrap();
        new
    }

    fn run<T>(
        &mut self,
        op: impl Fn(&mut MemoryFrames) -> Result<T, StepError>,
    ) -> Result<T, IndexError> {
        let mut held = MemoryFrames::default();
        let mut loads = 0;
        let done = loop {
            match op(&mut held) {
                Ok(done) => break done,
                Err(stop) => {
                    assert!(held.blocks.values().all(|(_, dirty)| !dirty), "changed, then stopped");
                    let (lbn, block) = match stop {
                        StepError::Load(lbn) => {
                            loads += 1;
                            let hole = || vec![0; self.block_size];
                            (lbn, self.file.get(&lbn).cloned().unwrap_or_else(hole))
                        }
                        // The contents must not matter.
                        StepError::Make(lbn) => (lbn, vec![0x5a; self.block_size]),
                        StepError::Bad(error) => return Err(error),
                    };
                    assert!(held.blocks.insert(lbn, (block, false)).is_none(), "{lbn} again");
                }
            }
        };
        self.loads += loads;
        self.most_loads = self.most_loads.max(loads);
        for (lbn, (block, dirty)) in held.blocks {
            if dirty {
                self.writes += 1;
                self.file.insert(lbn, block);
            }
        }
        Ok(done)
    }

    fn insert(&mut self, hash: u32, position: u32) {
        self.run(|f| insert(f, hash, position)).unwrap();
        self.run(grow).unwrap();
    }

    fn remove(&mut self, hash: u32, position: u32) -> bool {
        let removed = self.run(|f| remove(f, hash, position)).unwrap();
        if let Some(lbn) = self.run(shrink).unwrap() {
            self.file.remove(&lbn);
        }
        removed
    }

    fn lookup(&mut self, hash: u32) -> Vec<u32> {
        self.run(|f| lookup(f, hash)).unwrap()
    }

    fn header(&mut self) -> Header {
        self.run(|f| header(f)).unwrap()
    }

    /// Checks that every block has exactly one use, and returns all entries in order.
    fn check(&mut self) -> Vec<Slot> {
        let header = self.header();
        let mut slots = Vec::new();
        let mut used = BTreeSet::from([0]);
        let mut chained = 0;
        for bucket in 0..header.buckets {
            let report = self.run(|f| check_bucket(f, bucket)).unwrap();
            slots.extend(report.slots);
            chained += report.blocks.len() - 1;
            for lbn in report.blocks {
                assert!(used.insert(lbn), "block {lbn} is used twice");
            }
        }
        let free = self.run(|f| check_free_blocks(f)).unwrap();
        assert_eq!(chained + free.len(), header.overflow as usize);
        for lbn in free {
            assert!(used.insert(lbn), "block {lbn} is free and used");
        }
        assert_eq!(slots.len() as u64, header.entries);
        slots.sort_unstable();
        slots
    }
}

#[test]
fn an_entry_is_found_until_it_is_removed() {
    let mut index = Harness::new(4096);
    index.insert(7, 1);
    index.insert(7, 2);
    index.insert(7, 2);
    assert_eq!(index.lookup(7), [1, 2]);
    assert!(index.remove(7, 2));
    assert_eq!(index.lookup(7), [1, 2]);
    assert!(index.remove(7, 2));
    assert!(!index.remove(7, 2));
    assert_eq!(index.lookup(7), [1]);
    assert_eq!(index.lookup(8), [0; 0]);
}

/// Compares random inserts and removes with a sorted list, in growing and shrinking phases and with
/// many equal hashes.
#[test]
fn the_index_agrees_with_a_list_over_random_changes() {
    for seed in 0..4 {
        let mut rng = Rng::new(seed);
        let mut index = Harness::new(512);
        let mut shadow: Vec<Slot> = Vec::new();
        for step in 0..12_000u64 {
            let growing = (step / 3_000) % 2 == 0;
            if rng.chance(if growing { 0.8 } else { 0.2 }) || shadow.is_empty() {
                let bits = rng.below(32);
                let skewed = rng.below(1 << bits);
                let slot = Slot { hash: skewed as u32, position: rng.below(4) as u32 };
                index.insert(slot.hash, slot.position);
                shadow.push(slot);
            } else {
                let nth = rng.below(shadow.len() as u64) as usize;
                let slot = shadow.swap_remove(nth);
                assert!(index.remove(slot.hash, slot.position), "seed {seed} step {step}");
            }
            if step % 500 == 0 {
                let mut expected = shadow.clone();
                expected.sort_unstable();
                assert_eq!(index.check(), expected, "seed {seed} step {step}");
                let hash = rng.below(64) as u32;
                let mut positions: Vec<u32> =
                    expected.iter().filter(|s| s.hash == hash).map(|s| s.position).collect();
                positions.dedup();
                assert_eq!(index.lookup(hash), positions, "seed {seed} step {step}");
            }
        }
        while let Some(slot) = shadow.pop() {
            assert!(index.remove(slot.hash, slot.position), "seed {seed}");
        }
        assert_eq!(index.check(), []);
        assert_eq!(index.header().buckets, 1);
    }
}

#[test]
fn a_million_names_take_few_blocks_a_lookup() {
    const NAMES: u32 = 1_000_000;
    let mut index = Harness::new(4096);
    let key = index.header().key;
    let hash = |i: u32| name_hash(key, format!("file{i}").as_bytes());
    let started = index.loads;
    (0..NAMES).for_each(|i| index.insert(hash(i), i / 100));
    let per_insert = (index.loads - started) as f64 / f64::from(NAMES);
    let (started, file_blocks) = (index.loads, index.file.len());
    index.most_loads = 0;
    for i in (0..NAMES).step_by(7) {
        assert!(index.lookup(hash(i)).contains(&(i / 100)));
    }
    let per_lookup = (index.loads - started) as f64 / f64::from(NAMES.div_ceil(7));
    println!("{per_insert:.3} loads an insert, {per_lookup:.3} a lookup, {file_blocks} blocks");
    // A lookup reads the header and a bucket. An insert reads the header again to decide about
    // `grow`.
    assert!(per_lookup < 2.3 && index.most_loads <= 3, "{per_lookup}, {}", index.most_loads);
    assert!(per_insert < 3.5, "{per_insert}");
    assert!(file_blocks < 4_000, "{file_blocks} blocks of 4096 for a million entries");
    assert_eq!(index.check().len(), NAMES as usize);
    (0..NAMES).for_each(|i| assert!(index.remove(hash(i), i / 100)));
    assert_eq!((index.header().entries, index.header().buckets), (0, 1));
    index.check();
}

#[test]
fn equal_hashes_form_a_chain_that_costs_inserts_nothing() {
    let mut index = Harness::new(4096);
    for i in 0..20_000 {
        index.run(|f| insert(f, 0xdead_beef, i)).unwrap();
    }
    let few = index.most_loads;
    assert!(few <= 4, "{few} blocks for an insert");
    while index.run(grow).unwrap() {}
    for i in 20_000..40_000u32 {
        index.insert(i.wrapping_mul(0x9e37_79b9), i);
    }
    assert_eq!(index.lookup(0xdead_beef), (0..20_000).collect::<Vec<_>>());
    index.check();
    for i in (0..20_000).rev().step_by(2).chain((0..20_000).step_by(2)) {
        assert!(index.remove(0xdead_beef, i));
    }
    assert_eq!(index.lookup(0xdead_beef), [0; 0]);
    for i in 20_000..40_000u32 {
        assert!(index.remove(i.wrapping_mul(0x9e37_79b9), i));
    }
    assert_eq!(index.check(), []);
}

#[test]
fn freed_overflow_blocks_are_used_again() {
    let mut index = Harness::new(512);
    let fill = |index: &mut Harness| (0..5_000).for_each(|i| index.insert(i % 3, i));
    fill(&mut index);
    let overflow = index.header().overflow;
    for _ in 0..3 {
        (0..5_000).for_each(|i| assert!(index.remove(i % 3, i)));
        fill(&mut index);
    }
    assert!(index.header().overflow <= overflow + 1, "{} blocks", index.header().overflow);
    index.check();
}

#[test]
fn damaged_indexes_give_errors_and_never_panic() {
    let seed = 5;
    let mut rng = Rng::new(seed);
    let mut good = Harness::new(512);
    (0..2_000).for_each(|i| good.insert(if i % 4 == 0 { 9 } else { i * 77 }, i));
    (0..300).for_each(|i| assert!(good.remove(9, i * 4)));
    let lbns: Vec<u64> = good.file.keys().copied().collect();
    let mut errors = 0;
    for round in 0..10_000 {
        let mut index = Harness { file: good.file.clone(), loads: 0, writes: 0, ..good };
        for _ in 0..rng.range(1, 4) {
            let lbn = if rng.chance(0.3) { 0 } else { *rng.pick(&lbns) };
            let block = index.file.get_mut(&lbn).unwrap();
            let near = if rng.chance(0.8) { 80 } else { block.len() as u64 };
            block[rng.below(near) as usize] = rng.next_u64() as u8;
        }
        let hash = rng.below(100) as u32 * 77;
        let results = [
            index.run(|f| lookup(f, 9)).is_ok(),
            index.run(|f| insert(f, hash, 1)).is_ok(),
            index.run(grow).is_ok(),
            index.run(|f| remove(f, 9, 1_600)).is_ok(),
            index.run(shrink).is_ok(),
            index.run(|f| check_free_blocks(f)).is_ok(),
            index.run(|f| check_bucket(f, hash % 20)).is_ok(),
        ];
        errors += usize::from(results.contains(&false));
        assert!(index.loads < 10_000, "seed {seed} round {round}: runs in circles");
    }
    assert!(errors > 2_000, "seed {seed}: only {errors} of 10000 damages were seen");
}
