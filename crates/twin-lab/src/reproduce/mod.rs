//! The papers' measurements as claims, and their reproduction on modelled hardware.
//!
//! A [`Claim`] is data: its source, the runs that show it, and how their figures are judged. A
//! [`Need`] is a run: a configuration and a benchmark. Claims share runs; [`reproduce`] runs each
//! once, one a thread. All fitted constants are in [`fitted`].

mod claims;
pub mod clc;
pub mod fit;
pub mod fitted;
mod heuristic;
pub(crate) mod html;
pub mod present;
mod runs;
mod tpcb_cleaner;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use crate::bench::{self, BenchFailure, Phase};
use crate::config::Config;
use crate::history::History;

pub use crate::draw::figure;
pub use claims::claims;
pub use html::{html, page_needs};

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

/// How a figure is compared with the paper's.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Expect {
    /// The paper's figure: ours within 15%.
    Figure(f64),
    /// The paper's ratio: ours within 20%.
    Ratio(f64),
    /// The paper gives a range: ours is in it, or within 15% of its ends.
    Between(f64, f64),
    /// Ours is at least this (an ordering).
    AtLeast(f64),
    /// Ours is at most this.
    AtMost(f64),
}

impl Expect {
    /// Whether our figure agrees with the paper.
    pub fn holds(self, ours: f64) -> bool {
        let within = |paper: f64, part: f64| (ours / paper - 1.0).abs() <= part;
        match self {
            Expect::Figure(paper) => within(paper, 0.15),
            Expect::Ratio(paper) => within(paper, 0.20),
            Expect::Between(low, high) => ours >= low * 0.85 && ours <= high * 1.15,
            Expect::AtLeast(low) => ours >= low,
            Expect::AtMost(high) => ours <= high,
        }
    }
}

impl std::fmt::Display for Expect {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Expect::Figure(paper) | Expect::Ratio(paper) => write!(f, "{}", figure(*paper)),
            Expect::Between(low, high) if low == high => write!(f, "{}", figure(*low)),
            Expect::Between(low, high) => write!(f, "{} to {}", figure(*low), figure(*high)),
            Expect::AtLeast(low) => write!(f, "at least {}", figure(*low)),
            Expect::AtMost(high) => write!(f, "at most {}", figure(*high)),
        }
    }
}

/// One statement of a claim.
#[derive(Clone, Debug)]
pub struct Check {
    /// The measured quantity, in words.
    pub what: String,
    /// The paper's value.
    pub paper: Expect,
    /// Our value.
    pub ours: f64,
    /// If it does not hold: the likely reason.
    pub reason: Option<&'static str>,
}

impl Check {
    /// A check without a known reason to fail.
    pub fn new(what: impl Into<String>, paper: Expect, ours: f64) -> Check {
        Check { what: what.into(), paper, ours, reason: None }
    }

    /// Adds the reason why it does not hold.
    #[must_use]
    pub fn because(mut self, reason: &'static str) -> Check {
        self.reason = Some(reason);
        self
    }

    /// Whether our figure agrees with the paper.
    pub fn holds(&self) -> bool {
        self.paper.holds(self.ours)
    }

    /// Our figure, with more digits where the usual number of digits would print a narrow miss like
    /// the bound.
    pub fn ours_in_words(&self) -> String {
        let short = figure(self.ours);
        match !self.holds() && self.paper.to_string().ends_with(&short) {
            true => format!("{:.4}", self.ours),
            false => short,
        }
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
    /// The heading under which it is counted: its paper, and separately the claims that need the
    /// cleaner.
    pub fn paper(&self) -> &'static str {
        match (self.id, self.source.split([' ', ',']).next()) {
            ("tpcb-cleaner", _) => "the same with the cleaner at work",
            (_, Some("CLC")) => "A Comparison of Logging and Clustering, 1994",
            (_, Some("LvC")) => "File System Logging Versus Clustering, 1995",
            _ => "Heuristic Cleaning Algorithms, 1995",
        }
    }
}

/// The number of statements of a paper that hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tally {
    /// See [`Claim::paper`].
    pub paper: &'static str,
    /// Number of statements that hold.
    pub held: usize,
    /// Number of statements that were judged.
    pub all: usize,
}

/// The tally by paper, in the order in which the papers occur.
pub fn tally(judged: &[Judged]) -> Vec<Tally> {
    let mut tallies: Vec<Tally> = Vec::new();
    for Judged { claim, checks } in judged {
        let paper = claim.paper();
        let at = tallies.iter().position(|t| t.paper == paper).unwrap_or_else(|| {
            tallies.push(Tally { paper, held: 0, all: 0 });
            tallies.len() - 1
        });
        tallies[at].held += checks.iter().filter(|c| c.holds()).count();
        tallies[at].all += checks.len();
    }
    tallies
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
    progress: &(dyn Fn(usize, usize) + Sync),
) -> Result<Results, BenchFailure> {
    run_watched(needs, &[], threads, progress)
}

/// As [`run_all`], and records the history of some of the runs.
///
/// # Errors
/// The first run that fails.
pub fn run_watched(
    mut needs: Vec<Need>,
    watched: &Watched,
    threads: usize,
    progress: &(dyn Fn(usize, usize) + Sync),
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
            let outcome = run_one(need, phase);
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

/// A claim with its results.
pub struct Judged {
    /// The claim.
    pub claim: &'static Claim,
    /// Its checks, with our figures.
    pub checks: Vec<Check>,
}

/// Runs and judges claims; with `for_page` also the runs that [`html()`] shows in addition.
///
/// # Errors
/// The first run that fails.
pub fn reproduce(
    claims: &[&'static Claim],
    for_page: bool,
    threads: usize,
    progress: &(dyn Fn(usize, usize) + Sync),
) -> Result<(Vec<Judged>, Results), BenchFailure> {
    let (extra, watched) = match for_page {
        true => (page_needs(), html::watched()),
        false => (Vec::new(), Vec::new()),
    };
    let needs = claims.iter().flat_map(|c| (c.needs)()).chain(extra).collect();
    let mut results = run_watched(needs, &watched, threads, progress)?;
    if claims.iter().any(|claim| claim.id == heuristic::CLAIM.id) {
        results.servers = heuristic::Studies::run();
    }
    let judged =
        claims.iter().map(|&claim| Judged { claim, checks: (claim.judge)(&results) }).collect();
    Ok((judged, results))
}

/// The claims and their results, for the terminal.
pub fn text(judged: &[Judged]) -> String {
    let mut out = String::new();
    for Judged { claim, checks } in judged {
        let good = checks.iter().filter(|c| c.holds()).count();
        out += &format!("{}: {} of {} hold\n", claim.id, good, checks.len());
        out += &format!("  {} [{}]\n", claim.says, claim.source);
        for check in checks {
            let mark = if check.holds() { "holds" } else { "DOES NOT HOLD" };
            let (paper, ours) = (check.paper.to_string(), check.ours_in_words());
            out += &format!("    {:<68} paper {paper:>14}  ours {ours:>8}  {mark}\n", check.what);
            if let (false, Some(reason)) = (check.holds(), check.reason) {
                out += &format!("      because {reason}\n");
            }
        }
    }
    for Tally { paper, held, all } in tally(judged) {
        out += &format!("{held} of {all} hold: {paper}\n");
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_ratios_and_ranges_are_judged_by_their_own_tolerance() {
        assert!(Expect::Figure(10.0).holds(11.4) && !Expect::Figure(10.0).holds(11.6));
        assert!(Expect::Ratio(10.0).holds(8.1) && !Expect::Ratio(10.0).holds(7.9));
        assert!(Expect::Between(3.0, 4.0).holds(4.5) && !Expect::Between(3.0, 4.0).holds(2.5));
        assert!(!Expect::Figure(10.0).holds(f64::NAN), "what was not run does not hold");
        assert!(!Expect::AtLeast(1.0).holds(f64::NAN));
    }

    #[test]
    fn what_just_misses_a_bound_does_not_look_like_it() {
        let check = |ours| Check::new("c", Expect::AtLeast(0.96), ours).ours_in_words();
        assert_eq!(
            (check(0.9583), check(0.9613), check(0.5)),
            ("0.9583".into(), "0.96".into(), "0.50".into())
        );
    }

    #[test]
    fn statements_are_counted_by_paper() {
        let claim = |id| claims().iter().find(|c| c.id == id).unwrap();
        let check = |ours| Check::new("c", Expect::AtLeast(1.0), ours);
        let judged = [("small-read", 2.0), ("tpcb-cleaner", 0.0), ("read-tuned", 0.0)]
            .map(|(id, ours)| Judged { claim: claim(id), checks: vec![check(ours)] });
        let counts: Vec<_> = tally(&judged).iter().map(|t| (t.held, t.all)).collect();
        assert_eq!(counts, [(1, 2), (0, 1)]);
    }

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
