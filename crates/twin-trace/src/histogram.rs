//! Histograms of times and sizes: log-linear, in the manner of HdrHistogram (G. Tene).
//!
//! Values below 256 are counted exactly. Above, each power of two is divided into 128 buckets of
//! equal width, so a bucket is at most 1/128 (0.8%) of its values wide. Counts, sum, minimum and
//! maximum are exact. Two histograms can be merged without loss.

/// The binary logarithm of the number of buckets for each power of two.
const SUB_BITS: u32 = 7;
const SUB: u64 = 1 << SUB_BITS;

/// A histogram of whole numbers, usually of nanoseconds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Histogram {
    /// Counts by bucket, up to the largest bucket that is not empty.
    counts: Vec<u64>,
    count: u64,
    sum: u128,
    min: u64,
    max: u64,
}

fn bucket(value: u64) -> usize {
    if value < 2 * SUB {
        return value as usize;
    }
    let shift = value.ilog2() - SUB_BITS;
    // `value >> shift` lies in SUB..2 * SUB.
    (u64::from(shift) * SUB + (value >> shift)) as usize
}

/// The largest value of a bucket.
fn highest(bucket: usize) -> u64 {
    let bucket = bucket as u64;
    if bucket < 2 * SUB {
        return bucket;
    }
    let shift = bucket / SUB - 1;
    let next = u128::from(bucket - shift * SUB + 1) << shift;
    (next - 1) as u64
}

/// The largest value of the coarse bucket that a value lies in: values below eight are exact, above
/// there are eight buckets for each power of two.
fn coarse(value: u64) -> u64 {
    const BITS: u32 = 3;
    let shift = value.checked_ilog2().unwrap_or(0).saturating_sub(BITS);
    value | ((1 << shift) - 1)
}

impl Histogram {
    /// A histogram that has counted nothing.
    pub fn new() -> Histogram {
        Histogram::default()
    }

    /// Counts `value` in its bucket.
    pub fn add(&mut self, value: u64) {
        let bucket = bucket(value);
        if bucket >= self.counts.len() {
            self.counts.resize(bucket + 1, 0);
        }
        self.counts[bucket] += 1;
        if self.count == 0 || value < self.min {
            self.min = value;
        }
        self.max = self.max.max(value);
        self.count += 1;
        self.sum += u128::from(value);
    }

    /// Adds everything that `other` has counted.
    pub fn merge(&mut self, other: &Histogram) {
        if other.count == 0 {
            return;
        }
        if self.counts.len() < other.counts.len() {
            self.counts.resize(other.counts.len(), 0);
        }
        for (mine, theirs) in self.counts.iter_mut().zip(&other.counts) {
            *mine += theirs;
        }
        self.min = if self.count == 0 { other.min } else { self.min.min(other.min) };
        self.max = self.max.max(other.max);
        self.count += other.count;
        self.sum += other.sum;
    }

    /// The number of values.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The exact sum of the counted values.
    pub fn sum(&self) -> u128 {
        self.sum
    }

    /// The smallest value; zero if there is none.
    pub fn min(&self) -> u64 {
        self.min
    }

    /// The largest value; zero if there is none.
    pub fn max(&self) -> u64 {
        self.max
    }

    /// The mean; zero if there is none.
    pub fn mean(&self) -> f64 {
        if self.count == 0 { 0.0 } else { self.sum as f64 / self.count as f64 }
    }

    /// The distribution in coarser buckets, eight for each power of two: for each bucket that is
    /// not empty its largest value, but not above the maximum, and the number of values in it.
    pub fn buckets(&self) -> Vec<(u64, u64)> {
        let mut found: Vec<(u64, u64)> = Vec::new();
        for (bucket, &count) in self.counts.iter().enumerate().filter(|(_, count)| **count > 0) {
            let end = coarse(highest(bucket)).min(self.max);
            match found.last_mut() {
                Some((last, all)) if *last == end => *all += count,
                _ => found.push((end, count)),
            }
        }
        found
    }

    /// The `q`-quantile for `q` in 0 to 1 (0.99: the 99th percentile).
    ///
    /// With `n` values in ascending order it is the value number `ceil(q * n)`, counted from 1 and
    /// at least the first, rounded up to the largest value of its bucket but not above the maximum.
    /// It is never below the true quantile, and exceeds it by less than 0.8%. Zero if there is no
    /// value.
    pub fn quantile(&self, q: f64) -> u64 {
        let rank = ((q * self.count as f64).ceil() as u64).clamp(1, self.count.max(1));
        let mut seen = 0;
        for (bucket, &count) in self.counts.iter().enumerate() {
            seen += count;
            if seen >= rank {
                return highest(bucket).min(self.max);
            }
        }
        self.max
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use twin_rt::Rng;

    #[test]
    fn every_value_lies_in_its_bucket_and_buckets_touch() {
        let mut rng = Rng::new(1);
        let edges = (0..64).flat_map(|bit| [1u64 << bit, (1 << bit) - 1, !0 >> bit]);
        let values: Vec<u64> =
            edges.chain((0..10_000).map(|i| rng.next_u64() >> (i % 64))).collect();
        for value in values {
            let bucket = bucket(value);
            assert!(value <= highest(bucket), "{value}");
            assert!(bucket == 0 || value > highest(bucket - 1), "{value}");
            assert!((highest(bucket) - value) as f64 <= value as f64 / 128.0, "{value}");
        }
    }

    #[test]
    fn quantiles_are_the_true_ones_or_just_above() {
        let mut rng = Rng::new(2);
        let mut values: Vec<u64> = (0..10_007).map(|_| rng.exponential(1e6) as u64).collect();
        let mut histogram = Histogram::new();
        values.iter().for_each(|&value| histogram.add(value));
        values.sort_unstable();
        for q in [0.0, 0.001, 0.5, 0.9, 0.99, 0.999, 0.9999, 1.0] {
            let rank = ((q * values.len() as f64).ceil() as usize).max(1);
            let (exact, got) = (values[rank - 1], histogram.quantile(q));
            assert!(got >= exact && got as f64 <= exact as f64 * 1.008, "{q}: {got} for {exact}");
        }
        assert_eq!(histogram.quantile(1.0), histogram.max());
        let mean = values.iter().sum::<u64>() as f64 / values.len() as f64;
        assert!((histogram.mean() - mean).abs() < 1e-6);
    }

    #[test]
    fn coarse_buckets_count_every_value_once_below_their_bound() {
        let mut rng = Rng::new(5);
        let mut values: Vec<u64> = (0..5000).map(|_| rng.next_u64() >> rng.below(64)).collect();
        let mut histogram = Histogram::new();
        values.iter().for_each(|&value| histogram.add(value));
        values.sort_unstable();
        let buckets = histogram.buckets();
        let mut counted = 0;
        for pair in buckets.windows(2) {
            assert!(pair[0].0 < pair[1].0, "{pair:?}");
        }
        for &(end, count) in &buckets {
            counted += count as usize;
            assert_eq!(counted, values.partition_point(|&value| value <= end), "up to {end}");
        }
        assert_eq!(buckets.last().map(|bucket| bucket.0), Some(histogram.max()));
        // An eighth of 64 powers of two at most.
        assert!(counted == values.len() && buckets.len() <= 8 * 62, "{}", buckets.len());
        assert!(Histogram::new().buckets().is_empty());
    }

    #[test]
    fn merging_is_counting_together() {
        let mut rng = Rng::new(3);
        let (mut a, mut b, mut both) = (Histogram::new(), Histogram::new(), Histogram::new());
        for i in 0..1000 {
            let value = rng.next_u64() >> rng.below(64);
            if i % 3 == 0 {
                a.add(value)
            } else {
                b.add(value)
            }
            both.add(value);
        }
        a.merge(&Histogram::new());
        a.merge(&b);
        assert_eq!(a, both);
        let mut empty = Histogram::new();
        empty.merge(&both);
        assert_eq!(empty, both);
    }

    #[test]
    fn nothing_counted_gives_zeros() {
        let empty = Histogram::new();
        assert_eq!((empty.quantile(0.5), empty.max(), empty.mean()), (0, 0, 0.0));
    }
}
