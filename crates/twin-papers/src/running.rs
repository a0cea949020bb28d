//! The runs behind claims: each once, however many claims, papers and variations want it.

use std::collections::BTreeMap;

use twin_bench::{self as bench, BenchFailure, Phase};
use twin_lab::{Config, History};
use twin_server::ServerFigures;

use crate::cost::{self, Begun, Counted};
use crate::need::Need;
use crate::nfs_server::Outcome;
use crate::progress::Progress;
use crate::results::{OnEnd, Results, Watched};
use crate::studies::aged_log::{self, OldLog};
use crate::studies::file_layout::{self, Old};
use crate::studies::real_log::{self, Half};
use crate::studies::servers;
use crate::studies::{Part, days};
use crate::variation::Variation;
use crate::work::{self, Piece, Share};

/// What is to be run on the models with a variation. The results stand under the runs that are wanted, also
/// where the variation runs others in their place.
pub(crate) struct Wanted<'a> {
    pub(crate) needs: Vec<Need>,
    /// The runs whose history is recorded.
    pub(crate) watched: &'a Watched,
    pub(crate) parts: Vec<Part>,
    pub(crate) variation: &'a Variation,
}

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

/// As [`run_all`], with a variation, and records the history of some of the runs.
///
/// # Errors
/// The first run that fails.
pub fn run_watched(
    (needs, watched): (Vec<Need>, &Watched),
    variation: &Variation,
    threads: usize,
    progress: &Progress,
    on_end: OnEnd<'_>,
) -> Result<Results, BenchFailure> {
    let wanted = Wanted { needs, watched, parts: Vec::new(), variation };
    run_one(wanted, threads, progress, on_end)
}

/// Runs all that is wanted with one variation.
pub(crate) fn run_one(
    wanted: Wanted<'_>,
    threads: usize,
    progress: &Progress,
    on_end: OnEnd<'_>,
) -> Result<Results, BenchFailure> {
    let mut all = run_each(&[wanted], &Results::default(), threads, (progress, on_end));
    all.pop().unwrap_or_else(|| Ok(Results::default()))
}

/// A run as it is carried out, with the phase whose history is recorded.
type Carried = (Need, Option<&'static str>);

/// The phases of a run, and the history of one of them.
type Ran = Result<(Vec<Phase>, Option<History>), BenchFailure>;

/// What a piece of work gives.
enum Done {
    Bench(Ran),
    Server(Option<Outcome>),
    Day(Option<ServerFigures>),
    Layout(Option<Old>),
    RealLog(Half),
    AgedLog(Option<OldLog>),
}

impl Wanted<'_> {
    /// The run that is carried out for one that is wanted.
    fn carried(&self, need: &Need) -> Carried {
        let phase = self.watched.iter().find(|(of, _)| of == need).map(|(_, phase)| *phase);
        ((self.variation.run)(need), phase)
    }

    /// The runs of its studies, in order.
    fn pieces(&self) -> impl Iterator<Item = Piece<'_, Box<Done>>> {
        self.parts.iter().map(|&part| {
            let variation = self.variation;
            Piece::new(cost::part(part), move |share: &Share| Box::new(part.run(variation, share)))
        })
    }
}

impl Part {
    fn run(self, variation: &Variation, share: &Share) -> Done {
        match self {
            Part::Server(at) => Done::Server(servers::run(at, variation, share)),
            Part::Day(at) => Done::Day(days::run(at, variation, share)),
            Part::Layout(at) => Done::Layout(file_layout::run(at, variation, share)),
            Part::RealLog(at) => Done::RealLog(real_log::run(at)),
            Part::AgedLog(at) => Done::AgedLog(aged_log::run(at, share)),
        }
    }

    /// Puts what a run gave into its place.
    fn put(self, done: Done, results: &mut Results) {
        match (self, done) {
            (Part::Server(at), Done::Server(outcome)) => put(&mut results.servers.all, at, outcome),
            (Part::Day(at), Done::Day(figures)) => put(&mut results.days.0, at, figures),
            (Part::Layout(at), Done::Layout(old)) => put(&mut results.layouts.all, at, old),
            (Part::RealLog(at), Done::RealLog(half)) => results.real_logs.put(at, half),
            (Part::AgedLog(at), Done::AgedLog(old)) => put(&mut results.aged_logs.0, at, old),
            _ => {}
        }
    }
}

fn put<T>(all: &mut Vec<Option<T>>, at: usize, value: Option<T>) {
    if all.len() <= at {
        all.resize_with(at + 1, || None);
    }
    all[at] = value;
}

/// Runs all that is wanted, each with its variation. What several want, and what is known of the models
/// without a variation, is not run again; a run that fails costs only those who wanted it.
pub(crate) fn run_each(
    wanted: &[Wanted<'_>],
    known: &Results,
    threads: usize,
    (progress, on_end): (&Progress, OnEnd<'_>),
) -> Vec<Result<Results, BenchFailure>> {
    let mut runs: BTreeMap<Carried, Vec<Need>> = BTreeMap::new();
    for one in wanted {
        for need in &one.needs {
            let run = one.carried(need);
            if run.1.is_some() || !known.phases.contains_key(&run.0) {
                let names = runs.entry(run).or_default();
                if !names.contains(need) {
                    names.push(need.clone());
                }
            }
        }
    }
    let of_bench = |(run, names): (&Carried, &Vec<Need>)| {
        let (run, names) = (run.clone(), names.clone());
        let seconds = cost::bench(&run.0);
        Piece::new(seconds, move |share: &Share| {
            let ran = run_bench(&run, &Begun::of(seconds, share));
            if let Ok((phases, _)) = &ran {
                names.iter().for_each(|need| on_end(need, phases));
            }
            Box::new(Done::Bench(ran))
        })
    };
    let mut pieces: Vec<Piece<'_, Box<Done>>> = runs.iter().map(of_bench).collect();
    pieces.extend(wanted.iter().flat_map(Wanted::pieces));
    let mut done = work::carry_out(&pieces, threads, progress).into_iter();
    let mut ran: BTreeMap<&Carried, Ran> = BTreeMap::new();
    for run in runs.keys() {
        if let Some(Done::Bench(outcome)) = done.next().map(|done| *done) {
            ran.insert(run, outcome);
        }
    }
    let mut studies: Vec<Results> = Vec::new();
    for one in wanted {
        let mut results = Results::default();
        for (part, done) in one.parts.iter().zip(done.by_ref()) {
            part.put(*done, &mut results);
        }
        studies.push(results);
    }
    let whole = |(one, mut results): (&Wanted<'_>, Results)| {
        for need in &one.needs {
            let run = one.carried(need);
            match (ran.get(&run), known.phases.get(&run.0)) {
                (Some(Ok((phases, history))), _) => {
                    results.phases.insert(need.clone(), phases.clone());
                    results.histories.extend(history.clone().map(|of| (need.clone(), of)));
                }
                (Some(Err(error)), _) => return Err(error.clone()),
                (None, Some(phases)) => drop(results.phases.insert(need.clone(), phases.clone())),
                (None, None) => {}
            }
        }
        Ok(results)
    };
    wanted.iter().zip(studies).map(whole).collect()
}

fn run_bench((need, watched): &Carried, begun: &Begun) -> Ran {
    let failure = |e: &dyn std::fmt::Display| BenchFailure(format!("{}: {e}", need.config));
    let config = Config::parse(&need.config).map_err(|e| failure(&e))?;
    let benches = bench::parse(&need.bench).map_err(|e| failure(&e))?;
    let (mut phases, mut course) = (Vec::new(), None);
    for bench in benches {
        let bench = Counted { bench, begun: begun.clone() };
        match watched {
            None => phases.extend(bench::simulated::run(&config, &bench)?),
            Some(phase) => {
                let (of, history) = bench::simulated::run_with_history(&config, &bench, phase)?;
                phases.extend(of);
                course = Some(history);
            }
        }
    }
    Ok((phases, course))
}
