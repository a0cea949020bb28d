//! Distributions of measured times, and the stalls beside them.
//!
//! Contract: the sorted times of a kind and size of request are kept in equally large parts, the mean of each, so
//! that drawing one at random keeps the mean. Requests that took many times as long as is usual for their size are
//! no part of that: they are the stalls of their kind, with the share that they have of all its requests, because
//! one that happened to meet the few requests of a size says nothing of that size.

use serde::{Deserialize, Serialize};
use twin_rt::Nanos;
use twin_sim::model::{Sample, Stalls as Simulated};

/// A request that takes longer than this many times the median of its size has stalled.
const STALL: f64 = 10.0;
/// The number of parts into which stalls are divided.
const STALL_PARTS: usize = 40;

/// A distribution of times.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Distribution {
    /// Bytes of the request.
    pub bytes: u64,
    /// Means of equally large parts of the sorted times, ascending.
    pub us: Vec<f64>,
}

impl Distribution {
    /// Of these times in microseconds, in `parts` parts.
    pub fn of(bytes: u64, mut times_us: Vec<f64>, parts: usize) -> Distribution {
        times_us.sort_by(f64::total_cmp);
        let n = times_us.len();
        let parts = parts.clamp(1, n.max(1));
        let part = |i: usize| {
            let part = &times_us[n * i / parts..n * (i + 1) / parts];
            let mean = part.iter().sum::<f64>() / part.len().max(1) as f64;
            (mean * 10.0).round() / 10.0
        };
        Distribution { bytes, us: (0..parts).map(part).collect() }
    }

    /// The mean.
    pub fn mean(&self) -> f64 {
        self.us.iter().sum::<f64>() / self.us.len().max(1) as f64
    }

    /// The median.
    pub fn median(&self) -> f64 {
        self.us.get(self.us.len() / 2).copied().unwrap_or(0.0)
    }
}

/// Requests of one kind that took far longer than is usual for their size.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Stalls {
    /// How many requests of the kind were measured.
    pub of: u64,
    /// How many of these stalled.
    pub count: u64,
    /// By how much longer they took than the mean of the others of their size: means of equally large parts,
    /// ascending.
    pub longer_us: Vec<f64>,
}

impl Stalls {
    /// True if nothing is known of stalls.
    pub(crate) fn is_none(&self) -> bool {
        self.of == 0
    }

    /// Of all time that requests of the kind took, the share by which stalls made it longer.
    pub fn mean_us(&self) -> f64 {
        let sum: f64 = self.longer_us.iter().sum();
        let mean = sum / self.longer_us.len().max(1) as f64;
        mean * self.count as f64 / self.of.max(1) as f64
    }

    pub(crate) fn check(&self, most_us: f64) -> Result<(), String> {
        if self.count > self.of || (self.count > 0) == self.longer_us.is_empty() {
            return Err("as many stalls as requests at most, with their times".into());
        }
        match self.longer_us.iter().all(|us| (0.0..=most_us).contains(us)) {
            true => Ok(()),
            false => Err(format!("times are from 0 to {most_us} microseconds")),
        }
    }

    pub(crate) fn simulated(&self) -> Simulated {
        let longer_ns = self.longer_us.iter().copied().map(ns).collect();
        Simulated { of: self.of, count: self.count, longer_ns }
    }
}

/// The distributions of one kind of request in `parts` parts, from the times of each size in microseconds; and
/// its stalls.
pub fn distributions(
    sizes: impl IntoIterator<Item = (u64, Vec<f64>)>,
    parts: usize,
) -> (Vec<Distribution>, Stalls) {
    let (mut all, mut of, mut longer) = (Vec::new(), 0, Vec::new());
    for (bytes, mut times) in sizes {
        times.sort_by(f64::total_cmp);
        of += times.len() as u64;
        let usual = times.get(times.len() / 2).copied().unwrap_or(0.0);
        let stalled = times.split_off(times.partition_point(|&us| us <= STALL * usual));
        let mean = times.iter().sum::<f64>() / times.len().max(1) as f64;
        longer.extend(stalled.into_iter().map(|us| us - mean));
        all.push(Distribution::of(bytes, times, parts));
    }
    let count = longer.len() as u64;
    let longer_us = match longer.is_empty() {
        true => Vec::new(),
        false => Distribution::of(0, longer, STALL_PARTS).us,
    };
    (all, Stalls { of, count, longer_us })
}

pub(crate) fn ns(us: f64) -> Nanos {
    (us * 1e3).round() as Nanos
}

pub(crate) fn samples(list: &[Distribution]) -> Vec<Sample> {
    let sample = |each: &Distribution| Sample {
        bytes: each.bytes,
        times_ns: each.us.iter().copied().map(ns).collect(),
    };
    list.iter().map(sample).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_a_distribution_keep_its_mean() {
        let all = Distribution::of(4096, (0..100).map(f64::from).collect(), 20);
        assert_eq!((all.us.len(), all.us[0], all.us[19]), (20, 2.0, 97.0));
        assert!((all.mean() - 49.5).abs() < 1e-9);
        assert_eq!(Distribution::of(0, vec![3.0], 20).us, [3.0]);
    }

    /// 2,000 flushes of some 100 us.
    fn flushes() -> Vec<f64> {
        (0..2000).map(|n| 80.0 + f64::from(n % 41)).collect()
    }

    fn mean(all: &[f64]) -> f64 {
        all.iter().sum::<f64>() / all.len() as f64
    }

    #[test]
    fn one_stall_in_two_thousand_moves_the_mean_by_its_share_and_the_median_not_at_all() {
        let (quiet, _) = distributions([(4096, flushes())], 20);
        let mut times = flushes();
        times[700] = 100_000.0;
        let (disturbed, stalls) = distributions([(4096, times.clone())], 20);
        assert_eq!((stalls.count, stalls.of), (1, 2000));
        assert!((stalls.mean_us() - 50.0).abs() < 0.1, "{}", stalls.mean_us());
        assert!((disturbed[0].median() - quiet[0].median()).abs() < 0.2);
        let worst = |d: &[Distribution]| d[0].us.last().copied().unwrap();
        assert!(
            (worst(&disturbed) - worst(&quiet)).abs() < 0.2,
            "no part of the distribution has it"
        );
        // Draws follow the samples' mean.
        assert!((disturbed[0].mean() + stalls.mean_us() - mean(&times)).abs() < 0.2);
    }

    #[test]
    fn a_stall_among_few_requests_of_a_size_has_its_share_of_all() {
        let few = vec![200.0, 210.0, 90_000.0, 220.0];
        let (all, stalls) = distributions([(4096, flushes()), (16 << 20, few)], 20);
        assert_eq!((stalls.count, stalls.of), (1, 2004));
        assert_eq!(all[1].us, [200.0, 210.0, 220.0]);
        assert_eq!(stalls.longer_us, [90_000.0 - 210.0]);
        let (_, none) = distributions([(4096, flushes())], 20);
        assert_eq!((none.count, none.longer_us.len()), (0, 0));
        assert!(none.check(1e9).is_ok());
    }

    #[test]
    fn many_stalls_keep_their_mean_in_few_parts() {
        let mut times = flushes();
        for (nth, time) in times.iter_mut().step_by(20).enumerate() {
            *time = 2000.0 + 100.0 * nth as f64;
        }
        let (all, stalls) = distributions([(4096, times.clone())], 20);
        assert_eq!((stalls.count, stalls.longer_us.len()), (100, STALL_PARTS));
        let drawn = all[0].mean() + stalls.mean_us();
        assert!((drawn / mean(&times) - 1.0).abs() < 0.005, "{drawn}");
    }
}
