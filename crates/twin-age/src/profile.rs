//! Ageing profiles: distributions of the sizes, ages and depths of files.
//!
//! Contract: the profiles of Geriatrix come with the program (`profiles.txt` names their source and
//! licence). A bucket of sizes or ages reaches from above the bucket before it to its own value;
//! within it values are drawn evenly on a logarithmic scale, below the first bucket's value evenly.

use twin_rt::Rng;
use twin_settings::SettingsError;

/// A distribution of values by buckets, each with a weight.
#[derive(Clone, Debug, PartialEq)]
pub struct Distribution {
    /// The largest value of each bucket and its weight, ascending.
    buckets: Vec<(f64, f64)>,
    total: f64,
}

impl Distribution {
    fn new(buckets: Vec<(f64, f64)>) -> Option<Distribution> {
        let ascending = buckets.windows(2).all(|pair| pair[0].0 < pair[1].0);
        let total = buckets.iter().map(|bucket| bucket.1).sum::<f64>();
        let sound = buckets.iter().all(|(value, weight)| *value >= 0.0 && *weight >= 0.0);
        (ascending && sound && total > 0.0).then_some(Distribution { buckets, total })
    }

    /// The buckets up to this value; `None` if nothing is left.
    #[must_use]
    pub fn up_to(&self, most: f64) -> Option<Distribution> {
        let kept = self.buckets.iter().copied().filter(|bucket| bucket.0 <= most).collect();
        Distribution::new(kept)
    }

    /// The number of buckets.
    pub fn len(&self) -> usize {
        self.buckets.len()
    }

    /// True if there are none, which no distribution of a profile has.
    pub fn is_empty(&self) -> bool {
        self.buckets.is_empty()
    }

    /// The upper end of the last bucket.
    pub fn largest(&self) -> f64 {
        self.buckets.last().map_or(0.0, |bucket| bucket.0)
    }

    /// The largest value of a bucket.
    pub fn bound(&self, bucket: usize) -> f64 {
        self.buckets[bucket].0
    }

    /// The share of a bucket, 0 to 1.
    pub fn share(&self, bucket: usize) -> f64 {
        self.buckets[bucket].1 / self.total
    }

    /// The bucket that a value lies in; values above the last bucket count as in it.
    pub fn bucket_of(&self, value: f64) -> usize {
        self.buckets.partition_point(|bucket| bucket.0 < value).min(self.len() - 1)
    }

    /// Draws one value by the weights of the buckets.
    pub fn draw(&self, rng: &mut Rng) -> f64 {
        let mut at = rng.unit() * self.total;
        let drawn = self.buckets.iter().position(|bucket| {
            at -= bucket.1;
            at < 0.0
        });
        let last = self.buckets.iter().rposition(|bucket| bucket.1 > 0.0);
        let bucket = drawn.or(last).unwrap_or(0);
        let high = self.buckets[bucket].0;
        let low = if bucket == 0 { 0.0 } else { self.buckets[bucket - 1].0 };
        match low > 0.0 {
            true => high * (low / high).powf(rng.unit()),
            // Zero itself has the first bucket alone, where a profile has one for it.
            false => high * (1.0 - rng.unit()),
        }
    }

    /// The mean of what [`draw`](Self::draw) draws.
    pub fn mean(&self) -> f64 {
        let mut low = 0.0;
        let mut sum = 0.0;
        for &(high, weight) in &self.buckets {
            let mean = match low > 0.0 {
                true => (high - low) / (high / low).ln(),
                false => high / 2.0,
            };
            sum += mean * weight;
            low = high;
        }
        sum / self.total
    }
}

/// Files at one depth.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Depth {
    /// The number of directories above the files, the root not counted.
    pub depth: u32,
    /// The weight of the files.
    pub weight: f64,
    /// The number of directories at this depth.
    pub directories: u32,
}

/// The distributions of sizes, ages and depths of files that an aged volume gets.
#[derive(Clone, Debug, PartialEq)]
pub struct Profile {
    /// The name by which the profile is chosen.
    pub name: String,
    /// Sizes of files in bytes.
    pub sizes: Distribution,
    /// Ages in a unit of the profile's own.
    pub ages: Distribution,
    /// How many files lie at each depth of the tree.
    pub depths: Vec<Depth>,
}

/// All profiles, those of Geriatrix (2018).
pub fn profiles() -> Vec<Profile> {
    parse(include_str!("profiles.txt")).unwrap_or_else(|why| panic!("profiles.txt: {why}"))
}

/// The profile with this name.
///
/// # Errors
/// If there is none; the message lists all.
pub fn profile(name: &str) -> Result<Profile, SettingsError> {
    let all = profiles();
    let names = all.iter().map(|profile| profile.name.as_str());
    let found = all.iter().find(|profile| profile.name == name);
    found.cloned().ok_or_else(|| SettingsError::unknown("profile", name, names))
}

/// Parses profiles in the form of `profiles.txt`, which describes it.
///
/// # Errors
/// What is wrong, with the number of the line.
pub(crate) fn parse(text: &str) -> Result<Vec<Profile>, String> {
    let lines = text.lines().enumerate().map(|(nth, line)| (nth + 1, line.trim()));
    let lines: Vec<_> = lines.filter(|(_, l)| !l.is_empty() && !l.starts_with('#')).collect();
    let mut profiles = Vec::new();
    for four in lines.chunks(4) {
        let first = four[0].0;
        let [name, sizes, ages, depths] = four else {
            return Err(format!("line {first}: a profile has four lines"));
        };
        let rest = |(nth, line): &(usize, &str), word: &str| match line.strip_prefix(word) {
            Some(rest) if rest.starts_with(' ') => Ok(rest.trim().to_owned()),
            _ => Err(format!("line {nth}: should begin with {word:?}")),
        };
        let distribution = |line: &(usize, &str), word| {
            let rows = numbers(&rest(line, word)?, 2).ok_or(format!("line {}: numbers", line.0))?;
            Distribution::new(rows.iter().map(|row| (row[0], row[1])).collect())
                .ok_or(format!("line {}: buckets should ascend and have weights", line.0))
        };
        let rows = numbers(&rest(depths, "depth")?, 3).ok_or(format!("line {}", depths.0))?;
        let depth = |row: &Vec<f64>| Depth {
            depth: row[0] as u32,
            weight: row[1],
            directories: row[2] as u32,
        };
        profiles.push(Profile {
            name: rest(name, "profile")?,
            sizes: distribution(sizes, "size")?,
            ages: distribution(ages, "age")?,
            depths: rows.iter().map(depth).collect(),
        });
    }
    Ok(profiles)
}

/// Groups of `each` numbers with colons between them.
fn numbers(text: &str, each: usize) -> Option<Vec<Vec<f64>>> {
    let group = |word: &str| word.split(':').map(|n| n.parse().ok()).collect::<Option<Vec<f64>>>();
    let groups = text.split_whitespace().map(group).collect::<Option<Vec<_>>>()?;
    groups.iter().all(|group| group.len() == each).then_some(groups)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_eight_profiles_are_there_and_their_sums_are_those_of_the_source() {
        let names: Vec<String> = profiles().into_iter().map(|p| p.name).collect();
        let all =
            ["agrawal", "dabre", "douceur", "grundman", "meyer", "pramod", "wang_lanl", "wang_os"];
        assert_eq!(names, all);
        let agrawal = profile("agrawal").unwrap();
        assert_eq!((agrawal.sizes.total, agrawal.ages.total), (230.0, 464.0));
        assert!(profile("agrawl").unwrap_err().to_string().contains("agrawal"));
    }

    #[test]
    fn draws_have_the_shares_of_the_buckets_and_the_mean() {
        for profile in profiles() {
            let sizes = profile.sizes.up_to(1e6).unwrap();
            let (mut rng, mut counts, mut sum) = (Rng::new(7), vec![0u32; sizes.len()], 0.0);
            const DRAWS: u32 = 40_000;
            for _ in 0..DRAWS {
                let size = sizes.draw(&mut rng);
                assert!(size <= sizes.largest());
                sum += size;
                counts[sizes.bucket_of(size)] += 1;
            }
            for (bucket, count) in counts.iter().enumerate() {
                let share = f64::from(*count) / f64::from(DRAWS);
                // A bucket that ends at 0 draws zeros, which belong to it.
                assert!((share - sizes.share(bucket)).abs() < 0.01, "{}: {bucket}", profile.name);
            }
            let mean = sum / f64::from(DRAWS);
            assert!((mean / sizes.mean() - 1.0).abs() < 0.05, "{}: {mean}", profile.name);
        }
    }

    #[test]
    fn a_profile_that_is_wrong_is_an_error_with_its_line() {
        for (text, why) in [
            ("profile a", "line 1: a profile has four lines"),
            ("profile a\nsize 1:1\nages 1:1\ndepth 1:1:1", "line 3"),
            ("profile a\nsize 2:1 1:1\nage 1:1\ndepth 1:1:1", "line 2"),
            ("profile a\nsize 2:0\nage 1:1\ndepth 1:1:1", "line 2"),
            ("profile a\nsize 2:x\nage 1:1\ndepth 1:1:1", "line 2"),
        ] {
            assert!(parse(text).unwrap_err().contains(why), "{text}");
        }
    }
}
