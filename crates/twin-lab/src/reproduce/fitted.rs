//! All fitted constants, for all claims together.
//!
//! They are fitted to the table of 1994 alone ([`clc`]); the claims of 1995 are then judged with
//! the same values. Only the presets of the BSD machine use them. [`sensitivity`] measures the
//! effect of 5% of each (`twinfs reproduce efs-table --sensitivity`); its last result is given with
//! each constant. With the present values the median error over the 94 cells is 3.2% and 87 are
//! within 10%.
//!
//! Cross-validation (`--cross-validate`, [`super::fit`]): fitted on every second size and scored on
//! the others, a median of 4.1%; the other way round 3.7%; fitted on EFS and scored on LFS 4.5%;
//! fitted on LFS and scored on EFS 8.7%.

use super::{Need, clc, run_all};
use crate::bench::BenchFailure;

/// A fitted constant.
#[derive(Clone, Copy, Debug)]
pub struct Fitted {
    /// The configuration's key.
    pub key: &'static str,
    /// Its meaning.
    pub what: &'static str,
    /// The published figure, or that there is none.
    pub published: &'static str,
    /// The fitted value.
    pub value: &'static str,
    /// Why it had to be fitted, and what the value means.
    pub reason: &'static str,
    /// The measured effect on the table of 5% less and of 5% more: the median error and the number
    /// of cells within 10%.
    pub effect: &'static str,
    /// The value times a factor.
    pub times: fn(f64) -> String,
}

fn times(value: f64, factor: f64) -> String {
    format!("{:.0}", value * factor)
}

const BUS_RATE: f64 = 3_900_000.0;
const COMMAND_US: f64 = 1200.0;
const REQUEST_US: f64 = 250.0;

/// All fitted constants.
pub const FITTED: &[Fitted] = &[
    Fitted {
        key: "bus-rate",
        what: "bytes a second that the bus moves from the drive's buffer",
        published: "2.3 MB/s",
        value: "3900000",
        reason: "64 KB reads in the table take 28.9 ms; at 2.3 MB/s the bus alone would take 27.2, \
                 which leaves no time for commands and copies. 2.3 MB/s is what the medium sustains.",
        effect: "5% less: 3.4%, 82 cells within 10%; 5% more: 3.4%, 87",
        times: |f| times(BUS_RATE, f),
    },
    Fitted {
        key: "command-us",
        what: "microseconds for a command before the drive decodes it",
        published: "not published",
        value: "1200",
        reason: "driver, adapter and selection. With the drive's own 2 ms a write misses the gap of \
                 8 KB (3.1 ms) that EFS leaves for it, as the table's large writes do.",
        effect: "5% less: 3.3%, 87 cells within 10%; 5% more: 3.3%, 81",
        times: |f| times(COMMAND_US, f),
    },
    Fitted {
        key: "skews",
        what: "track and cylinder skew in sectors",
        published: "not published; the DEC RZ26 has 7 and 25",
        value: "6/21",
        reason: "files of 8 MB are read at 2.16 MB/s; with the RZ26's skews the medium gives 2.19 \
                 before anything is lost. The ratio of the two is kept.",
        effect: "a sector of a track less: 3.5%, 88 cells within 10%; one more: 3.8%, 85",
        times: |f| if f > 1.0 { "7/25".into() } else { "5/18".into() },
    },
    Fitted {
        key: "request-us",
        what: "microseconds of the processor for a request",
        published: "not published",
        value: "250",
        reason: "preparing a request and taking its interrupt; the drive waits meanwhile where \
                 nothing overlaps.",
        effect: "5% less: 3.2%, 88 cells within 10%; 5% more: 3.2%, 85",
        times: |f| times(REQUEST_US, f),
    },
];

/// The value that a preset sets for a key.
pub const fn value(key_index: usize) -> (&'static str, &'static str) {
    (FITTED[key_index].key, FITTED[key_index].value)
}

/// The effect of each constant on the table: the scores with 5% less and with 5% more (skews: one
/// sector of a track).
///
/// # Errors
/// The first run that fails.
pub fn sensitivity(
    threads: usize,
    progress: &(dyn Fn(usize, usize) + Sync),
) -> Result<Vec<(&'static Fitted, [clc::Score; 2])>, BenchFailure> {
    let variant = |need: &Need, f: &Fitted, factor: f64| {
        Need::new(format!("{}:{}={}", need.config, f.key, (f.times)(factor)), need.bench.clone())
    };
    let mut needs = Vec::new();
    for f in FITTED {
        for factor in [0.95, 1.05] {
            needs.extend(clc::needs().iter().map(|n| variant(n, f, factor)));
        }
    }
    let results = run_all(needs, threads, progress)?;
    let score = |f: &Fitted, factor: f64| {
        let cells = clc::cells_of(&results, |need| variant(&need, f, factor));
        clc::score(cells.iter())
    };
    Ok(FITTED.iter().map(|f| (f, [score(f, 0.95), score(f, 1.05)])).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_are_at_most_four_and_the_texts_are_the_values() {
        assert!(FITTED.len() <= 4);
        for f in FITTED.iter().filter(|f| f.key != "skews") {
            assert_eq!((f.times)(1.0), f.value, "{}", f.key);
        }
    }
}
