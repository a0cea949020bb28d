//! Many concurrent runs, one a thread, with the same results as on one thread.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use twin_trace::replay::Pace;

use crate::error::SimulateError;
use crate::figures::Figures;
use crate::run::Run;
use crate::simulate::simulate;
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
