//! Several targets taking turns, several times.

use std::sync::Arc;

use super::directory::{Clock, Directory};
use super::{BenchFailure, Benchmark, Phase, simulated};
use crate::config::Config;

/// What benchmarks run on.
#[derive(Clone, Debug)]
pub enum Target {
    /// A configuration, simulated.
    Simulated(Box<Config>),
    /// A directory.
    Directory(Directory),
    /// A place that is made for each run.
    Place(Arc<dyn Place>),
}

/// Where a benchmark runs that has to be set up first, as a file system that is made for it.
pub trait Place: std::fmt::Debug + Send + Sync {
    /// What to call it.
    fn name(&self) -> String;

    /// Sets up, carries out a benchmark and cleans up. No phases: it cannot be carried out here.
    ///
    /// # Errors
    /// The first thing that fails.
    fn run(&self, bench: &dyn Benchmark, clock: Clock<'_>) -> Result<Vec<Phase>, BenchFailure>;
}

impl Target {
    /// What to call it.
    pub fn name(&self) -> String {
        match self {
            Target::Simulated(config) => config.name.clone(),
            Target::Directory(directory) => directory.path.display().to_string(),
            Target::Place(place) => place.name(),
        }
    }

    fn run(&self, bench: &dyn Benchmark, clock: Clock<'_>) -> Result<Vec<Phase>, BenchFailure> {
        match self {
            Target::Simulated(config) => simulated::run(config, bench),
            Target::Directory(directory) => directory.run(bench, clock),
            Target::Place(place) => place.run(bench, clock),
        }
    }

    /// Simulated runs are all equal: one is enough.
    fn runs(&self, runs: usize) -> usize {
        match self {
            Target::Simulated(_) => 1,
            Target::Directory(_) | Target::Place(_) => runs,
        }
    }
}

/// A phase of a benchmark on all targets.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct Row {
    /// The benchmark.
    pub bench: String,
    /// The phase.
    pub phase: &'static str,
    /// What a second's amount is in.
    pub unit: &'static str,
    /// For each target what it moved in a second, run by run.
    pub rates: Vec<Vec<f64>>,
}

/// The middle of some figures; the mean of the middle two if their number is even.
pub(crate) fn median(figures: &[f64]) -> f64 {
    let mut sorted = figures.to_vec();
    sorted.sort_by(f64::total_cmp);
    match sorted.len() {
        0 => f64::NAN,
        n if n % 2 == 1 => sorted[n / 2],
        n => (sorted[n / 2 - 1] + sorted[n / 2]) / 2.0,
    }
}

/// Runs the benchmarks on the targets `runs` times. The targets take turns within each benchmark
/// and begin with another one each time, so that what changes on the machine meets all alike.
///
/// # Errors
/// The first run that fails.
pub fn run(
    benches: &[Box<dyn Benchmark>],
    targets: &[Target],
    runs: usize,
    clock: Clock<'_>,
    progress: &dyn Fn(usize, usize),
) -> Result<Vec<Row>, BenchFailure> {
    let mut rows: Vec<Row> = Vec::new();
    let all = benches.len() * targets.iter().map(|t| t.runs(runs)).sum::<usize>();
    let mut ended = 0;
    for round in 0..runs {
        for bench in benches {
            for i in 0..targets.len() {
                let place = (i + round) % targets.len();
                let target = &targets[place];
                if round >= target.runs(runs) {
                    continue;
                }
                let phases = target.run(&**bench, clock)?;
                add(&mut rows, &bench.label(), &phases, place, targets.len());
                ended += 1;
                progress(ended, all);
            }
        }
    }
    Ok(rows)
}

fn add(rows: &mut Vec<Row>, bench: &str, phases: &[Phase], place: usize, targets: usize) {
    for phase in phases {
        let found = rows.iter().position(|r| r.bench == bench && r.phase == phase.phase);
        let at = found.unwrap_or_else(|| {
            let (bench, unit) = (bench.to_string(), phase.unit);
            rows.push(Row { bench, phase: phase.phase, unit, rates: vec![Vec::new(); targets] });
            rows.len() - 1
        });
        rows[at].rates[place].push(phase.rate());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::parse;

    #[test]
    fn the_median_is_the_middle() {
        assert_eq!(median(&[3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), 2.5);
    }

    #[test]
    fn every_benchmark_ends_on_a_simulated_volume_and_on_a_directory() {
        let dir = std::env::temp_dir();
        let targets = [
            Target::Simulated(Box::new(Config::parse("lfs:size=256M").unwrap())),
            Target::Directory(Directory {
                path: dir.clone(),
                cold: super::super::directory::Cold::Never,
                stop: Arc::default(),
            }),
        ];
        let texts = [
            "small:files=150",
            "large:mb=1",
            "sizes:size=12K,total=200K",
            "small:files=50,users=3,warm=1,kernel=1",
            "meta:names=60",
            "andrew:users=2",
            "tpcb:transactions=40,accounts=2000,cached=5,group=4,kernel=1",
        ];
        for text in texts {
            let benches = parse(text).unwrap();
            let rows = run(&benches, &targets, 1, &|| 0.0, &|_, _| {}).unwrap();
            assert!(rows.len() >= 3, "{text}: {} phases", rows.len());
            let simulated = |r: &&Row| r.rates[0].iter().all(|&rate| rate > 0.0);
            assert_eq!(rows.iter().filter(simulated).count(), rows.len(), "{text}");
        }
        let left = std::fs::read_dir(&dir).unwrap().filter_map(Result::ok);
        let ours = format!("twinfs-bench-{}-", std::process::id());
        let left = left.filter(|e| e.file_name().to_string_lossy().starts_with(&ours));
        assert_eq!(left.count(), 0, "a run cleans up");
    }
}
