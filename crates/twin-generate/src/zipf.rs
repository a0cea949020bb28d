//! `zipf`: blocks of one file per client are overwritten, a few of them most of the time.
//!
//! The skew gives the hot-and-cold pattern with which cleaners are usually compared.

use twin_fs::ROOT_INO;
use twin_rt::Rng;
use twin_settings::{Param, RegistryEntry, Unit, Values};
use twin_trace::{Node, Source};

use crate::Kind;
use crate::script::{Burst, FIRST_INO, Script, Scripted, mix, node};

pub(crate) const ENTRY: RegistryEntry<Kind> = RegistryEntry::new(
    "zipf",
    "overwriting blocks of a file, few of them often (Zipf)",
    Kind {
        params: &[
            Param::new(
                "file-bytes",
                "64M",
                Unit::bytes(4096, 1 << 44),
                "size of each client's file",
            ),
            Param::new("block-bytes", "4K", Unit::bytes(512, 1 << 20), "bytes of a write"),
            Param::new("writes", "100000", Unit::number(1, u64::MAX), "writes of each client"),
            Param::new("skew", "0.99", Unit::Decimal(0.0, 5.0), "exponent of the distribution"),
            Param::new(
                "fsync-every",
                "0",
                Unit::number(0, u64::MAX),
                "writes between two fsyncs; 0: none",
            ),
            Param::new("reads", "0%", Unit::Percent(100), "how many of the accesses are reads"),
        ],
        stands_for: None,
        start,
    },
);

/// Random numbers from 0 up to a limit, where number `k` has probability proportional to `1 /
/// (k+1)^s`.
///
/// By rejection-inversion (Hoermann and Derflinger, "Rejection-inversion to generate variates
/// from monotone discrete distributions", 1996): no table, a constant number of draws on average.
#[derive(Clone, Debug)]
pub struct Zipf {
    count: u64,
    skew: f64,
    /// Integral of the hat function at 1.5 (less one) and at `count` + 0.5.
    low: f64,
    high: f64,
    /// For a candidate closer than this no second check is needed.
    sure: f64,
}

impl Zipf {
    /// Numbers in `0..count` with exponent `skew` (0 makes all equally likely).
    ///
    /// # Panics
    /// If `count` is zero.
    pub fn new(count: u64, skew: f64) -> Zipf {
        assert!(count > 0, "a range to draw from must not be empty");
        let mut zipf = Zipf { count, skew, low: 0.0, high: 0.0, sure: 0.0 };
        zipf.low = zipf.integral(1.5) - 1.0;
        zipf.high = zipf.integral(count as f64 + 0.5);
        zipf.sure = 2.0 - zipf.inverse(zipf.integral(2.5) - zipf.density(2.0));
        zipf
    }

    /// The density at `x`, which is `x^-s`.
    fn density(&self, x: f64) -> f64 {
        (-self.skew * x.ln()).exp()
    }

    /// An integral of the density; near `s` = 1 by series, where the closed form divides by zero.
    fn integral(&self, x: f64) -> f64 {
        let log = x.ln();
        expm1_over((1.0 - self.skew) * log) * log
    }

    fn inverse(&self, y: f64) -> f64 {
        let t = (y * (1.0 - self.skew)).max(-1.0);
        (ln1p_over(t) * y).exp()
    }

    /// Draws a number by its weight.
    pub fn draw(&self, rng: &mut Rng) -> u64 {
        loop {
            let u = self.high + rng.unit() * (self.low - self.high);
            let x = self.inverse(u);
            let k = (x + 0.5).floor().clamp(1.0, self.count as f64);
            if k - x <= self.sure || u >= self.integral(k + 0.5) - self.density(k) {
                return k as u64 - 1;
            }
        }
    }
}

/// `(e^x - 1) / x`, also near zero.
fn expm1_over(x: f64) -> f64 {
    if x.abs() > 1e-8 { x.exp_m1() / x } else { 1.0 + x / 2.0 }
}

/// `ln(1 + x) / x`, also near zero.
fn ln1p_over(x: f64) -> f64 {
    if x.abs() > 1e-8 { x.ln_1p() / x } else { 1.0 - x / 2.0 }
}

struct Overwrite {
    seed: u64,
    block_bytes: u64,
    blocks: u64,
    popularity: Zipf,
    fsync_every: u64,
    reads: f64,
    /// For each client: the remaining number of accesses.
    left: Vec<u64>,
    writes: u64,
}

fn start(values: Values, seed: u64) -> Box<dyn Source> {
    let block_bytes = values.number("block-bytes");
    let blocks = (values.number("file-bytes") / block_bytes).max(1);
    let writes = values.number("writes");
    let script = Overwrite {
        seed,
        block_bytes,
        blocks,
        popularity: Zipf::new(blocks, values.decimal("skew")),
        fsync_every: values.number("fsync-every"),
        reads: values.number("reads") as f64 / 100.0,
        left: vec![writes; values.number("clients") as usize],
        writes,
    };
    Scripted::start(ENTRY.name, script, &values, seed)
}

impl Overwrite {
    /// The block with this rank. A permutation spreads the hot blocks over the file: a permutation
    /// of a power of two, repeated until the result is a block number.
    fn place(&self, rank: u64) -> u64 {
        let bits = self.blocks.next_power_of_two().trailing_zeros();
        let mask = (1u64 << bits) - 1;
        let (multiplier, offset) = (mix(self.seed, 7) | 1, mix(self.seed, 8));
        let mut place = rank;
        loop {
            place = place.wrapping_mul(multiplier).wrapping_add(offset) & mask;
            place ^= place >> (bits / 2).max(1);
            if place < self.blocks {
                return place;
            }
        }
    }
}

impl Script for Overwrite {
    fn nodes(&self) -> u64 {
        self.left.len() as u64
    }

    fn node(&mut self, index: u64) -> Node {
        let size = self.blocks * self.block_bytes;
        node(index, ROOT_INO, format!("table{index}").into_bytes(), Some(size))
    }

    fn burst(&mut self, client: usize, out: &mut Burst) -> bool {
        let file = FIRST_INO + client as u64;
        let left = &mut self.left[client];
        if *left == 0 {
            return false;
        }
        let first = *left == self.writes;
        *left -= 1;
        let (last, done) = (*left == 0, self.writes - *left);
        if first {
            out.lookup(ROOT_INO, format!("table{client}").as_bytes(), file);
            out.open(file, true);
        }
        let off = self.place(self.popularity.draw(&mut out.rng)) * self.block_bytes;
        if out.rng.chance(self.reads) {
            out.read(file, off, self.block_bytes);
        } else {
            out.write(file, off, self.block_bytes);
        }
        if self.fsync_every > 0 && done.is_multiple_of(self.fsync_every) {
            out.fsync(file, true);
        }
        if last {
            out.release(file);
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shares(count: u64, skew: f64) -> Vec<f64> {
        let zipf = Zipf::new(count, skew);
        let (mut rng, draws) = (Rng::new(5), 200_000);
        let mut seen = vec![0u64; count as usize];
        (0..draws).for_each(|_| seen[zipf.draw(&mut rng) as usize] += 1);
        seen.into_iter().map(|n| n as f64 / draws as f64).collect()
    }

    #[test]
    fn numbers_come_as_often_as_the_law_says() {
        for skew in [0.0, 0.5, 0.99, 1.0, 1.5, 3.0] {
            let total: f64 = (1..=20).map(|k| f64::from(k).powf(-skew)).sum();
            for (k, share) in shares(20, skew).into_iter().enumerate() {
                let expected = (k as f64 + 1.0).powf(-skew) / total;
                let tolerance = 0.004 + expected * 0.03;
                assert!((share - expected).abs() < tolerance, "skew {skew}, {k}: {share}");
            }
        }
    }

    #[test]
    fn every_block_has_one_rank() {
        for blocks in [1, 2, 3, 100, 1000, 1024] {
            let values = Values::of(&[ENTRY.maker.params, crate::COMMON]);
            let (block_bytes, fsync_every) = (values.number("block-bytes"), 0);
            let popularity = Zipf::new(blocks, 1.0);
            let (left, writes, reads) = (vec![1], 1, 0.0);
            let script = Overwrite {
                seed: 3,
                block_bytes,
                blocks,
                popularity,
                fsync_every,
                reads,
                left,
                writes,
            };
            let mut places: Vec<_> = (0..blocks).map(|rank| script.place(rank)).collect();
            places.sort_unstable();
            assert!(places.into_iter().eq(0..blocks));
        }
    }

    #[test]
    fn one_number_is_always_the_same() {
        assert_eq!(shares(1, 1.0), [1.0]);
    }
}
