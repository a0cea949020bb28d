//! Workloads of a bare volume: which block is written next.
//!
//! A workload is described as `name` or `name:key=value,...`; [`registry`] lists them. The same
//! description, size and seed give the same writes.

use twin_rt::Rng;

/// Gives the blocks that are written, one after the other.
pub trait Writes {
    /// The next block.
    fn next_block(&mut self) -> u32;

    /// The next blocks, as many as fit.
    fn fill(&mut self, blocks: &mut [u32]) {
        blocks.iter_mut().for_each(|block| *block = self.next_block());
    }
}

/// A parameter of a workload.
#[derive(Clone, Copy, Debug)]
pub struct Param {
    /// Its key.
    pub name: &'static str,
    /// What it is if it is not given.
    pub default: f64,
    /// Least and most.
    pub range: (f64, f64),
    /// What it is.
    pub about: &'static str,
}

/// A kind of workload.
pub struct Entry {
    /// What descriptions call it.
    pub name: &'static str,
    /// What it is, in a line.
    pub about: &'static str,
    /// Its parameters.
    pub params: &'static [Param],
    start: fn(&[f64], u32, u64) -> Box<dyn Writes>,
}

const EXPONENT: Param = Param {
    name: "exponent",
    default: 1.0,
    range: (0.0, 10.0),
    about: "probability of rank k is proportional to k^-exponent",
};
const PERMUTE: Param = Param {
    name: "permute",
    default: 0.01,
    range: (0.0, 1e6),
    about: "the hottest fifth changes ranks after this many volumes of writes; 0: never",
};
const HOT_WRITES: Param = Param {
    name: "hot_writes",
    default: 0.9,
    range: (0.0, 1.0),
    about: "the share of writes that goes to the hot blocks",
};
const HOT_BLOCKS: Param = Param {
    name: "hot_blocks",
    default: 0.1,
    range: (0.0, 1.0),
    about: "the share of blocks that is hot",
};
const SEQUENTIAL: Param = Param {
    name: "sequential",
    default: 0.5,
    range: (0.0, 1.0),
    about: "the share of writes that is sequential",
};

/// All workloads; the first is the default.
pub fn registry() -> &'static [Entry] {
    &[
        Entry {
            name: "zipf",
            about: "Zipf over ranks, the hottest 20% permuted anew every 1% of the volume (SepBIT)",
            params: &[EXPONENT, PERMUTE],
            start: |params, blocks, seed| Box::new(Zipf::new(params, blocks, seed)),
        },
        Entry {
            name: "uniform",
            about: "all blocks alike",
            params: &[],
            start: |_, blocks, seed| Box::new(Uniform { rng: rng(seed), blocks }),
        },
        Entry {
            name: "hot-cold",
            about: "two temperatures: 90% of the writes to 10% of the blocks",
            params: &[HOT_WRITES, HOT_BLOCKS],
            start: |params, blocks, seed| Box::new(HotCold::new(params, blocks, seed)),
        },
        Entry {
            name: "mixed",
            about: "sequential and random writes over one space: the whole volume round and round",
            params: &[SEQUENTIAL],
            start: |params, blocks, seed| Box::new(Mixed::new(params, blocks, seed, false)),
        },
        Entry {
            name: "halves",
            about: "sequential writes over one half of the volume, random over the other",
            params: &[SEQUENTIAL],
            start: |params, blocks, seed| Box::new(Mixed::new(params, blocks, seed, true)),
        },
    ]
}

fn rng(seed: u64) -> Rng {
    Rng::stream(seed, "volume writes")
}

/// A workload, described.
#[derive(Clone, Debug, PartialEq)]
pub struct Workload {
    kind: usize,
    params: Vec<f64>,
}

/// Why a description means nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkloadError(String);

impl std::fmt::Display for WorkloadError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for WorkloadError {}

/// Understands a description.
///
/// # Errors
/// Names what is not known, and what there is.
pub fn parse(text: &str) -> Result<Workload, WorkloadError> {
    let (name, rest) = text.split_once(':').unwrap_or((text, ""));
    let Some(kind) = registry().iter().position(|entry| entry.name == name) else {
        let known: Vec<_> = registry().iter().map(|entry| entry.name).collect();
        let known = known.join(", ");
        return Err(WorkloadError(format!("no workload is called {name:?}; there are {known}")));
    };
    let params = registry()[kind].params.iter().map(|param| param.default).collect();
    let mut workload = Workload { kind, params };
    for pair in rest.split(',').filter(|pair| !pair.is_empty()) {
        let Some((key, value)) = pair.split_once('=') else {
            return Err(WorkloadError(format!("{pair:?} should be key=value")));
        };
        let Ok(number) = value.parse() else {
            return Err(WorkloadError(format!("{key} should be a number, not {value:?}")));
        };
        if !workload.set(key, number)? {
            let keys: Vec<_> = registry()[kind].params.iter().map(|param| param.name).collect();
            let keys = keys.join(", ");
            return Err(WorkloadError(format!("{name} has no {key:?}; its parameters: [{keys}]")));
        }
    }
    Ok(workload)
}

impl Workload {
    /// What kind it is.
    pub fn entry(&self) -> &'static Entry {
        &registry()[self.kind]
    }

    /// Sets a parameter. False if it has none of this name.
    ///
    /// # Errors
    /// If the value is out of range.
    pub fn set(&mut self, key: &str, value: f64) -> Result<bool, WorkloadError> {
        let params = self.entry().params;
        let Some(at) = params.iter().position(|param| param.name == key) else {
            return Ok(false);
        };
        let (least, most) = params[at].range;
        if !(least..=most).contains(&value) {
            return Err(WorkloadError(format!("{key} is between {least} and {most}, not {value}")));
        }
        self.params[at] = value;
        Ok(true)
    }

    /// The value of a parameter.
    pub fn get(&self, key: &str) -> Option<f64> {
        let at = self.entry().params.iter().position(|param| param.name == key)?;
        Some(self.params[at])
    }

    /// Starts it on a volume.
    pub fn start(&self, blocks: u32, seed: u64) -> Box<dyn Writes> {
        (self.entry().start)(&self.params, blocks.max(1), seed)
    }
}

impl std::fmt::Display for Workload {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.entry().name)?;
        for (at, (param, value)) in self.entry().params.iter().zip(&self.params).enumerate() {
            if *value != param.default {
                write!(f, "{}{}={value}", if at == 0 { ':' } else { ',' }, param.name)?;
            }
        }
        Ok(())
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

/// Two temperatures. The hot blocks are the first ones: no policy here goes by numbers alone.
struct HotCold {
    rng: Rng,
    hot_writes: f64,
    hot: u64,
    cold: u64,
}

impl HotCold {
    fn new(params: &[f64], blocks: u32, seed: u64) -> HotCold {
        let hot = (f64::from(blocks) * params[1]).round() as u64;
        let (hot, cold) = (hot, u64::from(blocks) - hot);
        HotCold { rng: rng(seed), hot_writes: params[0], hot, cold }
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

/// Sequential and random writes, over one space or a half each.
struct Mixed {
    rng: Rng,
    sequential: f64,
    next: u32,
    /// Sequential writes go round below this.
    end: u32,
    /// Random writes are here.
    random: (u32, u32),
}

impl Mixed {
    fn new(params: &[f64], blocks: u32, seed: u64, halves: bool) -> Mixed {
        let middle = (blocks / 2).max(1);
        let (end, random) = match halves && blocks > 1 {
            true => (middle, (middle, blocks)),
            false => (blocks, (0, blocks)),
        };
        Mixed { rng: rng(seed), sequential: params[0], next: 0, end, random }
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

/// Draws that are made at a time.
const PIECE: usize = 256;

/// Zipf over ranks by the alias method (Walker 1977, Vose 1991): two table look-ups a draw.
struct Zipf {
    rng: Rng,
    /// By rank: below which of 2^32 the rank stands for itself, and for whom otherwise.
    table: Vec<(u32, u32)>,
    hottest: Shuffle,
    permute_every: u64,
    until_permuted: u64,
}

impl Zipf {
    fn new(params: &[f64], blocks: u32, seed: u64) -> Zipf {
        let permute_every = (params[1] * f64::from(blocks)).round() as u64;
        // At exponent 0 no rank is hotter than another.
        let permute_every = if params[0] == 0.0 { 0 } else { permute_every };
        let mut rng = rng(seed);
        let hottest = Shuffle::new(blocks / 5, &mut rng);
        let table = alias_table(blocks, params[0]);
        Zipf { rng, table, hottest, permute_every, until_permuted: permute_every }
    }

    /// Draws `ranks.len()` ranks, all before the next renewal of the permutation.
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
        // Draws first, then permuting, a piece at a time: each goes faster by itself.
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

/// A permutation of `0..count` that is renewed at no cost: rounds of multiplying and shifting in
/// the next power of two, walked until inside (as in Black and Rogaway, 2002).
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

    /// A step of the walk.
    fn step(&self, rank: u32) -> u32 {
        self.keys.iter().fold(rank, |x, key| {
            let x = x.wrapping_mul(key | 1).wrapping_add(key >> 1) & self.mask;
            x ^ (x >> self.shift)
        })
    }

    /// Puts in place of each rank the one that it stands for. Those from `count` on stay.
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
