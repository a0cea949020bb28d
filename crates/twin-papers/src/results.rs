//! The results of runs, and the runs themselves: each once, one a thread.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use twin_bench::{self as bench, BenchFailure, Phase};
use twin_lab::{Config, History};

use crate::need::Need;
use crate::progress::Progress;
use crate::studies::days::Days;
use crate::studies::file_layout::Study;
use crate::studies::real_log::Pairs;
use crate::studies::servers::Studies;
use crate::variation::Variation;

/// The results of runs.
#[derive(Clone, Debug, Default)]
pub struct Results {
    pub(crate) phases: BTreeMap<Need, Vec<Phase>>,
    pub(crate) histories: BTreeMap<Need, History>,
    /// The studies of file servers, if a claim needs them.
    pub(crate) servers: Studies,
    /// The days of the server of 1996, if a claim needs them.
    pub(crate) days: Days,
    /// The aged file systems, if a claim needs them.
    pub(crate) layouts: Study,
    /// The same requests on the real log, if a claim needs them.
    pub(crate) real_logs: Pairs,
}

/// Who is told of a run that has ended, from any thread.
pub type OnEnd<'a> = &'a (dyn Fn(&Need, &[Phase]) + Sync);

impl Results {
    /// Results of these runs alone.
    pub fn of(phases: BTreeMap<Need, Vec<Phase>>) -> Results {
        Results { phases, ..Results::default() }
    }

    /// A phase of a run.
    pub fn phase(&self, need: &Need, phase: &str) -> Option<&Phase> {
        self.phases.get(need)?.iter().find(|p| p.phase == phase)
    }

    /// The history of a run's phase, if it was [watched](Watched).
    pub fn history(&self, need: &Need) -> Option<&History> {
        self.histories.get(need)
    }

    /// The rate of a phase; not a number if it was not run.
    pub fn rate(&self, need: &Need, phase: &str) -> f64 {
        self.phase(need, phase).map_or(f64::NAN, Phase::rate)
    }
}

/// The runs whose history is recorded, each with the phase.
pub type Watched = [(Need, &'static str)];

/// Runs what the claims need, each run once, on up to `threads` threads.
///
/// # Errors
/// The first run that fails.
pub fn run_all(
    needs: Vec<Need>,
    threads: usize,
    progress: &Progress,
) -> Result<Results, BenchFailure> {
    run_watched((needs, &[]), &Variation::NONE, threads, progress, &|_, _| {})
}

/// As [`run_all`], and records the history of some of the runs. The results stand under the runs
/// that were asked for, also where the variation runs others in their place.
///
/// # Errors
/// The first run that fails.
pub fn run_watched(
    (mut needs, watched): (Vec<Need>, &Watched),
    variation: &Variation,
    threads: usize,
    progress: &Progress,
    on_end: OnEnd<'_>,
) -> Result<Results, BenchFailure> {
    needs.sort();
    needs.dedup();
    // Starting with the longest would be best; the configurations take turns, which is nearly as
    // good.
    let next = AtomicUsize::new(0);
    let ended = AtomicUsize::new(0);
    let results = Mutex::new(Ok(Results::default()));
    let work = || {
        while let Some(need) = needs.get(next.fetch_add(1, Ordering::Relaxed)) {
            let phase = watched.iter().find(|(of, _)| of == need).map(|(_, phase)| *phase);
            let outcome = run_one(&(variation.run)(need), phase);
            let mut all = results.lock().unwrap_or_else(PoisonError::into_inner);
            match (outcome, &mut *all) {
                (Ok((phases, history)), Ok(done)) => {
                    on_end(need, &phases);
                    done.phases.insert(need.clone(), phases);
                    done.histories.extend(history.map(|history| (need.clone(), history)));
                }
                (Err(error), Ok(_)) => *all = Err(error),
                (_, Err(_)) => return,
            }
            drop(all);
            progress(ended.fetch_add(1, Ordering::Relaxed) + 1, needs.len());
        }
    };
    std::thread::scope(|scope| {
        for _ in 1..threads.clamp(1, needs.len().max(1)) {
            scope.spawn(work);
        }
        work();
    });
    results.into_inner().unwrap_or_else(PoisonError::into_inner)
}

/// The phases of a run, and the history of one of them.
type Outcome = (Vec<Phase>, Option<History>);

fn run_one(need: &Need, watched: Option<&'static str>) -> Result<Outcome, BenchFailure> {
    let failure = |e: &dyn std::fmt::Display| BenchFailure(format!("{}: {e}", need.config));
    let config = Config::parse(&need.config).map_err(|e| failure(&e))?;
    let benches = bench::parse(&need.bench).map_err(|e| failure(&e))?;
    let (mut phases, mut course) = (Vec::new(), None);
    for bench in benches {
        match watched {
            None => phases.extend(bench::simulated::run(&config, &*bench)?),
            Some(phase) => {
                let (of, history) = bench::simulated::run_with_history(&config, &*bench, phase)?;
                phases.extend(of);
                course = Some(history);
            }
        }
    }
    Ok((phases, course))
}
