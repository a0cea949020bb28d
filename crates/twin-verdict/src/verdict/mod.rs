//! The verdict of a comparison: which configuration is the best by a measure, by how much, and why.
//!
//! Contract: a run in which operations failed is not judged, because the missing work took no time.
//! Figures that differ by less than [`NOISE`] are equal, and simulated times whose ratio is below the
//! error of simulation ([`Trust`]) are too close to call: both share a place. With several seeds the medians are compared,
//! and runs are equal too if chance explains their difference: the ranges of the values overlap, and
//! the test of Mann and Whitney does not tell them apart at 5%. Every sentence is made of figures of the runs.
//! Time in which clients paused and time in which they waited are never added up without a word.

mod asides;
mod judgement;
mod measure;
mod ranking;
mod why;

use twin_lab::{Config, Figures};
use twin_report::units::list;

use crate::labels::labels;

pub use judgement::{Judgement, Pauses};
pub(crate) use measure::spread_of;
pub use measure::{MEASURES, Measure, MeasureEntry, measurable, measure_for};
pub use measure::{text_of, value_of};
pub use ranking::{NOISE, rank, rivals};
pub(crate) use ranking::{Order, by_place, order};

use asides::{Run, advice, other_measures, other_orders, pauses, sameness};
use ranking::{Gap, gap, in_order};
use why::{Side, most_waited_for};

/// The verdict on ranked runs, a sentence or more a line; nothing if none can be judged.
pub fn verdict(runs: &[(&Config, &Figures)], how: &Judgement<'_>) -> Option<String> {
    let names: Vec<&str> = runs.iter().map(|(_, figures)| figures.config.as_str()).collect();
    let labels = labels(&names);
    let sorted = in_order(runs.iter().map(|(_, figures)| *figures).enumerate(), how.measure);
    let judged = sorted.into_iter().map(|(at, (value, figures))| {
        let side = Side { label: &labels[at], config: runs[at].0, figures };
        Run { side, value }
    });
    let judged: Vec<Run<'_>> = judged.collect();
    match &judged[..] {
        [] if runs.iter().any(|(_, figures)| figures.failed == 0) => {
            let measure = how.measure;
            Some(format!("No verdict by {}: it {}.", measure.name, measure.needs))
        }
        [] => None,
        [one] => Some(alone(one, how).join("\n")),
        all => Some(of_several(all, how).join("\n")),
    }
}

/// What is said of one run.
fn alone(one: &Run<'_>, how: &Judgement<'_>) -> Vec<String> {
    let value = one.text(how.measure);
    let about = about(how, one);
    let mut lines = vec![format!("{}: {value} by {} ({about}).", one.side.label, how.measure.name)];
    if how.measure.is_time() {
        lines.extend(most_waited_for(one.side.figures));
    }
    lines.extend(pauses(&[*one], how));
    lines
}

/// What is said of two runs or more, the best first.
fn of_several(judged: &[Run<'_>], how: &Judgement<'_>) -> Vec<String> {
    if let Some(same) = sameness(judged).into_iter().find(|(all, _)| all.len() == judged.len()) {
        let value = judged[0].text(how.measure);
        let about = about(how, &judged[0]);
        let mut lines = vec![same.1, format!("By {} ({about}): {value}.", how.measure.name)];
        lines.extend(pauses(&judged[..1], how));
        return lines;
    }
    let wins = |run: &&Run<'_>| run.side.figures.rank == Some(1);
    let winners: Vec<Run<'_>> = judged.iter().filter(wins).copied().collect();
    let are_equal = |other: &Run<'_>| {
        gap(how.measure, how.trust, judged[0].judged(), other.judged()) == Gap::Equal
    };
    let all_equal = winners[1..].iter().all(are_equal);
    let next = judged.iter().find(|run| !wins(run));
    let mut lines = match next {
        None if all_equal => vec![no_winner(&winners, how)],
        None => vec![too_close(&winners, how)],
        Some(next) => vec![winner(&winners, next, how, all_equal)],
    };
    let others = other_measures(&winners, next.is_none(), how);
    let none_helps = others.is_none();
    lines.extend(others);
    let rival = next.unwrap_or(&winners[winners.len() - 1]);
    if next.is_some() || !all_equal {
        lines.extend((how.measure.why)([judged[0].side, rival.side]));
    }
    if next.is_some() {
        lines.extend(other_orders(judged, &winners, how));
    }
    lines.extend(pauses(&[judged[0], *rival], how));
    lines.extend(sameness(judged).into_iter().map(|(_, words)| words));
    if next.is_none() && none_helps {
        lines.push(advice(&winners, how));
    }
    if how.measure.is_time() {
        lines.push(how.trust.words(how.measure.is_latency()));
    }
    lines
}

fn names(runs: &[Run<'_>]) -> String {
    list(&runs.iter().map(|run| run.side.label.to_owned()).collect::<Vec<_>>())
}

fn texts(runs: &[Run<'_>], how: &Judgement<'_>) -> String {
    list(&runs.iter().map(|run| run.text(how.measure)).collect::<Vec<_>>())
}

/// What is measured, and of how many seeds.
fn about(how: &Judgement<'_>, one: &Run<'_>) -> String {
    let measure = how.measure;
    match spread_of(measure.name, one.side.figures) {
        Some(spread) => format!("{}, medians of {} seeds", measure.about, spread.values.len()),
        None => measure.about.into(),
    }
}

/// All are equal.
fn no_winner(runs: &[Run<'_>], how: &Judgement<'_>) -> String {
    let noise = format!("within {:.0}%", NOISE * 100.0);
    let (noise, values) = match spread_of(how.measure.name, runs[0].side.figures) {
        None => (noise, runs[0].text(how.measure)),
        Some(_) => (format!("{noise} or what chance explains"), texts(runs, how)),
    };
    let about = about(how, &runs[0]);
    let name = how.measure.name;
    format!("No winner by {name} ({about}): {} are equal {noise}: {values}.", names(runs))
}

/// All are within the error of simulation, but not equal.
fn too_close(runs: &[Run<'_>], how: &Judgement<'_>) -> String {
    let last = &runs[runs.len() - 1];
    format!(
        "Too close to call by {} ({}): {} are within a factor of {:.2}: {}. Simulated, {} has {:.2} \
         times as much as {}.",
        how.measure.name,
        about(how, &runs[0]),
        names(runs),
        how.measure.error(how.trust),
        texts(runs, how),
        last.side.label,
        last.value / runs[0].value,
        runs[0].side.label,
    )
}

fn winner(winners: &[Run<'_>], next: &Run<'_>, how: &Judgement<'_>, all_equal: bool) -> String {
    let (wins, between, shown) = match winners.len() {
        1 => ("wins", "", 1),
        _ if all_equal => ("win", "", 1),
        all => ("win", ", too close to call between them,", all),
    };
    format!(
        "{} {wins}{between} by {} ({}): {}. Next is {} with {}, {:.2} times as much.",
        names(winners),
        how.measure.name,
        about(how, &winners[0]),
        texts(&winners[..shown], how),
        next.side.label,
        next.text(how.measure),
        next.value / winners[0].value,
    )
}

#[cfg(test)]
mod tests;
