//! The papers' measurements as claims, and their reproduction on modelled hardware.
//!
//! A [`Claim`] is data: its source, the runs that show it, and how their figures are judged. A
//! [`Need`] is a run: a configuration and a benchmark. Claims share runs; [`reproduce`] runs each
//! once, one a thread. Each [`Check`] says what it is evidence of ([`Kind`]), and a paper's [`Tally`]
//! counts independent checks alone. What was chosen with the answer in view is declared in
//! [`choices`]; models that are wrong on purpose are in [`wrong`].

mod check;
pub mod choices;
mod claims;
pub mod clc;
mod cut_and_paste;
mod file_layout;
pub mod fit;
mod heuristic;
mod html;
pub mod nfs_server;
mod paper;
pub mod present;
mod real_log;
mod report;
mod runs;
mod servers;
mod summary;
mod table_claims;
mod tally;
mod tpcb_cleaner;
mod tpcb_parts;
mod variation;
pub mod worth;
pub mod wrong;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use twin_bench::{self as bench, BenchFailure, Phase};
use twin_lab::{Config, History};
use twin_report::units::figure;

pub use check::{Check, Expect, Kind};
pub use claims::claims;
pub use html::html;
pub use paper::Paper;
pub use report::{json, text};
pub use tally::{Tally, tally};
pub use variation::Variation;

/// Who is told how much is done of how much, from any thread.
pub type Told = Arc<dyn Fn(usize, usize) + Send + Sync>;

/// Steps of progress that a run is worth.
const STEPS: usize = 1000;

/// Tells nobody.
pub fn untold() -> Told {
    Arc::new(|_, _| {})
}

/// Tells of a part that begins behind `before` steps, is `len` steps long, and is one of `all` steps.
fn part_of(told: &Told, (before, len, all): (usize, usize, usize)) -> Told {
    let told = Arc::clone(told);
    Arc::new(move |done, of| told(before + done * len / of.max(1), all))
}

/// A run: a configuration and one benchmark, as texts.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Need {
    /// See [`Config::parse`].
    pub config: String,
    /// See [`bench::parse`].
    pub bench: String,
}

impl Need {
    /// A run of a benchmark on a configuration, both as texts.
    pub fn new(config: impl Into<String>, bench: impl Into<String>) -> Need {
        Need { config: config.into(), bench: bench.into() }
    }
}

/// The results of runs.
#[derive(Debug, Default)]
pub struct Results {
    phases: BTreeMap<Need, Vec<Phase>>,
    histories: BTreeMap<Need, History>,
    /// The studies of file servers, if a claim needs them.
    servers: heuristic::Studies,
    /// The days of the server of 1996, if a claim needs them.
    days: cut_and_paste::Days,
    /// The aged file systems, if a claim needs them.
    layouts: file_layout::Study,
    /// The same requests on the real log, if a claim needs them.
    real_logs: real_log::Pairs,
}

impl Results {
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

/// A claim of a paper.
pub struct Claim {
    /// Its name on the command line.
    pub id: &'static str,
    /// The paper and section.
    pub source: &'static str,
    /// The statement, abridged.
    pub says: &'static str,
    /// The runs that it needs.
    pub needs: fn() -> Vec<Need>,
    /// The checks of their results.
    pub judge: fn(&Results) -> Vec<Check>,
}

impl Claim {
    /// The paper in whose tally it counts.
    pub fn paper(&self) -> Paper {
        match self.source.split([' ', ',']).next() {
            Some("CLC") => Paper::Clc,
            Some("LvC") => Paper::Lvc,
            Some("CP") => Paper::Cp,
            Some("FL") => Paper::Fl,
            _ => Paper::Hc,
        }
    }
}

/// The runs whose history is recorded, each with the phase.
pub type Watched = [(Need, &'static str)];

/// Runs what the claims need, each run once, on up to `threads` threads.
///
/// # Errors
/// The first run that fails.
pub fn run_all(needs: Vec<Need>, threads: usize, told: &Told) -> Result<Results, BenchFailure> {
    run_watched(needs, &[], &Variation::NONE, threads, told)
}

/// As [`run_all`], and records the history of some of the runs. The results stand under the runs
/// that were asked for, also where the variation runs others in their place.
///
/// # Errors
/// The first run that fails.
pub fn run_watched(
    mut needs: Vec<Need>,
    watched: &Watched,
    variation: &Variation,
    threads: usize,
    told: &Told,
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
                    done.phases.insert(need.clone(), phases);
                    done.histories.extend(history.map(|history| (need.clone(), history)));
                }
                (Err(error), Ok(_)) => *all = Err(error),
                (_, Err(_)) => return,
            }
            drop(all);
            told(ended.fetch_add(1, Ordering::Relaxed) + 1, needs.len());
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

/// A claim with its results.
pub struct Judged {
    /// The claim.
    pub claim: &'static Claim,
    /// Its checks, with our figures.
    pub checks: Vec<Check>,
}

/// Runs and judges claims on the models with a variation; with `for_page` also the runs that
/// [`html()`] shows in addition.
///
/// # Errors
/// The first run that fails.
pub fn reproduce(
    claims: &[&'static Claim],
    for_page: bool,
    variation: &Variation,
    threads: usize,
    told: &Told,
) -> Result<(Vec<Judged>, Results), BenchFailure> {
    let (extra, watched) = match for_page {
        true => html::page_needs(claims),
        false => (Vec::new(), Vec::new()),
    };
    let needs: Vec<Need> = claims.iter().flat_map(|c| (c.needs)()).chain(extra).collect();
    let of_days = claims.iter().any(|claim| claim.id == cut_and_paste::CLAIM.id);
    let days = if of_days { STEPS * cut_and_paste::runs() } else { 0 };
    let before = STEPS * needs.len();
    let of_runs = part_of(told, (0, before, before + days));
    let mut results = run_watched(needs, &watched, variation, threads, &of_runs)?;
    if claims.iter().any(|claim| claim.id == heuristic::CLAIM.id) {
        results.servers = heuristic::Studies::run(variation);
    }
    if of_days {
        let of_days = part_of(told, (before, days, before + days));
        results.days = cut_and_paste::Days::run(variation, &of_days);
    }
    if claims.iter().any(|claim| claim.id == file_layout::CLAIM.id) {
        results.layouts = file_layout::Study::run(variation);
    }
    if claims.iter().any(|claim| claim.id == real_log::CLAIM.id) {
        results.real_logs = real_log::Pairs::run();
    }
    Ok((judge(claims, &results), results))
}

/// Judges claims by results.
fn judge(claims: &[&'static Claim], results: &Results) -> Vec<Judged> {
    claims.iter().map(|&claim| Judged { claim, checks: (claim.judge)(results) }).collect()
}

/// Judges claims on the models with a variation, given their results without it: only what the
/// variation changes is run.
fn judge_varied(
    claims: &[&'static Claim],
    unchanged: &Results,
    variation: &Variation,
    threads: usize,
    told: &Told,
) -> Result<Vec<Judged>, BenchFailure> {
    let needs = claims.iter().flat_map(|c| (c.needs)());
    let changed = needs.filter(|need| (variation.run)(need) != *need).collect();
    let mut results = run_watched(changed, &[], variation, threads, told)?;
    for (need, phases) in &unchanged.phases {
        results.phases.entry(need.clone()).or_insert_with(|| phases.clone());
    }
    let of_servers = claims.iter().any(|claim| claim.id == heuristic::CLAIM.id);
    results.servers = match of_servers && variation.changes_servers() {
        true => heuristic::Studies::run(variation),
        false => unchanged.servers.clone(),
    };
    let of_days = claims.iter().any(|claim| claim.id == cut_and_paste::CLAIM.id);
    results.days = match of_days && variation.server.is_some() {
        true => cut_and_paste::Days::run(variation, told),
        false => unchanged.days.clone(),
    };
    let of_layouts = claims.iter().any(|claim| claim.id == file_layout::CLAIM.id);
    results.layouts = match of_layouts && variation.ageing.is_some() {
        true => file_layout::Study::run(variation),
        false => unchanged.layouts.clone(),
    };
    // No variation concerns them.
    results.real_logs = unchanged.real_logs.clone();
    Ok(judge(claims, &results))
}

/// The claims of some papers among these.
fn of_papers(claims: &[&'static Claim], papers: &[Paper]) -> Vec<&'static Claim> {
    claims.iter().copied().filter(|claim| papers.contains(&claim.paper())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_claim_has_a_name_of_its_own_and_runs_that_parse() {
        let mut names: Vec<_> = claims().iter().map(|c| c.id).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), claims().len());
        for need in claims().iter().flat_map(|c| (c.needs)()) {
            Config::parse(&need.config).unwrap();
            assert_eq!(bench::parse(&need.bench).map(|b| b.len()).unwrap_or(0), 1, "{need:?}");
        }
    }
}
