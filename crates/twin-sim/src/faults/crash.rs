//! What a power failure leaves: the certain content, and the writes in doubt.

use std::rc::Rc;

use twin_disk::Block;
use twin_rt::Rng;

use crate::Platter;

/// A write that was under way, or complete and not flushed, when the power failed.
#[derive(Clone, Debug)]
pub struct Doubt {
    /// First byte on the device.
    pub at: u64,
    /// Number of bytes.
    pub len: u64,
    /// The write had been reported complete.
    pub reported: bool,
    /// What it writes.
    pub blocks: Rc<[Block]>,
}

/// What became of a write in doubt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fate {
    /// Nothing of it is on the medium.
    Lost,
    /// All of it is.
    Whole,
    /// Only some sectors are: bit `i % 64` of word `i / 64` stands for sector `i` of the write.
    Torn(Vec<u64>),
}

impl Fate {
    /// Only the sectors `from..to` of a write reached the medium.
    pub fn sectors(from: u64, to: u64) -> Fate {
        let mut mask = vec![0; to.div_ceil(64) as usize];
        (from..to).for_each(|i| mask[(i / 64) as usize] |= 1 << (i % 64));
        Fate::Torn(mask)
    }

    /// A random fate of a write of so many sectors: lost, whole, or torn, with equal chances;
    /// torn between two sectors, or into any subset.
    pub fn random(rng: &mut Rng, sectors: u64) -> Fate {
        match rng.below(if sectors > 1 { 3 } else { 2 }) {
            0 => Fate::Lost,
            1 => Fate::Whole,
            _ if rng.chance(0.5) => {
                let cut = rng.range(1, sectors);
                if rng.chance(0.5) { Fate::sectors(0, cut) } else { Fate::sectors(cut, sectors) }
            }
            _ => Fate::Torn((0..sectors.div_ceil(64)).map(|_| rng.next_u64()).collect()),
        }
    }
}

/// How many of the possible outcomes of a crash to look at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exploration {
    /// Every subset of so many writes in doubt (the latest ones; with more in doubt, the earlier
    /// ones are whole). At most 16.
    pub exhaustive: u32,
    /// Each of these latest writes torn, in three ways, the earlier ones whole and the later ones
    /// lost.
    pub torn: bool,
    /// So many random outcomes on top, of all writes in doubt, in random order.
    pub random: u32,
}

impl Default for Exploration {
    fn default() -> Self {
        Exploration { exhaustive: 4, torn: true, random: 4 }
    }
}

/// What is certain and what is in doubt at a power failure. Makes the platters that a restart
/// may find; each costs a snapshot and the writes that survive.
#[derive(Clone, Debug)]
pub struct CrashState {
    pub(crate) base: Platter,
    pub(crate) sector: u32,
    /// In the order in which they completed, then those under way in the order of submission.
    pub(crate) doubts: Vec<Doubt>,
}

impl CrashState {
    /// The content if nothing in doubt survives.
    pub fn certain(&self) -> &Platter {
        &self.base
    }

    /// Bytes that are written whole or not at all.
    pub fn sector(&self) -> u32 {
        self.sector
    }

    /// The writes in doubt: completed ones in the order of completion, then those under way.
    pub fn doubts(&self) -> &[Doubt] {
        &self.doubts
    }

    /// Sectors of a write in doubt.
    fn sectors(&self, doubt: &Doubt) -> u64 {
        doubt.len / u64::from(self.sector)
    }

    /// The content if the writes in doubt have these fates (missing ones: lost), the later of two
    /// to one sector staying.
    pub fn with(&self, fates: &[Fate]) -> Platter {
        let mut platter = self.base.clone();
        for (doubt, fate) in self.doubts.iter().zip(fates) {
            self.apply(&mut platter, doubt, fate);
        }
        platter
    }

    /// The content after random fates, in random order, drawn from `rng`.
    pub fn random(&self, rng: &mut Rng) -> Platter {
        let mut platter = self.base.clone();
        let mut order: Vec<_> = self.doubts.iter().collect();
        rng.shuffle(&mut order);
        for doubt in order {
            let fate = Fate::random(rng, self.sectors(doubt));
            self.apply(&mut platter, doubt, &fate);
        }
        platter
    }

    fn apply(&self, platter: &mut Platter, doubt: &Doubt, fate: &Fate) {
        let mask = match fate {
            Fate::Lost => return,
            Fate::Whole => return platter.write(doubt.at, &doubt.blocks),
            Fate::Torn(mask) => mask,
        };
        let survives = |i: u64| mask.get((i / 64) as usize).is_some_and(|w| w >> (i % 64) & 1 == 1);
        let (sectors, sector) = (self.sectors(doubt), u64::from(self.sector));
        let mut i = 0;
        while i < sectors {
            let end = (i..sectors).find(|&j| !survives(j)).unwrap_or(sectors);
            if end > i {
                let (off, len) = (i * sector, (end - i) * sector);
                platter.write_part(doubt.at + off, &doubt.blocks, off, len);
            }
            i = end + 1;
        }
    }

    /// The fates to look at, without the random ones: every subset of the latest writes, then
    /// tears. No two are the same.
    pub fn fates(&self, exploration: &Exploration) -> Vec<Vec<Fate>> {
        let count = self.doubts.len();
        let depth = count.min(exploration.exhaustive.min(16) as usize);
        let early = vec![Fate::Whole; count - depth];
        let subset = |mask: u32| {
            let fate = |i| if mask >> i & 1 == 1 { Fate::Whole } else { Fate::Lost };
            early.iter().cloned().chain((0..depth).map(fate)).collect::<Vec<_>>()
        };
        let mut out: Vec<_> = (0..1u32 << depth).map(subset).collect();
        for i in (count - depth..count).filter(|_| exploration.torn) {
            let sectors = self.sectors(&self.doubts[i]);
            let tears = match sectors {
                0 | 1 => Vec::new(),
                2 => vec![Fate::sectors(0, 1), Fate::sectors(1, 2)],
                _ => vec![
                    Fate::sectors(0, 1),
                    Fate::sectors(1, sectors),
                    Fate::sectors(0, sectors - 1),
                ],
            };
            for tear in tears {
                let mut fates = vec![Fate::Whole; i];
                fates.push(tear);
                out.push(fates);
            }
        }
        out
    }

    /// The platters of [`CrashState::fates`], then the random ones, drawn from `rng`.
    pub fn explore<'a>(
        &'a self,
        exploration: &Exploration,
        rng: &'a mut Rng,
    ) -> impl Iterator<Item = Platter> + 'a {
        let random = if self.doubts.is_empty() { 0 } else { exploration.random };
        let fates = self.fates(exploration).into_iter().map(|fates| self.with(&fates));
        fates.chain((0..random).map(|_| self.random(rng)))
    }
}
