//! The state that a power failure leaves: the certain content, and the writes in doubt.

use std::rc::Rc;

use twin_disk::Block;
use twin_rt::Rng;

use crate::Platter;

/// A write that was under way, or complete and not flushed, when the power failed.
#[derive(Clone, Debug)]
pub struct UnstableWrite {
    /// First byte on the device.
    pub at: u64,
    /// Length of the write in bytes.
    pub len: u64,
    /// The write had been reported complete.
    pub reported: bool,
    /// The blocks that it writes.
    pub blocks: Rc<[Block]>,
}

/// The outcome of a write in doubt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WriteOutcome {
    /// Nothing of it is on the medium.
    Lost,
    /// All of it is on the medium.
    Whole,
    /// Only some sectors are: bit `i % 64` of word `i / 64` stands for sector `i` of the write.
    Torn(Vec<u64>),
}

impl WriteOutcome {
    /// Only the sectors `from..to` of a write reached the medium.
    pub fn sectors(from: u64, to: u64) -> WriteOutcome {
        let mut mask = vec![0; to.div_ceil(64) as usize];
        (from..to).for_each(|i| mask[(i / 64) as usize] |= 1 << (i % 64));
        WriteOutcome::Torn(mask)
    }

    /// A random outcome of a write of `sectors` sectors: lost, whole or torn, with equal chances. A
    /// torn write is cut between two sectors or survives as any subset of them.
    pub fn random(rng: &mut Rng, sectors: u64) -> WriteOutcome {
        match rng.below(if sectors > 1 { 3 } else { 2 }) {
            0 => WriteOutcome::Lost,
            1 => WriteOutcome::Whole,
            _ if rng.chance(0.5) => {
                let cut = rng.range(1, sectors);
                if rng.chance(0.5) {
                    WriteOutcome::sectors(0, cut)
                } else {
                    WriteOutcome::sectors(cut, sectors)
                }
            }
            _ => WriteOutcome::Torn((0..sectors.div_ceil(64)).map(|_| rng.next_u64()).collect()),
        }
    }
}

/// Selects the outcomes of a crash that are examined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exploration {
    /// Every subset of this many writes in doubt (the latest ones; if more are in doubt, the
    /// earlier ones are whole). At most 16.
    pub exhaustive: u32,
    /// Tears each of these latest writes in three ways, with the earlier ones whole and the later
    /// ones lost.
    pub torn: bool,
    /// Number of additional random outcomes, of all writes in doubt, in random order.
    pub random: u32,
}

impl Default for Exploration {
    fn default() -> Self {
        Exploration { exhaustive: 4, torn: true, random: 4 }
    }
}

/// What is certain and what is in doubt at a power failure. It produces the platters that a restart
/// may find; each costs a snapshot and the writes that survive.
#[derive(Clone, Debug)]
pub struct CrashState {
    pub(crate) base: Platter,
    pub(crate) sector: u32,
    /// The completed writes in the order of completion, then those under way in the order of
    /// submission.
    pub(crate) unstable_writes: Vec<UnstableWrite>,
}

impl CrashState {
    /// The content if nothing in doubt survives.
    pub fn durable(&self) -> &Platter {
        &self.base
    }

    /// Bytes that are written whole or not at all.
    pub fn sector(&self) -> u32 {
        self.sector
    }

    /// The writes in doubt: completed ones in the order of completion, then those under way.
    pub fn unstable_writes(&self) -> &[UnstableWrite] {
        &self.unstable_writes
    }

    /// Sectors of a write in doubt.
    fn sectors(&self, unstable: &UnstableWrite) -> u64 {
        unstable.len / u64::from(self.sector)
    }

    /// The content if the writes in doubt have these outcomes (missing ones: lost). Of two writes
    /// to one sector the later one stays.
    pub fn with(&self, outcomes: &[WriteOutcome]) -> Platter {
        let mut platter = self.base.clone();
        for (unstable, outcome) in self.unstable_writes.iter().zip(outcomes) {
            self.apply(&mut platter, unstable, outcome);
        }
        platter
    }

    /// The content after random outcomes, in random order, drawn from `rng`.
    pub fn random(&self, rng: &mut Rng) -> Platter {
        let mut platter = self.base.clone();
        let mut order: Vec<_> = self.unstable_writes.iter().collect();
        rng.shuffle(&mut order);
        for unstable in order {
            let outcome = WriteOutcome::random(rng, self.sectors(unstable));
            self.apply(&mut platter, unstable, &outcome);
        }
        platter
    }

    fn apply(&self, platter: &mut Platter, unstable: &UnstableWrite, outcome: &WriteOutcome) {
        let mask = match outcome {
            WriteOutcome::Lost => return,
            WriteOutcome::Whole => return platter.write(unstable.at, &unstable.blocks),
            WriteOutcome::Torn(mask) => mask,
        };
        let survives = |i: u64| mask.get((i / 64) as usize).is_some_and(|w| w >> (i % 64) & 1 == 1);
        let (sectors, sector) = (self.sectors(unstable), u64::from(self.sector));
        let mut i = 0;
        while i < sectors {
            let end = (i..sectors).find(|&j| !survives(j)).unwrap_or(sectors);
            if end > i {
                let (off, len) = (i * sector, (end - i) * sector);
                platter.write_part(unstable.at + off, &unstable.blocks, off, len);
            }
            i = end + 1;
        }
    }

    /// The outcomes to examine, without the random ones: every subset of the latest writes, then
    /// torn writes. No two are the same.
    pub fn outcomes(&self, exploration: &Exploration) -> Vec<Vec<WriteOutcome>> {
        let count = self.unstable_writes.len();
        let depth = count.min(exploration.exhaustive.min(16) as usize);
        let early = vec![WriteOutcome::Whole; count - depth];
        let subset = |mask: u32| {
            let outcome =
                |i| if mask >> i & 1 == 1 { WriteOutcome::Whole } else { WriteOutcome::Lost };
            early.iter().cloned().chain((0..depth).map(outcome)).collect::<Vec<_>>()
        };
        let mut out: Vec<_> = (0..1u32 << depth).map(subset).collect();
        for i in (count - depth..count).filter(|_| exploration.torn) {
            let sectors = self.sectors(&self.unstable_writes[i]);
            let tears = match sectors {
                0 | 1 => Vec::new(),
                2 => vec![WriteOutcome::sectors(0, 1), WriteOutcome::sectors(1, 2)],
                _ => vec![
                    WriteOutcome::sectors(0, 1),
                    WriteOutcome::sectors(1, sectors),
                    WriteOutcome::sectors(0, sectors - 1),
                ],
            };
            for tear in tears {
                let mut outcomes = vec![WriteOutcome::Whole; i];
                outcomes.push(tear);
                out.push(outcomes);
            }
        }
        out
    }

    /// The platters of [`CrashState::outcomes`], then the random ones, drawn from `rng`.
    pub fn explore<'a>(
        &'a self,
        exploration: &Exploration,
        rng: &'a mut Rng,
    ) -> impl Iterator<Item = Platter> + 'a {
        let random = if self.unstable_writes.is_empty() { 0 } else { exploration.random };
        let outcomes = self.outcomes(exploration).into_iter().map(|outcomes| self.with(&outcomes));
        outcomes.chain((0..random).map(|_| self.random(rng)))
    }
}
