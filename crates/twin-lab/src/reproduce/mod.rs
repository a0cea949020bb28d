//! The papers' measurements as claims, and their reproduction on modelled hardware.
//!
//! A [`Claim`] is data: who said what, which runs show it, and how their figures are judged. A
//! [`Need`] is a run: a configuration and a benchmark. Claims share runs; [`reproduce`] carries
//! each out once, one a thread. What was fitted stands in [`fitted`], nowhere else.

mod claims;
pub mod clc;
pub mod fit;
pub mod fitted;
mod heuristic;
pub(crate) mod html;
pub mod present;
mod runs;
pub(crate) mod svg;
mod tpcb_cleaner;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use crate::bench::{self, BenchFailure, Phase};
use crate::config::Config;
use crate::history::History;

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
    /// A run.
    pub fn new(config: impl Into<String>, bench: impl Into<String>) -> Need {
        Need { config: config.into(), bench: bench.into() }
    }
}

/// What runs gave.
#[derive(Debug, Default)]
pub struct Results {
    phases: BTreeMap<Need, Vec<Phase>>,
    histories: BTreeMap<Need, History>,
    /// The studies of file servers, if a claim asks for them.
    servers: heuristic::Studies,
}

impl Results {
    /// A phase of a run.
    pub fn phase(&self, need: &Need, phase: &str) -> Option<&Phase> {
        self.phases.get(need)?.iter().find(|p| p.phase == phase)
    }

    /// The course of a run's phase, of those that were [watched](Watched).
    pub fn history(&self, need: &Need) -> Option<&History> {
        self.histories.get(need)
    }

    /// What a phase of a run moved in a second; not a number if it was not run.
    pub fn rate(&self, need: &Need, phase: &str) -> f64 {
        self.phase(need, phase).map_or(f64::NAN, Phase::rate)
    }
}

/// How a figure is held against the paper's.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Expect {
    /// The paper's figure: ours within 15%.
    Figure(f64),
    /// The paper's ratio: ours within 20%.
    Ratio(f64),
    /// The paper gives a range: ours in it, or within 15% of its ends.
    Between(f64, f64),
    /// Ours is at least this (an ordering).
    AtLeast(f64),
    /// Ours is at most this.
    AtMost(f64),
}

impl Expect {
    /// True if our figure is what the paper says.
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

/// A figure with two or three significant digits; whole numbers from 10 on as such.
pub fn figure(x: f64) -> String {
    match x.abs() {
        a if a >= 10.0 && a.fract() == 0.0 => format!("{x:.0}"),
        a if a >= 100.0 => format!("{x:.0}"),
        a if a >= 10.0 => format!("{x:.1}"),
        a if a < 0.1 => {
            let long = format!("{x:.3}");
            long.strip_suffix('0').map_or(long.clone(), str::to_owned)
        }
        _ => format!("{x:.2}"),
    }
}

/// One thing that a claim says.
#[derive(Clone, Debug)]
pub struct Check {
    /// What is looked at.
    pub what: String,
    /// What the paper has.
    pub paper: Expect,
    /// What we have.
    pub ours: f64,
    /// If it does not hold: the reason that was found.
    pub reason: Option<&'static str>,
}

impl Check {
    /// A check without a known reason to fail.
    pub fn new(what: impl Into<String>, paper: Expect, ours: f64) -> Check {
        Check { what: what.into(), paper, ours, reason: None }
    }

    /// Says why it does not hold.
    #[must_use]
    pub fn because(mut self, reason: &'static str) -> Check {
        self.reason = Some(reason);
        self
    }

    /// True if our figure is what the paper says.
    pub fn holds(&self) -> bool {
        self.paper.holds(self.ours)
    }

    /// Our figure, with more digits where the usual ones would show what just misses a bound as
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
    /// Its name.
    pub id: &'static str,
    /// Where it stands.
    pub source: &'static str,
    /// What it says.
    pub says: &'static str,
    /// The runs that show it.
    pub needs: fn() -> Vec<Need>,
    /// What they show.
    pub judge: fn(&Results) -> Vec<Check>,
}

impl Claim {
    /// What it is counted under: its paper, and apart from that what needs the cleaner.
    pub fn paper(&self) -> &'static str {
        match (self.id, self.source.split([' ', ',']).next()) {
            ("tpcb-cleaner", _) => "the same with the cleaner at work",
            (_, Some("CLC")) => "A Comparison of Logging and Clustering, 1994",
            (_, Some("LvC")) => "File System Logging Versus Clustering, 1995",
            _ => "Heuristic Cleaning Algorithms, 1995",
        }
    }
}

/// How many statements of a paper hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tally {
    /// See [`Claim::paper`].
    pub paper: &'static str,
    /// Statements that hold.
    pub held: usize,
    /// All that were judged.
    pub all: usize,
}

/// The statements that hold, by paper, in the order in which the papers come.
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

/// Runs whose course is to be known, each with the phase of it.
pub type Watched = [(Need, &'static str)];

/// Carries out the runs that claims need, each once, on up to `threads` threads.
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

/// The same, with the course of some of the runs.
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
    // The longest first would be best; configurations take turns, which is nearly as good.
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

/// The phases of a run, and the course of one of them.
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

/// A claim with what came out.
pub struct Judged {
    /// The claim.
    pub claim: &'static Claim,
    /// Its checks.
    pub checks: Vec<Check>,
}

/// Carries out and judges claims; `for_page`: with all that [`html()`] shows beside them.
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

/// The claims and what came out, for the terminal.
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
    fn figures_have_the_digits_that_matter() {
        let texts = [0.0, 0.05, 0.053, 0.64, 12.0, 12.34, 456.7].map(figure);
        assert_eq!(texts, ["0.00", "0.05", "0.053", "0.64", "12", "12.3", "457"]);
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
