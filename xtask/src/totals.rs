//! The numbers of tests that passed, failed and were skipped.

use std::fmt;
use std::ops::AddAssign;

/// Counts of tests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Totals {
    pub(crate) passed: usize,
    pub(crate) failed: usize,
    pub(crate) skipped: usize,
}

impl Totals {
    /// The totals of one test.
    pub(crate) fn one(passed: bool) -> Totals {
        Totals { passed: usize::from(passed), failed: usize::from(!passed), skipped: 0 }
    }

    /// The counts in a line of Rust's test harness, if it is one:
    /// `test result: ok. 3 passed; 0 failed; 1 ignored; ..`.
    pub(crate) fn of_harness(line: &str) -> Option<Totals> {
        let counts = line.strip_prefix("test result: ")?.split_once(". ")?.1;
        let count = |what: &str| {
            let part = counts.split(';').find(|part| part.trim().ends_with(what))?;
            part.split_whitespace().next()?.parse().ok()
        };
        Some(Totals {
            passed: count("passed")?,
            failed: count("failed")?,
            skipped: count("ignored")?,
        })
    }
}

impl AddAssign for Totals {
    fn add_assign(&mut self, other: Totals) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.skipped += other.skipped;
    }
}

impl fmt::Display for Totals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} passed, {} failed", self.passed, self.failed)?;
        match self.skipped {
            0 => Ok(()),
            skipped => write!(f, ", {skipped} skipped"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_harness_s_line_is_counted_and_no_other() {
        let line = "test result: FAILED. 3 passed; 2 failed; 1 ignored; 0 measured; 0 filtered out; \
                    finished in 0.00s";
        let totals = Totals { passed: 3, failed: 2, skipped: 1 };
        assert_eq!(Totals::of_harness(line), Some(totals));
        assert_eq!(Totals::of_harness("test result: odd"), None);
        assert_eq!(Totals::of_harness("test a::b ... ok"), None);
    }

    #[test]
    fn totals_are_told_in_one_line() {
        let mut totals = Totals::one(true);
        assert_eq!(totals.to_string(), "1 passed, 0 failed");
        totals += Totals { skipped: 2, ..Totals::one(false) };
        assert_eq!(totals.to_string(), "1 passed, 1 failed, 2 skipped");
    }
}
