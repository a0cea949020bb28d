//! The claims of section 5 of Logging versus Clustering on its figure 8: the benchmark on aged FFS file systems, as a
//! part of its speed on empty ones.
//!
//! It is the study of [`file_layout`](super::file_layout) on six of its file systems, whose runs are used here, too.
//! What both papers state (the tests of 8 KB and 1 MB at 85% of the empty speed, the 71% of the news file system) is
//! judged there alone. The paper measured no aged log; ours ([`crate::studies::aged_log`]) are shown and not judged.

use crate::check::{Check, Expect};
use crate::claim::Claim;
use crate::results::Results;
use crate::studies::aged_log::SIX;
use crate::studies::file_layout::{Old, Test};

/// The claim.
pub(crate) const CLAIM: Claim = Claim {
    id: "aged-speeds",
    source: "LvC 5.4, fig. 8",
    says: "the news file system is the slowest of six aged FFS, software the fastest; files of 64 KB lose most \
           (six file systems of the layout study, an eighth as large)",
    needs: Vec::new,
    judge,
};

const LOADS: &str = "open, as the same file systems in FL 4-5: the loads are generators of each kind with sizes from \
    other studies of the time";

/// A test's size and day, and its relative speed.
type Speed = (u64, u64, f64);

/// The relative speeds of a file system: read and write of each test.
fn speeds(old: &Old) -> Vec<(Speed, bool)> {
    let both = |test: &Test| {
        let of = |speed, writes| ((test.size, test.day, speed), writes);
        [of(test.relative_write, true), of(test.relative_read, false)]
    };
    old.tests.iter().flat_map(both).collect()
}

/// The number of tests that hold something.
fn count(tests: &[(Speed, bool)], holds: impl Fn(&Speed) -> bool) -> f64 {
    tests.iter().filter(|(test, _)| holds(test)).count() as f64
}

/// The number of tests at 95% of the empty speed or more.
fn good(tests: &[(Speed, bool)]) -> f64 {
    count(tests, |test| test.2 >= 0.95)
}

fn judge(results: &Results) -> Vec<Check> {
    let find = |&(server, name): &(&str, &str)| {
        let mut all = results.layouts.all.iter().flatten();
        all.find(|old| (old.system.server, old.system.name) == (server, name))
    };
    let six: Vec<&Old> = SIX.iter().filter_map(find).collect();
    // What was not measured is no number, and holds nowhere.
    let whole = six.len() == SIX.len() && six.iter().all(|old| !old.tests.is_empty());
    let mut checks = of_systems(&six);
    checks.extend(of_sizes(&six));
    let judged = |check: Check| {
        let ours = if whole { check.ours } else { f64::NAN };
        Check { ours, ..check }.because(LOADS)
    };
    checks.into_iter().map(judged).collect()
}

/// Section 5.4.
fn of_systems(six: &[&Old]) -> Vec<Check> {
    let of = |name: &str| {
        let found = six.iter().find(|old| old.system.name == name);
        found.map(|old| speeds(old)).unwrap_or_default()
    };
    let others = six.iter().filter(|old| old.system.name != "glan5");
    let best_other = others.map(|old| good(&speeds(old))).fold(0.0, f64::max);
    let young = six.iter().filter(|old| !["cnews", "staff"].contains(&old.system.name));
    let young: Vec<(Speed, bool)> = young.flat_map(|old| speeds(old)).collect();
    let is_worst = |test: &(Speed, bool)| (test.0.0, test.0.1, test.1) == (64 << 10, 0, true);
    let worst = of("cnews").iter().find(|test| is_worst(test)).map_or(f64::NAN, |test| test.0.2);
    let all = six.iter().flat_map(|old| speeds(old));
    let least = all.map(|test| test.0.2).fold(f64::INFINITY, f64::min);
    vec![
        Check::paper(
            "cnews in January: tests of six below 80% of the empty speed",
            Expect::Figure(5.0),
            count(&of("cnews"), |test| test.1 == 0 && test.2 < 0.8),
        ),
        Check::order(
            "writing 64 KB on cnews in January, above the slowest of all tests",
            Expect::AtMost(0.0),
            worst - least,
        ),
        Check::paper("glan5: tests of 24 at 95% or more", Expect::Figure(15.0), good(&of("glan5"))),
        Check::order(
            "the same, more than on any of the other five",
            Expect::AtLeast(0.0),
            good(&of("glan5")) - best_other,
        ),
        Check::order(
            "file systems but cnews and staff, the oldest: tests below 80%",
            Expect::AtMost(0.0),
            count(&young, |test| test.2 < 0.8),
        ),
    ]
}

/// Sections 5.5 and 5.6.
fn of_sizes(six: &[&Old]) -> Vec<Check> {
    let of = |size| {
        let all = six.iter().flat_map(|old| speeds(old));
        all.filter(|test| test.0.0 == size).collect::<Vec<_>>()
    };
    let (middle, large) = (of(64 << 10), of(1 << 20));
    vec![
        Check::paper(
            "tests of 48 with files of 64 KB below 85%",
            Expect::Figure(9.0),
            count(&middle, |test| test.2 < 0.85),
        ),
        Check::paper(
            "the same, at 90% or more",
            Expect::Figure(35.0),
            count(&middle, |test| test.2 >= 0.9),
        ),
        Check::paper(
            "share of tests with files of 1 MB at 95% or more",
            Expect::Figure(0.7),
            good(&large) / large.len() as f64,
        ),
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
