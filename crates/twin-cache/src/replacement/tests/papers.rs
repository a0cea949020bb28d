//! Each policy decides what its paper says: every access is a hit or a miss as in the naive reference.

use twin_rt::Rng;

use super::naive::{self, Naive};
use crate::replacement::REGISTRY;
use crate::study::{Blocks, Observer, Study, next_accesses};
use crate::{Capacity, replacement};

const BLOCKS: u32 = 120;

/// Accesses with hot and cold blocks, loops and scans, so that every branch of a policy is taken.
fn accesses(seed: u64) -> Vec<u32> {
    let mut rng = Rng::new(seed);
    let mut all = Vec::new();
    while all.len() < 4000 {
        let (from, len) = (rng.below(u64::from(BLOCKS)), 1 + rng.below(60));
        let block = |n: u64| (n % u64::from(BLOCKS)) as u32;
        match rng.below(5) {
            0 => all.extend((from..from + len).map(block)),
            1 => all.extend((0..3 * len).map(|n| block(from + n % len))),
            2 => all.extend((0..len).map(|_| block(from + rng.below(12)))),
            _ => all.extend((0..len).map(|_| block(rng.below(1 + rng.clone().below(120))))),
        }
    }
    all
}

#[derive(Default)]
struct Hits(Vec<bool>);

impl Observer for Hits {
    fn hit(&mut self, _: u64, _: u32) {
        self.0.push(true);
    }

    fn missed(&mut self, _: u64, _: u32) {
        self.0.push(false);
    }
}

fn compare(name: &str, naive: impl Fn(usize, &[u32]) -> Naive) {
    let entry = REGISTRY.get(name).unwrap();
    for seed in 0..40 {
        let accesses = accesses(seed);
        let next = next_accesses(&accesses, BLOCKS);
        let frames = [1, 2, 3, 10, 25, 40, 100][seed as usize % 7];
        let capacity = Capacity::frames(frames as u64);
        let mut study = Study::new(entry.make(capacity), capacity, BLOCKS, Blocks);
        let mut found = Hits::default();
        study.feed_with_future(accesses.iter().copied().zip(next), &mut found);
        let mut reference = naive(frames, &accesses);
        for (at, block) in accesses.iter().enumerate() {
            let expected = reference(*block);
            assert_eq!(found.0[at], expected, "{name}, {frames} frames, seed {seed}, access {at}");
        }
    }
}

macro_rules! as_the_paper_says {
    ($($test:ident: $name:literal is $naive:path;)*) => {$(
        #[test]
        fn $test() {
            compare($name, |frames, _| $naive(frames));
        }
    )*};
}

as_the_paper_says! {
    fifo_is_the_naive_one: "fifo" is naive::fifo;
    lru_is_the_naive_one: "lru" is naive::lru;
    mru_is_the_naive_one: "mru" is naive::mru;
    clock_is_the_naive_one: "clock" is naive::clock;
    lfu_is_the_naive_one: "lfu" is naive::lfu;
    sieve_is_the_naive_one: "sieve" is naive::sieve;
    slru_is_the_naive_one: "slru" is naive::slru;
    two_queue_is_the_naive_one: "2q" is naive::two_queue;
    lru_2_is_the_naive_one: "lru-2" is naive::lru_2;
    arc_is_the_naive_one: "arc" is naive::arc;
    car_is_the_naive_one: "car" is naive::car;
    lirs_is_the_naive_one: "lirs" is naive::lirs;
    clock_pro_is_the_naive_one: "clock-pro" is naive::clock_pro;
    s3_fifo_is_the_naive_one: "s3-fifo" is naive::s3_fifo;
    w_tiny_lfu_is_the_naive_one: "w-tinylfu" is naive::w_tiny_lfu;
}

#[test]
fn belady_is_the_naive_one() {
    compare("belady", |frames, accesses| naive::belady(frames, accesses.to_vec()));
}

/// Of 20 frames each leaves about as often as any other.
#[test]
fn random_evicts_all_frames_alike() {
    let mut policy = REGISTRY.get("random").unwrap().make(Capacity::frames(20));
    let item = |slot: u32| replacement::Item::frame((1, slot.into()));
    (0..20).for_each(|slot| policy.inserted(slot, item(slot)));
    let mut times = [0u32; 20];
    for _ in 0..20_000 {
        let slot = policy.victim(&mut |slot| slot != 7).unwrap();
        policy.removed(slot, replacement::Removal::Evicted);
        policy.inserted(slot, item(slot));
        times[slot as usize] += 1;
    }
    assert_eq!(times[7], 0);
    // Expected are 1,053 each, with a standard deviation of 32.
    let others = times.iter().enumerate().filter(|(slot, _)| *slot != 7);
    assert!(others.clone().all(|(_, n)| (900..1200).contains(n)), "{times:?}");
}

/// A registry entry without a reference would go untested.
#[test]
fn every_policy_is_compared_with_its_paper() {
    let source = include_str!("papers.rs");
    for entry in &REGISTRY {
        assert!(source.contains(&format!("{:?}", entry.name)), "{}", entry.name);
    }
}
