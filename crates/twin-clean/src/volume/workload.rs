//! Workloads of a bare volume: the order in which blocks are written.
//!
//! A workload is described as `name` or `name:key=value,...`; [`REGISTRY`] lists them. The same
//! description, size and seed give the same writes.

use twin_rt::Rng;
use twin_settings::{Named, Param, Registry, RegistryEntry, SettingsError, Unit, Values};

/// Produces the blocks to write, one after the other.
pub trait Writes {
    /// The number of the next block.
    fn next_block(&mut self) -> u32;

    /// Fills `blocks` with the next ones.
    fn fill(&mut self, blocks: &mut [u32]) {
        blocks.iter_mut().for_each(|block| *block = self.next_block());
    }
}

/// Starts a workload: its settings, the number of blocks, and the seed.
type Start = fn(&Values, u32, u64) -> Box<dyn Writes>;

/// What is known of a kind of workload.
pub struct WorkloadSpec {
    /// What can be set.
    pub params: &'static [Param],
    start: Start,
}

const SHARE: Unit = Unit::Decimal(0.0, 1.0);
const EXPONENT: Param = Param::new(
    "exponent",
    "1",
    Unit::Decimal(0.0, 10.0),
    "probability of rank k is proportional to k^-exponent",
);
const PERMUTE: Param = Param::new(
    "permute",
    "0.01",
    Unit::Decimal(0.0, 1e6),
    "the hottest fifth changes ranks after this many volumes of writes; 0: never",
);
const HOT_WRITES: Param =
    Param::new("hot-writes", "0.9", SHARE, "the share of writes that goes to the hot blocks");
const HOT_BLOCKS: Param = Param::new("hot-blocks", "0.1", SHARE, "the share of blocks that is hot");
const SEQUENTIAL: Param =
    Param::new("sequential", "0.5", SHARE, "the share of writes that is sequential");

/// All workloads; the first is the default.
pub static REGISTRY: Registry<WorkloadSpec> = Registry::new(
    "workload",
    &[
        RegistryEntry::new(
            "zipf",
            "Zipf over ranks, the hottest 20% permuted anew every 1% of the volume (SepBIT)",
            WorkloadSpec {
                params: &[EXPONENT, PERMUTE],
                start: |values, blocks, seed| Box::new(Zipf::new(values, blocks, seed)),
            },
        ),
        RegistryEntry::new(
            "uniform",
            "all blocks equally likely",
            WorkloadSpec {
                params: &[],
                start: |_, blocks, seed| Box::new(Uniform { rng: rng(seed), blocks }),
            },
        ),
        RegistryEntry::new(
            "hot-cold",
            "two temperatures: 90% of the writes to 10% of the blocks",
            WorkloadSpec {
                params: &[HOT_WRITES, HOT_BLOCKS],
                start: |values, blocks, seed| Box::new(HotCold::new(values, blocks, seed)),
            },
        ),
        RegistryEntry::new(
            "mixed",
            "sequential and random writes over one space, which is the whole volume",
            WorkloadSpec {
                params: &[SEQUENTIAL],
                start: |values, blocks, seed| Box::new(Mixed::new(values, blocks, seed, false)),
            },
        ),
        RegistryEntry::new(
            "halves",
            "sequential writes over one half of the volume, random over the other",
            WorkloadSpec {
                params: &[SEQUENTIAL],
                start: |values, blocks, seed| Box::new(Mixed::new(values, blocks, seed, true)),
            },
        ),
    ],
);

fn rng(seed: u64) -> Rng {
    Rng::stream(seed, "volume writes")
}

/// A workload with its settings.
#[derive(Clone, Debug)]
pub struct Workload {
    entry: &'static RegistryEntry<WorkloadSpec>,
    values: Values,
}

impl PartialEq for Workload {
    fn eq(&self, other: &Workload) -> bool {
        (self.entry.name, &self.values) == (other.entry.name, &other.values)
    }
}

/// Parses a description: a name, and settings behind it.
///
/// # Errors
/// If there is no such workload or setting, or a value is out of its range.
pub fn parse(text: &str) -> Result<Workload, SettingsError> {
    let named = Named::parse(text)?;
    let entry = REGISTRY.get(named.name)?;
    let mut values = Values::of(&[entry.params]);
    values.apply(named.settings).map_err(|error| error.within(entry.name))?;
    Ok(Workload { entry, values })
}

impl Workload {
    /// The settings of the workload.
    pub fn values(&self) -> &Values {
        &self.values
    }

    /// Sets one of its settings.
    ///
    /// # Errors
    /// If it has none of this name, or the value is out of range.
    pub fn set(&mut self, key: &str, value: &str) -> Result<(), SettingsError> {
        self.values.set(key, value)
    }

    /// Starts it on a volume of `blocks` blocks.
    pub fn start(&self, blocks: u32, seed: u64) -> Box<dyn Writes> {
        (self.entry.start)(&self.values, blocks.max(1), seed)
    }
}

impl std::fmt::Display for Workload {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.entry.name)?;
        match self.values.text_of_changed() {
            changed if changed.is_empty() => Ok(()),
            changed => write!(f, ":{changed}"),
        }
    }
}

struct Uniform {
    rng: Rng,
    blocks: u32,
}

impl Writes for Uniform {
    fn next_block(&mut self) -> u32 {
        self.rng.below(u64::from(self.blocks)) as u32
    }
}

/// Two temperatures. The hot blocks have the lowest numbers, which no policy here uses.
struct HotCold {
    rng: Rng,
    hot_writes: f64,
    hot: u64,
    cold: u64,
}

impl HotCold {
    fn new(values: &Values, blocks: u32, seed: u64) -> HotCold {
        let hot = (f64::from(blocks) * values.decimal(HOT_BLOCKS.name)).round() as u64;
        let (hot, cold) = (hot, u64::from(blocks) - hot);
        HotCold { rng: rng(seed), hot_writes: values.decimal(HOT_WRITES.name), hot, cold }
    }
}

impl Writes for HotCold {
    fn next_block(&mut self) -> u32 {
        let is_hot = self.cold == 0 || (self.hot > 0 && self.rng.chance(self.hot_writes));
        if is_hot {
            self.rng.below(self.hot) as u32
        } else {
            (self.hot + self.rng.below(self.cold)) as u32
        }
    }
}

/// Sequential and random writes, over one range or a half each.
struct Mixed {
    rng: Rng,
    sequential: f64,
    next: u32,
    /// The block at which sequential writes start again from zero.
    end: u32,
    /// The range of random writes.
    random: (u32, u32),
}

impl Mixed {
    fn new(values: &Values, blocks: u32, seed: u64, halves: bool) -> Mixed {
        let middle = (blocks / 2).max(1);
        let (end, random) = match halves && blocks > 1 {
            true => (middle, (middle, blocks)),
            false => (blocks, (0, blocks)),
        };
        Mixed { rng: rng(seed), sequential: values.decimal(SEQUENTIAL.name), next: 0, end, random }
    }
}

impl Writes for Mixed {
    fn next_block(&mut self) -> u32 {
        if self.rng.chance(self.sequential) {
            let block = self.next;
            self.next = if block + 1 == self.end { 0 } else { block + 1 };
            block
        } else {
            self.rng.range(u64::from(self.random.0), u64::from(self.random.1)) as u32
        }
    }
}

/// Number of draws that are made at a time.
const PIECE: usize = 256;

/// Zipf over ranks by the alias method (Walker 1977, Vose 1991): two table look-ups a draw.
struct Zipf {
    rng: Rng,
    /// For each rank: the limit, of 2^32, below which a draw gives the rank itself, and the rank
    /// that a draw above it gives.
    table: Vec<(u32, u32)>,
    hottest: Shuffle,
    permute_every: u64,
    until_permuted: u64,
}

impl Zipf {
    fn new(values: &Values, blocks: u32, seed: u64) -> Zipf {
        let exponent = values.decimal(EXPONENT.name);
        let permute_every = (values.decimal(PERMUTE.name) * f64::from(blocks)).round() as u64;
        // At exponent 0 no rank is hotter than another.
        let permute_every = if exponent == 0.0 { 0 } else { permute_every };
        let mut rng = rng(seed);
        let hottest = Shuffle::new(blocks / 5, &mut rng);
        let table = alias_table(blocks, exponent);
        Zipf { rng, table, hottest, permute_every, until_permuted: permute_every }
    }

    /// Draws `ranks.len()` ranks, none of them beyond the next renewal of the permutation.
    fn ranks(&mut self, ranks: &mut [u32]) {
        for place in ranks {
            let draw = self.rng.next_u64();
            let rank = ((draw >> 32) * self.table.len() as u64) >> 32;
            let (threshold, other) = self.table[rank as usize];
            *place = if draw as u32 <= threshold { rank as u32 } else { other };
        }
    }
}

impl Writes for Zipf {
    fn next_block(&mut self) -> u32 {
        let mut block = [0];
        self.fill(&mut block);
        block[0]
    }

    fn fill(&mut self, mut blocks: &mut [u32]) {
        // Draws a piece, then permutes it: each loop is faster by itself.
        while !blocks.is_empty() {
            let mut count = blocks.len().min(PIECE);
            if self.permute_every > 0 {
                if self.until_permuted == 0 {
                    self.until_permuted = self.permute_every;
                    self.hottest.renew(&mut self.rng);
                }
                count = count.min(self.until_permuted as usize);
                self.until_permuted -= count as u64;
            }
            let (piece, rest) = blocks.split_at_mut(count);
            self.ranks(piece);
            self.hottest.permute(piece);
            blocks = rest;
        }
    }
}

fn alias_table(count: u32, exponent: f64) -> Vec<(u32, u32)> {
    let weights: Vec<f64> = (1..=count).map(|rank| f64::from(rank).powf(-exponent)).collect();
    let mean = weights.iter().sum::<f64>() / f64::from(count);
    let mut shares: Vec<f64> = weights.iter().map(|weight| weight / mean).collect();
    let (mut small, mut large): (Vec<u32>, Vec<u32>) =
        (0..count).partition(|&rank| shares[rank as usize] < 1.0);
    let mut table: Vec<(u32, u32)> = (0..count).map(|rank| (u32::MAX, rank)).collect();
    while let (Some(&rich), Some(poor)) = (large.last(), small.pop()) {
        let share = shares[poor as usize];
        table[poor as usize] = ((share * 4_294_967_296.0) as u32, rich);
        shares[rich as usize] -= 1.0 - share;
        if shares[rich as usize] < 1.0 {
            large.pop();
            small.push(rich);
        }
    }
    table
}

/// A permutation of `0..count` that costs nothing to renew: rounds of multiplying and shifting in
/// the next power of two, repeated until the result is in range (as in Black and Rogaway, 2002).
struct Shuffle {
    count: u32,
    mask: u32,
    shift: u32,
    keys: [u32; 4],
}

impl Shuffle {
    fn new(count: u32, rng: &mut Rng) -> Shuffle {
        let bits = count.max(2).next_power_of_two().trailing_zeros();
        let mask = ((1u64 << bits) - 1) as u32;
        let mut shuffle = Shuffle { count, mask, shift: (bits / 2).max(1), keys: [0; 4] };
        shuffle.renew(rng);
        shuffle
    }

    fn renew(&mut self, rng: &mut Rng) {
        self.keys = std::array::from_fn(|_| rng.next_u64() as u32);
    }

    /// One round of the permutation.
    fn step(&self, rank: u32) -> u32 {
        self.keys.iter().fold(rank, |x, key| {
            let x = x.wrapping_mul(key | 1).wrapping_add(key >> 1) & self.mask;
            x ^ (x >> self.shift)
        })
    }

    /// Replaces each rank by its image. Ranks from `count` on stay.
    fn permute(&self, ranks: &mut [u32]) {
        for rank in ranks {
            if *rank >= self.count {
                continue;
            }
            *rank = self.step(*rank);
            while *rank >= self.count {
                *rank = self.step(*rank);
            }
        }
    }
}
