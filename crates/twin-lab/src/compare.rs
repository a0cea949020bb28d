//! Many concurrent runs, one a thread, with the same results as on one thread.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use twin_trace::replay::Pace;

use crate::error::SimulateError;
use crate::figures::Figures;
use crate::history::History;
use crate::run::Run;
use crate::seeds::Seeded;
use crate::simulate::{simulate, simulate_with_history};
use crate::verdict::MeasureEntry;
use crate::workload::Workload;

/// Called when a run ends, with the number of finished runs and of all runs, from any thread.
pub type Progress<'a> = &'a (dyn Fn(usize, usize) + Sync);

/// Simulates a workload in each of these runs (or in the first run of each configuration), on up to `threads`
/// threads. The results are in their order.
pub fn compare<R: Clone + Into<Run> + Sync>(
    runs: &[R],
    workload: &Workload,
    pace: Pace,
    threads: usize,
    progress: Progress<'_>,
) -> Vec<Result<Figures, SimulateError>> {
    let run = |at: usize| simulate(runs[at].clone(), workload, pace);
    side_by_side(runs.len(), threads, &run, progress)
}

/// Called with the number of a run and its result as soon as that run has ended, from any thread. Runs have
/// numbers in the order of configurations, and the seeds of a configuration behind each other.
pub type Found<'a> = &'a (dyn Fn(usize, &(Figures, History)) + Sync);

/// What [`compare_seeds`] runs.
#[derive(Clone, Copy)]
pub struct SeedRuns<'a> {
    /// The workload.
    pub workload: &'a Workload,
    /// When its operations are issued.
    pub pace: Pace,
    /// The number of seeds, at least 1.
    pub seeds: u64,
    /// The measure by which the median run of a configuration is found.
    pub measure: &'a MeasureEntry,
}

/// As [`compare`], with several seeds for each run, and with histories for
/// [`Comparison`](crate::Comparison). See [`Seeded`].
pub fn compare_seeds(
    runs: &[Run],
    how: SeedRuns<'_>,
    threads: usize,
    found: Found<'_>,
) -> Vec<Result<Seeded, SimulateError>> {
    let seeds = how.seeds.max(1);
    let run = |at: usize| {
        let (run, seed) = (&runs[at / seeds as usize], at as u64 % seeds);
        let run = Run { seed, ..run.clone() };
        let result = simulate_with_history(run, &how.workload.with_seed(seed), how.pace);
        result.inspect(|result| found(at, result))
    };
    let results = side_by_side(runs.len() * seeds as usize, threads, &run, &|_, _| {});
    let mut results = results.into_iter();
    let mut of_one = |_: &Run| {
        let all: Vec<_> = results.by_ref().take(seeds as usize).collect();
        let all = all.into_iter().collect::<Result<Vec<_>, _>>()?;
        Ok(Seeded::of(all, how.measure))
    };
    let all = runs.iter().map(&mut of_one);
    all.filter_map(Result::transpose).collect()
}

/// Runs `count` jobs, one a thread, on up to `threads` threads; the results are in their order.
pub fn side_by_side<T: Send>(
    count: usize,
    threads: usize,
    run: &(dyn Fn(usize) -> T + Sync),
    progress: Progress<'_>,
) -> Vec<T> {
    let next = AtomicUsize::new(0);
    let ended = AtomicUsize::new(0);
    let results: Mutex<Vec<Option<_>>> = Mutex::new((0..count).map(|_| None).collect());
    let work = || {
        loop {
            let at = next.fetch_add(1, Ordering::Relaxed);
            if at >= count {
                break;
            }
            let result = run(at);
            results.lock().unwrap_or_else(PoisonError::into_inner)[at] = Some(result);
            progress(ended.fetch_add(1, Ordering::Relaxed) + 1, count);
        }
    };
    std::thread::scope(|scope| {
        for _ in 1..threads.clamp(1, count.max(1)) {
            scope.spawn(work);
        }
        work();
    });
    let results = results.into_inner().unwrap_or_else(PoisonError::into_inner);
    results.into_iter().flatten().collect()
}
