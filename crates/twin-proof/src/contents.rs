//! What power failures leave, told apart by content.
//!
//! Contract: two outcomes count as one if, sector by sector, the same bytes (or stamps) lie on
//! the medium, however they came there: a tear that keeps every sector is the whole write, and a
//! write that repeats what was there is no write. The fingerprint of a content is a sum over its
//! sectors, so that each outcome costs only the sectors of the writes in doubt.

use std::collections::BTreeMap;
use std::hash::{Hash, Hasher};
use std::rc::Rc;

use twin_disk::{Block, gather};
use twin_rt::{FixedHasher, FixedMap};

use twin_sim::faults::{CrashState, UnstableWrite, WriteOutcome};

/// Fingerprints of the contents along a log of writes.
pub(super) struct Contents {
    /// The fingerprint of what was certain at the last state, less that of the start.
    certain: u64,
    /// The sectors in doubt at the last state, as they certainly were.
    doubtful: BTreeMap<u64, u64>,
    /// The sectors of each write, by its address: the log keeps every write.
    writes: FixedMap<usize, Rc<[u64]>>,
}

impl Contents {
    /// Begins with a content of this fingerprint. Fingerprints compare if their starts do.
    pub(super) fn new(start: u64) -> Contents {
        Contents { certain: start, doubtful: BTreeMap::new(), writes: FixedMap::default() }
    }

    /// Goes on to the next state of the log. Whatever became certain was in doubt at the last one.
    pub(super) fn advance(&mut self, state: &CrashState) {
        let sector = u64::from(state.sector());
        for (at, old) in std::mem::take(&mut self.doubtful) {
            let now = sectors(&state.durable().read(at * sector, sector), sector)[0];
            self.certain = self.certain.wrapping_add(placed(at, now)).wrapping_sub(placed(at, old));
        }
        for unstable in state.unstable_writes() {
            let was = sectors(&state.durable().read(unstable.at, unstable.len), sector);
            self.doubtful.extend((unstable.at / sector..).zip(was.iter().copied()));
            let writes = self.writes.entry(address(unstable));
            writes.or_insert_with(|| sectors(&unstable.blocks, sector));
        }
    }

    /// The fingerprint of the content if the writes in doubt have these outcomes.
    pub(super) fn fingerprint(&self, state: &CrashState, outcomes: &[WriteOutcome]) -> u64 {
        let mut now: BTreeMap<u64, u64> = BTreeMap::new();
        for (unstable, outcome) in state.unstable_writes().iter().zip(outcomes) {
            let first = unstable.at / u64::from(state.sector());
            let survives = |i: u64| match outcome {
                WriteOutcome::Lost => false,
                WriteOutcome::Whole => true,
                WriteOutcome::Torn(mask) => {
                    mask.get((i / 64) as usize).is_some_and(|w| w >> (i % 64) & 1 == 1)
                }
            };
            let write = self.writes[&address(unstable)].iter();
            let kept = (0..).zip(write).filter(|(i, _)| survives(*i));
            now.extend(kept.map(|(i, content)| (first + i, *content)));
        }
        now.into_iter().fold(self.certain, |sum, (at, content)| {
            let was = self.doubtful.get(&at).copied().unwrap_or(0);
            sum.wrapping_add(placed(at, content)).wrapping_sub(placed(at, was))
        })
    }
}

fn address(unstable: &UnstableWrite) -> usize {
    Rc::as_ptr(&unstable.blocks).cast::<u8>() as usize
}

/// What a sector adds to the fingerprint of a content; zeros add nothing.
fn placed(at: u64, content: u64) -> u64 {
    if content == 0 { 0 } else { mix(mix(at) ^ content) }
}

/// The contents of the sectors of some blocks; 0 for zeros.
fn sectors(blocks: &[Block], sector: u64) -> Rc<[u64]> {
    let len: u64 = blocks.iter().map(|block| block.len() as u64).sum();
    let one = |i: u64| match gather(blocks, (i * sector) as usize, sector as usize) {
        Block::Zero(_) => 0,
        Block::Bytes(bytes) if bytes.iter().all(|byte| *byte == 0) => 0,
        Block::Bytes(bytes) => {
            let mut hasher = FixedHasher::default();
            bytes[..].hash(&mut hasher);
            mix(hasher.finish())
        }
        Block::Stamp(stamp) => {
            let mut hasher = FixedHasher::default();
            stamp.hash(&mut hasher);
            mix(hasher.finish())
        }
    };
    (0..len / sector).map(one).collect()
}

fn mix(n: u64) -> u64 {
    let n = (n ^ (n >> 30)).wrapping_add(0x9e37_79b9_7f4a_7c15).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let n = (n ^ (n >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    n ^ (n >> 31)
}

#[cfg(test)]
mod tests {
    use twin_disk::{Bytes, Class, Io, Origin, Stamp};
    use twin_rt::{ClockOnly, MILLIS, Rng, Rt};

    use super::*;
    use twin_disk::BlockDevice;
    use twin_sim::faults::{Exploration, WriteLog};
    use twin_sim::{Platter, SimDisk};

    const SIZE: u64 = 1 << 20;

    /// The fingerprint of a whole platter: what the others are sums of.
    fn of_platter(platter: &Platter, sector: u64) -> u64 {
        let all = sectors(&platter.read(0, platter.size()), sector);
        (0..).zip(all.iter()).fold(0, |sum, (at, one)| u64::wrapping_add(sum, placed(at, *one)))
    }

    /// Random writes, some to one place, some of the same content, with and without flushes.
    fn log(seed: u64) -> WriteLog {
        let rt = Rt::new(ClockOnly::default(), seed);
        let log = WriteLog::new();
        let options = twin_sim::model::Options {
            size: Some(SIZE),
            write_cache: Some(true),
            seed,
            ..Default::default()
        };
        let model = twin_sim::model::REGISTRY.get("jitter").unwrap().build(&options).unwrap();
        let disk = SimDisk::builder(&rt, model).log(&log).start();
        let mut rng = Rng::new(seed);
        for version in 0..40 {
            let lbn = rng.below(6);
            let block = match rng.below(3) {
                0 => Block::Bytes(Bytes::copy_of(&[rng.below(3) as u8; 4096])),
                1 => Block::Zero(4096),
                _ => Block::Stamp(Stamp { ino: 9, lbn, version, off: 0, len: 4096 }),
            };
            let io = match rng.below(6) {
                0 => Io::flush(Origin::User),
                _ => Io::write(lbn * 4096, vec![block], Class::Data, Origin::User),
            };
            drop(disk.submit(io));
            let (rt2, span) = (rt.clone(), rng.below(4 * MILLIS));
            rt.block_on(async move { rt2.sleep(span).await }).unwrap();
        }
        log
    }

    #[test]
    fn a_fingerprint_is_that_of_the_platter_that_a_restart_finds() {
        for seed in 0..20 {
            let mut contents = Contents::new(0);
            let mut rng = Rng::new(seed);
            for point in log(seed).crash_points() {
                contents.advance(&point.state);
                let exploration = Exploration { exhaustive: 3, torn: true, random: 0 };
                let mut all = point.state.outcomes(&exploration);
                let draw = |_: &UnstableWrite| WriteOutcome::random(&mut rng, 8);
                all.push(point.state.unstable_writes().iter().map(draw).collect());
                for outcomes in all {
                    let platter = point.state.with(&outcomes);
                    let expected = of_platter(&platter, u64::from(point.state.sector()));
                    let found = contents.fingerprint(&point.state, &outcomes);
                    assert_eq!(found, expected, "seed {seed}, event {}", point.index);
                }
            }
        }
    }
}
