//! Many runs side by side: one a thread, the results as on one thread.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use twin_trace::replay::Pace;

use crate::config::Config;
use crate::figures::Figures;
use crate::history::History;
use crate::simulate::{SimulateError, simulate, simulate_with_history};
use crate::workload::Workload;

/// Told of each run that ends: how many have, of how many. Called from any thread.
pub type Progress<'a> = &'a (dyn Fn(usize, usize) + Sync);

/// Ranks runs by throughput, the fastest first. A run in which operations failed has no rank: what
/// it has not done took it no time.
pub fn rank(runs: &mut [&mut Figures]) {
    let mut sound: Vec<&mut &mut Figures> = runs.iter_mut().filter(|f| f.failed == 0).collect();
    sound.sort_by(|a, b| b.ops_per_s.total_cmp(&a.ops_per_s));
    for (place, figures) in sound.into_iter().enumerate() {
        figures.rank = Some(place + 1);
    }
}

/// Simulates a workload on each configuration, on up to `threads` threads. Results come in the
/// order of the configurations.
pub fn compare(
    configs: &[Config],
    workload: &Workload,
    pace: Pace,
    threads: usize,
    clock: &(dyn Fn() -> f64 + Sync),
    progress: Progress<'_>,
) -> Vec<Result<Figures, SimulateError>> {
    let run = |config: &Config| {
        let start = clock();
        let figures = simulate(config, workload, pace)?;
        Ok(Figures { real_s: clock() - start, ..figures })
    };
    side_by_side(configs, threads, &run, progress)
}

/// The same with the course of each run, for [`page`](crate::page()).
pub fn compare_with_histories(
    configs: &[Config],
    workload: &Workload,
    pace: Pace,
    threads: usize,
    clock: &(dyn Fn() -> f64 + Sync),
    progress: Progress<'_>,
) -> Vec<Result<(Figures, History), SimulateError>> {
    let run = |config: &Config| {
        let start = clock();
        let (figures, history) = simulate_with_history(config, workload, pace)?;
        Ok((Figures { real_s: clock() - start, ..figures }, history))
    };
    side_by_side(configs, threads, &run, progress)
}

fn side_by_side<T: Send>(
    configs: &[Config],
    threads: usize,
    run: &(dyn Fn(&Config) -> Result<T, SimulateError> + Sync),
    progress: Progress<'_>,
) -> Vec<Result<T, SimulateError>> {
    let next = AtomicUsize::new(0);
    let ended = AtomicUsize::new(0);
    let results: Mutex<Vec<Option<_>>> = Mutex::new(configs.iter().map(|_| None).collect());
    let work = || {
        while let Some(config) = configs.get(next.fetch_add(1, Ordering::Relaxed)) {
            let place = configs.iter().position(|c| std::ptr::eq(c, config));
            let result = run(config);
            let mut results = results.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(place) = place {
                results[place] = Some(result);
            }
            drop(results);
            progress(ended.fetch_add(1, Ordering::Relaxed) + 1, configs.len());
        }
    };
    std::thread::scope(|scope| {
        for _ in 1..threads.clamp(1, configs.len().max(1)) {
            scope.spawn(work);
        }
        work();
    });
    let results = results.into_inner().unwrap_or_else(PoisonError::into_inner);
    results.into_iter().flatten().collect()
}
