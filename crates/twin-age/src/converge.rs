//! Whether the files of a volume are distributed as a profile says.
//!
//! Contract: for each bucket of the profile the share that it should have and the share that it
//! has, and as one figure the distance of the two distributions: the largest difference of their
//! sums up to a bucket (Kolmogorov's), with the distance that chance alone reaches in one of a
//! hundred samples of this many files. A distribution has converged if it is not farther away than
//! that, or than one percent.

use crate::profile::Distribution;

/// A bucket, and the shares of files in it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bucket {
    /// The largest value of the bucket.
    pub bound: f64,
    /// The share by the profile, 0 to 1.
    pub expected: f64,
    /// The share of the files.
    pub found: f64,
}

/// A profile's distribution beside that of files.
#[derive(Clone, Debug, PartialEq)]
pub struct Agreement {
    /// All buckets of the distribution, in ascending order.
    pub buckets: Vec<Bucket>,
    /// The number of files.
    pub files: u64,
    /// The distance, 0 to 1.
    pub distance: f64,
    /// The distance that chance reaches in one of a hundred samples.
    pub by_chance: f64,
}

/// A distance that is always near enough.
const NEAR: f64 = 0.01;

impl Agreement {
    /// True if the files are distributed as the profile says.
    pub fn has_converged(&self) -> bool {
        self.files > 0 && self.distance <= self.by_chance.max(NEAR)
    }
}

/// Compares values with a distribution.
pub fn agreement(expected: &Distribution, values: impl Iterator<Item = f64>) -> Agreement {
    let mut counts = vec![0u64; expected.len()];
    let mut files = 0;
    for value in values {
        counts[expected.bucket_of(value)] += 1;
        files += 1;
    }
    let bucket = |(at, &count): (usize, &u64)| Bucket {
        bound: expected.bound(at),
        expected: expected.share(at),
        found: count as f64 / files.max(1) as f64,
    };
    let buckets: Vec<Bucket> = counts.iter().enumerate().map(bucket).collect();
    let (mut sum, mut distance) = (0.0, 0.0f64);
    for bucket in &buckets {
        sum += bucket.found - bucket.expected;
        distance = distance.max(sum.abs());
    }
    Agreement { buckets, files, distance, by_chance: 1.63 / (files.max(1) as f64).sqrt() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile;
    use twin_rt::Rng;

    #[test]
    fn draws_of_a_profile_agree_with_it_and_those_of_another_do_not() {
        let [one, other] = ["agrawal", "meyer"].map(|name| profile(name).unwrap().sizes);
        let (one, other) = (&one, &other);
        let mut rng = Rng::new(3);
        let mut draws =
            |of: &Distribution| (0..5000).map(|_| of.draw(&mut rng)).collect::<Vec<_>>();
        let same = agreement(one, draws(one).into_iter());
        assert!(same.has_converged(), "{}", same.distance);
        let different = agreement(one, draws(other).into_iter());
        assert!(!different.has_converged() && different.distance > 0.05);
        assert!(!agreement(one, std::iter::empty()).has_converged(), "nothing is no agreement");
    }
}
