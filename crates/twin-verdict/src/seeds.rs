//! Several runs of a configuration that differ in their seeds: running them, the median run and the spread.
//!
//! Contract: seed `n` (from 0) of a generated workload is its own seed plus `n`, and all that draws
//! random numbers in the machine and in the volume draws others for each `n`. Equal seeds give equal
//! figures.

use twin_lab::{
    Figures, History, Run, SimulateError, Spread, Workload, side_by_side, simulate_with_history,
};
use twin_trace::replay::Pace;

use crate::verdict::{MEASURES, MeasureEntry};

/// The most seeds of a comparison.
pub const MOST_SEEDS: u64 = 50;

/// The values of a measure in these runs; `None` if one has none.
fn spread(entry: &MeasureEntry, runs: &[(Figures, History)]) -> Option<Spread> {
    let values: Option<Vec<f64>> =
        runs.iter().map(|(figures, _)| entry.value_of(figures)).collect();
    Some(Spread::of(entry.name, values?))
}

/// The runs of a configuration, one for each seed.
#[derive(Clone, Debug, PartialEq)]
pub struct Seeded {
    /// The figures of the median run by the measure, with the spread of every measure if there are
    /// several runs. If operations failed in any run: those of the first such run.
    pub figures: Figures,
    /// The history of the same run.
    pub history: History,
    /// The figures of each run, by seed; empty if there is only one.
    pub all: Vec<Figures>,
}

impl Seeded {
    /// Finds the median of these runs; `None` if there are none.
    pub fn of(mut runs: Vec<(Figures, History)>, measure: &MeasureEntry) -> Option<Seeded> {
        if runs.len() < 2 {
            let (figures, history) = runs.pop()?;
            return Some(Seeded { figures, history, all: Vec::new() });
        }
        let mut order: Vec<usize> = (0..runs.len()).collect();
        let value = |&i: &usize| measure.value_of(&runs[i].0).unwrap_or(f64::INFINITY);
        order.sort_by(|a, b| value(a).total_cmp(&value(b)));
        let failed = runs.iter().position(|(figures, _)| figures.failed > 0);
        let shown = failed.unwrap_or(order[(order.len() - 1) / 2]);
        let (mut figures, history) = runs[shown].clone();
        figures.spreads = MEASURES.iter().filter_map(|entry| spread(entry, &runs)).collect();
        let all = runs.into_iter().map(|(figures, _)| figures).collect();
        Some(Seeded { figures, history, all })
    }
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

/// As [`compare`](twin_lab::compare()), with several seeds for each run, and with histories for
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

#[cfg(test)]
mod tests {
    use super::*;

    fn run(finish_s: f64) -> (Figures, History) {
        (Figures { finish_s, ..Figures::default() }, History::default())
    }

    #[test]
    fn the_median_run_is_shown_with_the_spread_of_all() {
        let measure = MEASURES.default_entry();
        let seeded = Seeded::of([3.0, 1.0, 2.0].map(run).into(), measure).unwrap();
        assert_eq!((seeded.figures.finish_s, seeded.all.len()), (2.0, 3));
        let spread = &seeded.figures.spreads[0];
        assert_eq!((spread.median, spread.min, spread.max), (2.0, 1.0, 3.0));
        assert_eq!(spread.values, [3.0, 1.0, 2.0], "by seed");
        let even = Seeded::of([3.0, 1.0].map(run).into(), measure).unwrap();
        assert_eq!((even.figures.finish_s, even.figures.spreads[0].median), (1.0, 2.0));
        let one = Seeded::of([3.0].map(run).into(), measure).unwrap();
        assert!(one.figures.spreads.is_empty() && one.all.is_empty());
    }

    #[test]
    fn a_failure_in_any_run_is_shown() {
        let mut runs: Vec<_> = [3.0, 1.0, 2.0].map(run).into();
        runs[0].0.failed = 7;
        assert_eq!(Seeded::of(runs, MEASURES.default_entry()).unwrap().figures.failed, 7);
    }
}
