//! The claims of File Layout and File System Performance (TR-35-94), sections 4 and 5, on a population of
//! file systems after its tables.
//!
//! Its 48 file systems, an eighth as large, are aged over their history and ten months by loads of their
//! kind ([`twin_age::load`]); as in section 5.1 the benchmark is run on new volumes with the free space of
//! the aged ones. Loads follow what is published of loads; no number is set to a score or a speed.

use twin_age::FreeSpace;

use super::statistics::{self, score_of, value};
use crate::check::{Check, Expect};
use crate::claim::Claim;
use crate::results::Results;
use crate::studies::benchmark::SIZES;
use crate::studies::file_layout::{OCTOBER, Old, Test};

/// The claim, with the rows layout-size, layout-frag, free-space, aged-speed, layout-predicts and
/// news-enospc.
pub(crate) const CLAIM: Claim = Claim {
    id: "file-layout",
    source: "FL 4-5",
    says: "small files are more fragmented than large ones, for want of free space at the beginning of \
           cylinder groups and by their fragments; aged file systems run at 85% of empty ones or more, and \
           the layout score predicts how fast (48 file systems, an eighth as large)",
    needs: Vec::new,
    judge,
};

const LOADS: &str = "open: the loads are generators of each kind with sizes from other studies of the time; the \
    snapshots of the 48 file systems are not to be had, and what was tried is in docs/reproduction.md";

const FULL: &str = "open: how the server's programs wrote articles is not published; in pieces of 1 KB 0.020 of the space is in \
    whole blocks and 0.077 in fragments (experiment pieces)";

fn judge(results: &Results) -> Vec<Check> {
    let study = &results.layouts;
    let old: Vec<&Old> = study.all.iter().flatten().collect();
    let mut checks = by_size(&old);
    checks.push(free_space(&old));
    checks.extend(speeds(&old));
    checks.extend(correlations(&old));
    checks.extend(full_news(&old));
    checks
}

/// Figures 3 and 4.
fn by_size(old: &[&Old]) -> Vec<Check> {
    let all: Vec<f64> = (1..=6).map(|power| value(score_of(old, 1 << power))).collect();
    let rises = all.windows(2).map(|two| two[1] - two[0]);
    // `f64::min` would pass over what was not measured.
    let least_rise =
        rises.reduce(|a, b| if a < b || a.is_nan() { a } else { b }).unwrap_or(f64::NAN);
    let lift = |most| {
        let score = score_of(old, most);
        score.without_fragments().unwrap_or(f64::NAN) - value(score)
    };
    vec![
        Check::paper("layout score of files of two blocks", Expect::Within(0.327, 0.05), all[0])
            .because(LOADS),
        Check::paper("layout score of files of 33 to 64 blocks", Expect::Within(0.826, 0.05), all[5])
            .because(LOADS),
        Check::order(
            "layout score, least rise from one size to the next, 2 to 64 blocks",
            Expect::AtLeast(0.0),
            least_rise,
        )
        .because(LOADS),
        Check::order(
            "fragments counted as well placed: rise of the score of two-block files over that of files of \
             33 to 64 blocks",
            Expect::AtLeast(0.0),
            lift(2) - lift(64),
        )
        .because(LOADS),
    ]
}

/// Figure 1, with each file system weighted equally.
fn free_space(old: &[&Old]) -> Check {
    let free = old.iter().filter_map(|old| old.on(OCTOBER)).map(|snapshot| snapshot.free());
    let shares: Vec<f64> = free.filter_map(|free| free.in_last_fifth()).collect();
    let mean = shares.iter().sum::<f64>() / shares.len() as f64;
    let what = "share of free space in the last fifth of the cylinder groups";
    Check::paper(what, Expect::Within(0.5, 0.05), mean).because(LOADS)
}

/// The tests with files of a size.
fn tests<'a>(old: &[&'a Old], size: u64) -> impl Iterator<Item = &'a Test> {
    let old = old.to_vec();
    old.into_iter().flat_map(|old| &old.tests).filter(move |test| test.size == size)
}

/// Figures 6 and 7.
fn speeds(old: &[&Old]) -> Vec<Check> {
    let good = |size| {
        let both = tests(old, size).flat_map(|test| [test.relative_read, test.relative_write]);
        let both: Vec<f64> = both.collect();
        both.iter().filter(|share| **share >= 0.85).count() as f64 / both.len() as f64
    };
    let [small, middle, large] = SIZES.map(good);
    let news = old.iter().find(|old| old.system.name == "cnews");
    let is_in_january = |test: &&Test| test.size == 64 << 10 && test.day == 0;
    let news = news.and_then(|old| old.tests.iter().find(is_in_january));
    vec![
        // 70 of 72, 69 of 70 and 57 of 72.
        Check::order(
            "share of tests with files of 1 MB at 85% of the empty speed or more",
            Expect::AtLeast(0.9),
            large,
        )
        .because(LOADS),
        Check::order("the same with files of 8 KB", Expect::AtLeast(0.9), small).because(LOADS),
        Check::order(
            "the same with files of 64 KB, below the lower of the two",
            Expect::AtLeast(0.0),
            small.min(large) - middle,
        )
        .because(LOADS),
        Check::paper(
            "speed of writing files of 64 KB on the news file system, of the empty one",
            Expect::Figure(0.71),
            news.map_or(f64::NAN, |test| test.relative_write),
        )
        .because(LOADS),
    ]
}

/// Table 7: score and throughput of the tests with 64 KB and 1 MB, whose files have scores.
fn correlations(old: &[&Old]) -> Vec<Check> {
    let rows = statistics::table_7(old);
    let ours = |what| rows.iter().find(|row| row.what == what).map_or(f64::NAN, |row| row.ours);
    vec![
        Check::paper(
            "correlation of layout score and relative throughput, tests with 64 KB and 1 MB",
            Expect::Within(0.7901, 0.08),
            ours("all tests"),
        )
        .because(LOADS),
        Check::paper("the same, reads", Expect::Within(0.9013, 0.08), ours("read tests"))
            .because(LOADS),
    ]
}

/// Section 5.3.
fn full_news(old: &[&Old]) -> Vec<Check> {
    let full = old.iter().find_map(|old| old.full.as_ref());
    let share = |of: fn(&FreeSpace) -> u64| {
        full.map_or(f64::NAN, |snapshot| {
            let free = snapshot.free();
            of(&free) as f64 * (1.0 - free.used) / free.bytes.max(1) as f64
        })
    };
    vec![
        Check::order(
            "news file system that ran out of room: share of its space in free whole blocks",
            Expect::AtMost(0.02),
            share(|free| free.bytes - free.fragment_bytes),
        )
        .because(FULL),
        Check::paper(
            "the same: share of its space in free fragments",
            Expect::Within(0.16, 0.05),
            share(|free| free.fragment_bytes),
        )
        .because(FULL),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_not_measured_does_not_hold() {
        let checks = judge(&Results::default());
        assert!(checks.iter().all(|check| !check.holds()), "{checks:?}");
    }
}
