//! The flush frontier: what a flush policy loses in a power failure, against what it writes.
//!
//! Contract: each point is a run of one workload under one flush policy with one age limit, in which
//! the power fails at many instants (`cuts`). Nothing but the policy makes data durable: the run has
//! no committer, as if it were not behind a mount, but fsync counts. A point is on the frontier if no
//! other point of its workload and its kind of memory both loses less and writes less: policies that count
//! on memory that survives are not compared with those that need none.

mod cuts;
mod ledger;
mod report;

use std::cell::RefCell;
use std::rc::Rc;

use serde::Serialize;
use twin_cache::flush::{FlushSpec, REGISTRY, Survives};
use twin_lab::{
    Figures, Front, Run, SimulateError, Watcher, Workload, model_error, side_by_side, simulate,
    simulate_watched,
};
use twin_rt::{Nanos, Rng};
use twin_settings::{Choice, SettingsError};
use twin_trace::replay::Pace;

use self::cuts::Cuts;

pub use report::report;

/// One point: a workload under a policy with an age limit. The names of the fields are those of the
/// JSON output.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FrontierPoint {
    /// The workload.
    pub workload: String,
    /// The configuration without its flush policy.
    pub config: String,
    /// The flush policy.
    pub flush: &'static str,
    /// Its age limit in seconds; `None` if it has none.
    pub age_s: Option<f64>,
    /// True if it counts on memory that survives a power failure.
    pub memory_survives: bool,
    /// Power failures.
    pub instants: usize,
    /// Bytes that clients had written and recovery did not give back: the mean over the instants.
    pub lost_mean_bytes: f64,
    /// The most of them at an instant.
    pub lost_worst_bytes: u64,
    /// Bytes written to the device.
    pub written_bytes: u64,
    /// Time for which the device was busy.
    pub device_s: f64,
    /// Time from the first operation until everything is written.
    pub finish_s: f64,
    /// Latency of operations: the median.
    pub p50_us: f64,
    /// The 99th percentile.
    pub p99_us: f64,
    /// Operations that failed.
    pub failed: u64,
    /// No other point of the workload with such memory both loses less and writes less.
    pub on_frontier: bool,
}

/// A policy with an age limit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FlushChoice {
    /// The policy.
    pub flush: Choice<FlushSpec>,
    /// Its age limit; `None` for policies that have none.
    pub age_ns: Option<Nanos>,
}

/// The choices that these policies and ages make: a policy without an age limit is one choice.
///
/// # Errors
/// If a policy does not exist; the message lists those that do.
pub fn choices(policies: &[String], ages: &[Nanos]) -> Result<Vec<FlushChoice>, SettingsError> {
    let named: Vec<&str> = match policies.is_empty() {
        true => REGISTRY.names().collect(),
        false => policies.iter().map(String::as_str).collect(),
    };
    let mut all = Vec::new();
    for name in named {
        let flush = Choice::named(&REGISTRY, name)?;
        match flush.age_ns > 0 {
            true => {
                all.extend(ages.iter().map(|age| FlushChoice { flush, age_ns: Some(*age) }));
            }
            false => all.push(FlushChoice { flush, age_ns: None }),
        }
    }
    Ok(all)
}

/// What is simulated for each choice.
#[derive(Clone, Copy)]
pub struct Study<'a> {
    /// The workload.
    pub workload: &'a Workload,
    /// Its name.
    pub name: &'a str,
    /// When its operations are issued.
    pub pace: Pace,
    /// How often the power fails.
    pub instants: usize,
}

/// Runs the workload of a study with each choice, on up to `threads` threads. The flush policy of the run's own
/// configuration does not count.
pub fn frontier(
    run: &Run,
    choices: &[FlushChoice],
    study: Study<'_>,
    threads: usize,
) -> Vec<Result<FrontierPoint, SimulateError>> {
    let mut points = frontier_of(run, choices, study, threads, &|_, _| {});
    mark(points.iter_mut().flatten());
    points
}

/// The same without marks; tells of each point when it has ended, from any thread.
pub fn frontier_of(
    run: &Run,
    choices: &[FlushChoice],
    study: Study<'_>,
    threads: usize,
    ended: &(dyn Fn(FlushChoice, &FrontierPoint) + Sync),
) -> Vec<Result<FrontierPoint, SimulateError>> {
    let at_choice = |at: usize| {
        let point = point(run, choices[at], study)?;
        ended(choices[at], &point);
        Ok(point)
    };
    side_by_side(choices.len(), threads, &at_choice, &|_, _| {})
}

/// Marks the points of one workload that are on the frontier.
pub fn mark<'a>(points: impl Iterator<Item = &'a mut FrontierPoint>) {
    let mut points: Vec<&mut FrontierPoint> = points.collect();
    let both = |p: &FrontierPoint| (p.memory_survives, p.lost_mean_bytes, p.written_bytes);
    let all: Vec<(bool, f64, u64)> = points.iter().map(|point| both(point)).collect();
    for point in &mut points {
        let (memory, lost, written) = both(point);
        let better = |other: &(bool, f64, u64)| {
            let is_like = other.0 == memory && *other != (memory, lost, written);
            is_like && other.1 <= lost && other.2 <= written
        };
        point.on_frontier = !all.iter().any(better);
    }
}

fn point(run: &Run, choice: FlushChoice, study: Study<'_>) -> Result<FrontierPoint, SimulateError> {
    let mut run = Run { crashable: true, ..run.clone() };
    let config = &mut run.config;
    config.front = Front::Nothing;
    config.settings.flush = choice.flush.name.into();
    config.settings.flush_age_ns = choice.age_ns;
    config.settings.durable_within_ns = None;
    config.settings.durable_flush = true;
    let survives = choice.flush.survives;
    let (figures, lost) = cut_often(&run, survives, study)?;
    let mean = lost.iter().sum::<u64>() as f64 / lost.len().max(1) as f64;
    Ok(FrontierPoint {
        workload: study.name.into(),
        config: run.config.name.clone(),
        flush: choice.flush.name,
        age_s: choice.age_ns.map(|ns| ns as f64 / 1e9),
        memory_survives: survives != Survives::Nothing,
        instants: lost.len(),
        lost_mean_bytes: mean,
        lost_worst_bytes: lost.iter().copied().max().unwrap_or(0),
        written_bytes: figures.disk_use.written_bytes,
        device_s: figures.disk_use.busy_s,
        finish_s: figures.finish_s,
        p50_us: figures.latency.p50_us,
        p99_us: figures.latency.p99_us,
        failed: figures.failed,
        on_frontier: false,
    })
}

/// A run with the power failing at instants drawn evenly over its time, and the bytes lost at each.
fn cut_often(
    run: &Run,
    survives: Survives,
    study: Study<'_>,
) -> Result<(Figures, Vec<u64>), SimulateError> {
    // The first run says how long it takes; the second is the same.
    let steps_only_once = Run { steps: None, ..run.clone() };
    let first = simulate(steps_only_once, study.workload, study.pace)?;
    let span_ns = (first.span_s * 1e9) as u64;
    let mut rng = Rng::stream(run.seed, "instants");
    let mut instants: Vec<Nanos> = (0..study.instants).map(|_| rng.below(span_ns.max(1))).collect();
    instants.sort_unstable();
    let cuts = Rc::new(RefCell::new(Cuts::new(run, survives, instants)));
    let watcher: Rc<RefCell<dyn Watcher>> = cuts.clone();
    let figures = simulate_watched(run, study.workload, study.pace, watcher)?;
    let mut cuts = cuts.borrow_mut();
    match (cuts.error.take(), figures) {
        (Some(error), _) => Err(error),
        (None, Some(figures)) => Ok((figures, std::mem::take(&mut cuts.lost))),
        (None, None) => Err(model_error("the run was ended")),
    }
}

#[cfg(test)]
mod tests;
