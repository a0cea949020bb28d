//! The last judgement: the best of the search, the next and the default, on what the search did not see.
//!
//! Contract: the best is the one with the least value in the last round; of those that noise does not tell from it,
//! the one that wrote least. Settings that are of no use to it are taken back. Then three run again on seeds, or on a
//! part of the workload, that no round had. The best is advised if it beats the default there by more than the factor
//! below which a comparison ranks nothing, and by more than chance. If operations fail in it there, the next takes its
//! place.

use serde_json::{Value, json};
use twin_lab::{Commands, Config, Figures, Spread, Workload, median};
use twin_verdict::{MeasureEntry, NOISE, Trust, differ};

use crate::plan::{HeldOut, Plan};
use crate::rest::rest;
use crate::search::{Ended, Judged, Outcome, Question, Search, Tried};
use crate::space::{LeftOut, Point};

/// What a finalist is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// The best of the search.
    Best,
    /// The best that does something else.
    Next,
    /// What a mount without options is.
    Default,
}

impl Role {
    /// In a word.
    pub fn name(self) -> &'static str {
        match self {
            Role::Best => "best",
            Role::Next => "next",
            Role::Default => "default",
        }
    }
}

/// A configuration in the last judgement.
#[derive(Clone, Debug)]
pub struct Finalist {
    /// What it is. The best may be the default.
    pub role: Role,
    /// Its text, without what all configurations share.
    pub text: String,
    /// The configuration.
    pub config: Config,
    /// What makes it real.
    pub commands: Commands,
    /// Its text with all that a mount of it has.
    pub mounted: String,
    /// The value in the last round of the search; `None` if it had none.
    pub searched: Option<f64>,
    /// The values on what the search did not see, by seed; or why there are none.
    pub judged: Result<Spread, String>,
    /// Bytes written to the disk there, the median.
    pub written_bytes: f64,
}

impl Finalist {
    /// The median on what the search did not see.
    pub fn median(&self) -> Option<f64> {
        self.judged.as_ref().ok().map(|spread| spread.median)
    }
}

/// What a search has found.
#[derive(Clone, Debug)]
pub struct Advice {
    /// The name of the workload.
    pub name: String,
    /// What configurations were judged by.
    pub measure: &'static MeasureEntry,
    /// How far simulated times are trusted.
    pub trust: Trust,
    /// The best, the next and the default, as far as they differ.
    pub finalists: Vec<Finalist>,
    /// The number of the finalist to set; `None`: keep the default.
    pub set: Option<usize>,
    /// Others of the last round with their values, the best first.
    pub others: Vec<(String, f64)>,
    /// What the last judgement was made on, in words that follow "on".
    pub judged_on: String,
    /// The number of runs.
    pub runs: usize,
    /// The number of configurations that ran.
    pub configurations: usize,
    /// The number of configurations in the space.
    pub space: f64,
    /// Settings that all share.
    pub fixed: String,
    /// Configurations that are out, and why.
    pub failures: Vec<(String, String)>,
    /// What was not tried, and why.
    pub left_out: Vec<LeftOut>,
    pub(crate) details: Value,
}

impl Advice {
    /// The default.
    pub fn default(&self) -> Option<&Finalist> {
        let is_default = |one: &&Finalist| one.role == Role::Default;
        // The best may be it.
        self.finalists.iter().find(is_default).or(self.finalists.first())
    }

    /// The one that was set against the default: the best, or the next if the best failed. `None` if the default is
    /// the best.
    pub fn challenger(&self) -> Option<&Finalist> {
        self.challenger_at().map(|at| &self.finalists[at])
    }

    /// Its number.
    pub(crate) fn challenger_at(&self) -> Option<usize> {
        challenger(&self.finalists)
    }

    /// The factor below which nothing is ranked.
    pub(crate) fn close(&self) -> f64 {
        self.measure.error(&self.trust).max(1.0 + NOISE)
    }
}

/// Searches, judges, and says what to set. `ended` hears of each run when it has ended, with its number, from any
/// thread.
///
/// # Errors
/// If no configuration can do the workload, or it cannot be read.
pub fn advise(
    question: &Question<'_>,
    ended: &(dyn Fn(usize, Tried) + Sync),
) -> Result<Advice, String> {
    let ended: Ended<'_> = ended;
    let mut search = Search::new(question, ended);
    let (judged, of_default) = search.rounds();
    let Some(best) = best_of(&judged) else {
        let why = search.failures.first().map(|(text, why)| format!(" ({text}: {why})"));
        return Err(format!(
            "none of {} configurations can do this workload{}",
            search.tried.len(),
            why.unwrap_or_default()
        ));
    };
    let best = search.simplified(best);
    let bare = question.space.default_point();
    let is_other = |(point, outcome): &&Judged| *point != best.0 && !outcome.is_same(&best.1);
    let next = judged.iter().find(is_other).filter(|(point, _)| *point != bare);
    let mut points: Vec<(Role, Point, Option<Outcome>)> = Vec::new();
    // If the default is the best, it is there once, as the default.
    let of_best = if best.0 == bare { Role::Default } else { Role::Best };
    points.push((of_best, best.0.clone(), Some(best.1.clone())));
    points.extend(next.map(|(point, outcome)| (Role::Next, point.clone(), Some(outcome.clone()))));
    if best.0 != bare {
        points.push((Role::Default, bare, of_default));
    }
    let finalists = finalists(&mut search, points)?;
    let set = decided(question.measure, &finalists);
    let trust = Trust::of(finalists.iter().map(|one| &one.config));
    let texts: Vec<&String> = finalists.iter().map(|one| &one.text).collect();
    let others = judged.iter().map(|(at, outcome)| (question.space.text(at), outcome.value));
    let others = others.filter(|(text, _)| !texts.contains(&text)).collect();
    let Search { plan, failures, tried, .. } = &search;
    Ok(Advice {
        name: question.name.clone(),
        measure: question.measure,
        trust,
        set,
        others,
        judged_on: judged_on(plan, question),
        runs: search.runs(),
        configurations: tried.len(),
        space: question.space.size(),
        fixed: question.space.fixed().into(),
        failures: failures.clone(),
        left_out: question.space.left_out().to_vec(),
        details: details(plan, question),
        finalists,
    })
}

/// The best of the last round.
fn best_of(judged: &[Judged]) -> Option<Judged> {
    let (_, first) = judged.first()?;
    let limit = first.value * (1.0 + NOISE);
    let near = judged.iter().take_while(|(_, outcome)| outcome.value <= limit);
    near.min_by(|a, b| a.1.written.total_cmp(&b.1.written)).cloned()
}

/// Runs what the search did not see.
fn finalists(
    search: &mut Search<'_>,
    points: Vec<(Role, Point, Option<Outcome>)>,
) -> Result<Vec<Finalist>, String> {
    let Question { space, machine, workload, measure, .. } = search.question;
    let field: Vec<Point> = points.iter().map(|(_, point, _)| point.clone()).collect();
    let round = search.plan.rounds.len();
    let seeds = search.plan.seeds.clone();
    let mut all = search.figures(&field, workload, round, seeds.clone());
    if let HeldOut::Rest(first) = search.plan.held {
        let beginning = Workload::Part(Box::new((*workload).clone()), first);
        let before = search.figures(&field, &beginning, round, seeds);
        all = all.into_iter().zip(before).map(|(whole, before)| both(whole?, before?)).collect();
    }
    let made = points.into_iter().zip(all).map(|((role, point, outcome), runs)| {
        let words = |error: twin_settings::SettingsError| error.to_string();
        let written = |runs: &Vec<Figures>| {
            let all: Vec<f64> = runs.iter().map(|run| run.disk_use.written_bytes as f64).collect();
            median(&all)
        };
        Ok(Finalist {
            role,
            text: space.text(&point),
            config: space.config(&point, machine.as_ref()).map_err(words)?,
            commands: space.commands(&point).map_err(words)?,
            mounted: space.mounted_text(&point).map_err(words)?,
            searched: outcome.map(|outcome| outcome.value),
            written_bytes: runs.as_ref().map_or(0.0, written),
            judged: runs.and_then(|runs| values(measure, &runs)),
        })
    });
    made.collect()
}

/// The rest of each run.
fn both(whole: Vec<Figures>, before: Vec<Figures>) -> Result<Vec<Figures>, String> {
    Ok(whole.iter().zip(&before).map(|(whole, before)| rest(whole, before)).collect())
}

fn values(measure: &'static MeasureEntry, runs: &[Figures]) -> Result<Spread, String> {
    let values: Option<Vec<f64>> = runs.iter().map(|run| measure.value_of(run)).collect();
    let values = values.ok_or_else(|| format!("it has no figure by {}", measure.name))?;
    Ok(Spread::of(measure.name, values))
}

/// The number of the one that is set against the default.
fn challenger(finalists: &[Finalist]) -> Option<usize> {
    if finalists.first().is_some_and(|first| first.role == Role::Default) {
        return None;
    }
    let others = || finalists.iter().enumerate().filter(|(_, one)| one.role != Role::Default);
    let sound = others().find(|(_, one)| one.judged.is_ok());
    sound.or_else(|| others().next()).map(|(at, _)| at)
}

/// The number of the one to set.
fn decided(measure: &MeasureEntry, finalists: &[Finalist]) -> Option<usize> {
    let at = challenger(finalists)?;
    let best = finalists[at].judged.as_ref().ok()?;
    let default = finalists.iter().find(|one| one.role == Role::Default)?;
    let Ok(usual) = &default.judged else { return Some(at) };
    let trust = Trust::of([&finalists[at].config, &default.config]);
    let close = measure.error(&trust).max(1.0 + NOISE);
    let is_apart = usual.median > best.median * close && differ(&usual.values, &best.values);
    is_apart.then_some(at)
}

/// What the last judgement was made on, in words that follow "on".
fn judged_on(plan: &Plan, question: &Question<'_>) -> String {
    let seeds = plan.seeds.end - plan.seeds.start;
    match plan.held {
        HeldOut::Seeds => format!("{seeds} seeds that the search did not use"),
        HeldOut::Rest(first) => format!(
            "the last {} of {} operations, which the search did not see",
            question.operations - first,
            question.operations
        ),
        HeldOut::Nothing => "the operations that the search saw too, because they are few".into(),
    }
}

fn details(plan: &Plan, question: &Question<'_>) -> Value {
    let rounds = plan.rounds.iter().map(|round| {
        json!({ "operations": round.operations, "seeds": round.seeds, "places": round.places })
    });
    json!({
        "budget": question.budget,
        "seed": question.seed,
        "rounds": rounds.collect::<Vec<_>>(),
        "held_out_from": match plan.held {
            HeldOut::Rest(first) => json!(first),
            HeldOut::Seeds | HeldOut::Nothing => Value::Null,
        },
        "held_out_seeds": match plan.held {
            HeldOut::Nothing => json!(0),
            HeldOut::Seeds | HeldOut::Rest(_) => json!(plan.seeds.end - plan.seeds.start),
        },
    })
}
