//! Runs of several targets, which take turns, several times.

use std::sync::Arc;

use super::directory::{Clock, Directory};
use super::{BenchFailure, Benchmark, Phase, simulated};
use twin_lab::Run;

/// The target of a benchmark.
#[derive(Clone, Debug)]
pub enum Target {
    /// A configuration, simulated.
    Simulated(Box<Run>),
    /// A configuration, simulated, whose caches stay warm between the phases.
    SimulatedWarm(Box<Run>),
    /// An existing directory of the host.
    Directory(Directory),
    /// A place that is created for each run.
    Place(Arc<dyn Place>),
}

/// A target that has to be set up first, such as a file system that is made for the run.
pub trait Place: std::fmt::Debug + Send + Sync {
    /// The name in reports.
    fn name(&self) -> String;

    /// Sets up, runs a benchmark and cleans up. Returns no phases if the benchmark cannot run here.
    ///
    /// # Errors
    /// The first thing that fails.
    fn run(&self, bench: &dyn Benchmark, clock: Clock<'_>) -> Result<Vec<Phase>, BenchFailure>;
}

impl Target {
    /// The name in reports.
    pub fn name(&self) -> String {
        match self {
            Target::Simulated(run) | Target::SimulatedWarm(run) => run.config.name.clone(),
            Target::Directory(directory) => directory.path.display().to_string(),
            Target::Place(place) => place.name(),
        }
    }

    fn run(&self, bench: &dyn Benchmark, clock: Clock<'_>) -> Result<Vec<Phase>, BenchFailure> {
        match self {
            Target::Simulated(run) => simulated::run(&**run, bench),
            Target::SimulatedWarm(run) => simulated::run_warm(&**run, bench),
            Target::Directory(directory) => directory.run(bench, clock),
            Target::Place(place) => place.run(bench, clock),
        }
    }

    /// Simulated runs are all equal, so one is enough.
    fn runs(&self, runs: usize) -> usize {
        match self {
            Target::Simulated(_) | Target::SimulatedWarm(_) => 1,
            Target::Directory(_) | Target::Place(_) => runs,
        }
    }
}

/// A phase of a benchmark on all targets.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct Row {
    /// The benchmark with its settings.
    pub bench: String,
    /// The name of the phase.
    pub phase: &'static str,
    /// The unit of the rates.
    pub unit: &'static str,
    /// For each target its amounts per second, one for each run.
    pub rates: Vec<Vec<f64>>,
    /// For each target the rounds of these runs: one that failed has none.
    #[serde(skip)]
    pub rounds: Vec<Vec<usize>>,
}

/// Runs the benchmarks on the targets `runs` times. The targets take turns within each benchmark,
/// starting with another one each time, so that changes on the machine affect all of them alike.
///
/// `progress` is told what there is after each run, and of how many runs it was which.
///
/// # Errors
/// The first run that fails.
pub fn run(
    benches: &[Box<dyn Benchmark>],
    targets: &[Target],
    runs: usize,
    clock: Clock<'_>,
    progress: &dyn Fn(&[Row], usize, usize),
) -> Result<Vec<Row>, BenchFailure> {
    let mut rows: Vec<Row> = Vec::new();
    let all = count(benches, targets, runs);
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
                add(&mut rows, &bench.label(), &phases, (place, round), targets.len());
                ended += 1;
                progress(&rows, ended, all);
            }
        }
    }
    Ok(rows)
}

/// The number of runs that [`run`] makes.
pub fn count(benches: &[Box<dyn Benchmark>], targets: &[Target], runs: usize) -> usize {
    benches.len() * targets.iter().map(|target| target.runs(runs)).sum::<usize>()
}

fn add(
    rows: &mut Vec<Row>,
    bench: &str,
    phases: &[Phase],
    (place, round): (usize, usize),
    targets: usize,
) {
    for phase in phases {
        let found = rows.iter().position(|r| r.bench == bench && r.phase == phase.phase);
        let at = found.unwrap_or_else(|| {
            let (bench, unit) = (bench.to_string(), phase.unit);
            let (rates, rounds) = (vec![Vec::new(); targets], vec![Vec::new(); targets]);
            rows.push(Row { bench, phase: phase.phase, unit, rates, rounds });
            rows.len() - 1
        });
        rows[at].rates[place].push(phase.rate());
        rows[at].rounds[place].push(round);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse;
    use twin_lab::Config;

    #[test]
    fn every_benchmark_ends_on_a_simulated_volume_and_on_a_directory() {
        let dir = std::env::temp_dir();
        let targets = [
            Target::Simulated(Box::new(Run::of(Config::parse("lfs:size=256M").unwrap()))),
            Target::Directory(Directory {
                path: dir.clone(),
                cold: super::super::directory::Cold::Never,
                stop: Arc::default(),
                sync: twin_host::fuse::sync_file_system,
            }),
        ];
        let texts = [
            "small:files=150",
            "large:mb=1",
            "sizes:size=12K,total=200K",
            "small:files=50,users=3,warm=yes,kernel=yes",
            "meta:names=60",
            "andrew:users=2",
            "tpcb:transactions=40,accounts=2000,cached=5,group=4,kernel=yes",
        ];
        for text in texts {
            let benches = parse(text).unwrap();
            let rows = run(&benches, &targets, 1, &|| 0.0, &|_, _, _| {}).unwrap();
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
