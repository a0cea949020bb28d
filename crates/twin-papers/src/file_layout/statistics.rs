//! What tables 5, 7, 8 and 9 of TR-35-94 compute: correlations over file systems, dates and tests.

use super::benchmark::SIZES;
use super::study::{Old, Test};

/// A row of a table: what is correlated, the paper's coefficient, ours, and over how many pairs.
#[derive(Clone, Debug)]
pub(super) struct Row {
    pub(super) what: String,
    pub(super) paper: f64,
    pub(super) ours: f64,
    pub(super) pairs: usize,
}

type Pair = (f64, f64);

/// Pearson's coefficient; not a number for fewer than two pairs, or where nothing varies.
pub(super) fn correlation(pairs: &[Pair]) -> f64 {
    let count = pairs.len() as f64;
    let mean = |of: fn(&Pair) -> f64| pairs.iter().map(of).sum::<f64>() / count;
    let (x, y) = (mean(|pair| pair.0), mean(|pair| pair.1));
    let sum =
        |of: &dyn Fn(f64, f64) -> f64| pairs.iter().map(|p| of(p.0 - x, p.1 - y)).sum::<f64>();
    sum(&|a, b| a * b) / (sum(&|a, _| a * a) * sum(&|_, b| b * b)).sqrt()
}

fn row(what: impl Into<String>, paper: f64, pairs: &[Pair]) -> Row {
    Row { what: what.into(), paper, ours: correlation(pairs), pairs: pairs.len() }
}

/// The paper's table 5: file system, server, coefficient of age and layout score.
const TABLE_5: [(&str, &str, f64); 20] = [
    ("bespin-new", "speed", 0.8297),
    ("cnews", "das-news", -0.0252),
    ("ftp", "endor", -0.8873),
    ("glan5", "virtual12", -0.7166),
    ("glan6", "virtual12", -0.5206),
    ("glan7", "virtual12", -0.0933),
    ("glan8", "virtual12", -0.7829),
    ("glan9", "virtual12", -0.5658),
    ("local", "endor", -0.9541),
    ("mail", "endor", 0.6419),
    ("newsspool", "das-news", -0.2137),
    ("services", "das-news", 0.2986),
    ("software", "endor", 0.1995),
    ("staff", "das-news", -0.9059),
    ("usr3", "speed", 0.0885),
    ("usr4", "speed", -0.4479),
    ("usr6", "endor", -0.6077),
    ("usr8", "endor", 0.0753),
    ("usr12", "speed", -0.9734),
    ("white", "endor", -0.7620),
];

/// Table 5: age and layout score of each active file system.
pub(super) fn table_5(old: &[&Old]) -> Vec<Row> {
    let of = |&(name, server, paper): &(&str, &str, f64)| {
        let is_it = |old: &&&Old| (old.system.name, old.system.server) == (name, server);
        let snapshots = old.iter().find(is_it).map(|old| &old.snapshots[..]).unwrap_or_default();
        let points = snapshots
            .iter()
            .filter_map(|snapshot| Some((snapshot.day as f64, snapshot.layout.score.value()?)));
        row(format!("{name} ({server})"), paper, &points.collect::<Vec<_>>())
    };
    TABLE_5.iter().map(of).collect()
}

/// A figure of a test's reads or writes.
type Of = fn(&Test) -> f64;

const RELATIVE_READ: Of = |test| test.relative_read;
const RELATIVE_WRITE: Of = |test| test.relative_write;

/// The tests with files of these sizes.
fn tests<'a>(old: &'a [&Old], sizes: &'a [u64]) -> impl Iterator<Item = &'a Test> {
    old.iter().flat_map(|old| &old.tests).filter(|test| sizes.contains(&test.size))
}

const MIDDLE: &[u64] = &[SIZES[1]];
const LARGE: &[u64] = &[SIZES[2]];
/// Files of one block have no score.
const SCORED: &[u64] = &[SIZES[1], SIZES[2]];

/// Table 7: score of the files of a test and its throughput, as a share of the empty file system's: the
/// paper says throughput, but that of reads and writes and of files of 64 KB and 1 MB differs by factors
/// for which no score accounts, and all together correlate nearly as well as each.
pub(super) fn table_7(old: &[&Old]) -> Vec<Row> {
    let (read, write) = (RELATIVE_READ, RELATIVE_WRITE);
    let of = |what: &str, paper, sizes: &[u64], rates: &[Of]| {
        let pairs = tests(old, sizes).filter_map(|test| Some((test.score?, test)));
        let pairs = pairs.flat_map(|(score, test)| rates.iter().map(move |of| (score, of(test))));
        row(what, paper, &pairs.collect::<Vec<_>>())
    };
    vec![
        of("all tests", 0.7901, SCORED, &[read, write]),
        of("64 KB tests", 0.7554, MIDDLE, &[read, write]),
        of("1024 KB tests", 0.8490, LARGE, &[read, write]),
        of("read tests", 0.9013, SCORED, &[read]),
        of("write tests", 0.8357, SCORED, &[write]),
        of("64 KB reads", 0.8990, MIDDLE, &[read]),
        of("64 KB writes", 0.8137, MIDDLE, &[write]),
        of("1024 KB reads", 0.9094, LARGE, &[read]),
        of("1024 KB writes", 0.8989, LARGE, &[write]),
    ]
}

/// Something of the aged volume and the relative performance of the tests with 64 KB.
fn relative(old: &[&Old], of: Of, papers: [f64; 3]) -> Vec<Row> {
    let pairs = |rates: &[Of]| -> Vec<Pair> {
        let tests = tests(old, MIDDLE);
        tests.flat_map(|test| rates.iter().map(move |rate| (of(test), rate(test)))).collect()
    };
    let (read, write) = (RELATIVE_READ, RELATIVE_WRITE);
    vec![
        row("all 64 KB tests", papers[0], &pairs(&[read, write])),
        row("64 KB read tests", papers[1], &pairs(&[read])),
        row("64 KB write tests", papers[2], &pairs(&[write])),
    ]
}

/// Table 8: free space and relative performance.
pub(super) fn table_8(old: &[&Old]) -> Vec<Row> {
    relative(old, |test| test.free, [0.4871, 0.5117, 0.6821])
}

/// Table 9: score of the whole file system and relative performance.
pub(super) fn table_9(old: &[&Old]) -> Vec<Row> {
    relative(old, |test| test.aggregate, [0.4682, 0.6435, 0.5118])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn correlations_are_pearsons() {
        assert!((correlation(&[(0.0, 1.0), (1.0, 3.0), (2.0, 5.0)]) - 1.0).abs() < 1e-12);
        assert!((correlation(&[(0.0, 1.0), (1.0, 0.0), (2.0, 1.0)])).abs() < 1e-12);
        assert!(correlation(&[(1.0, 2.0)]).is_nan(), "one test says nothing");
    }

    #[test]
    fn the_file_systems_of_table_5_are_in_the_population() {
        let has = |name: &str, server: &str| {
            let mut all = super::super::population::POPULATION.iter();
            all.any(|system| (system.name, system.server) == (name, server))
        };
        assert!(TABLE_5.iter().all(|&(name, server, _)| has(name, server)));
        assert_eq!(table_5(&[]).len(), 20);
    }
}
