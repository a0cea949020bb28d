//! What is known of a workload besides its runs: what was drawn for a plan beside what it asks, and how near a
//! generated workload that stands in for an unavailable one comes to the published figures of that.

use std::sync::Arc;

use serde::Serialize;
use twin_generate::by_hand::{self, Drawn, Plan};
use twin_lab::{SimulateError, Workload, WorkloadError};
use twin_report::table::{Cell, fixed, micros};
use twin_report::{Part, Table, cells};
use twin_trace::AccessStats;

/// What is worth knowing of a workload: what a plan drew, and what it takes the place of.
///
/// # Errors
/// If the workload cannot be started.
pub fn about_workload(workload: &Workload) -> Result<Vec<Part>, SimulateError> {
    let mut parts = Vec::new();
    if let Workload::ByHand(plan, seed) = workload {
        parts.push(drawn_table(&drawn(plan, *seed).map_err(SimulateError::Workload)?).into());
    }
    parts.extend(stand_in(&fit(workload)?));
    Ok(parts)
}

/// What a workload takes the place of and how well, for the terminal; nothing if it stands for itself.
fn stand_in(all: &[Fit]) -> Vec<Part> {
    let Some(first) = all.first() else { return Vec::new() };
    let words =
        format!("This workload stands in for {}: {}.", first.stands_for, fits_in_words(all));
    vec![words.into(), fits(all).into()]
}

/// A figure of a workload beside the published one.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Fit {
    /// The workload.
    pub workload: String,
    /// What it stands for.
    pub stands_for: &'static str,
    /// What is compared.
    pub what: &'static str,
    /// Its unit.
    pub unit: &'static str,
    /// The smallest and the largest value that is expected.
    pub expected: (f64, f64),
    /// Where the range was published, or where we remember it from, and the value there.
    pub place: &'static str,
    /// It was published, and the publication was at hand; otherwise it is an assumption of ours.
    pub published: bool,
    /// What was drawn.
    pub drawn: f64,
}

impl Fit {
    /// Whether what was drawn lies within the range.
    pub fn holds(&self) -> bool {
        (self.expected.0..=self.expected.1).contains(&self.drawn)
    }
}

/// A generated workload beside what was published of that for which it stands; empty if it stands for
/// nothing but itself.
///
/// # Errors
/// If there is no such workload.
pub fn fit(workload: &Workload) -> Result<Vec<Fit>, SimulateError> {
    let Workload::Generated(text, _) = workload else { return Ok(Vec::new()) };
    let wrong = |error| SimulateError::Workload(WorkloadError::Settings(error));
    let Some(stands_for) = twin_generate::stands_for(text).map_err(wrong)? else {
        return Ok(Vec::new());
    };
    let mut source = workload.start().map_err(SimulateError::Workload)?;
    let stats = AccessStats::of(&mut *source)
        .map_err(|error| SimulateError::Workload(WorkloadError::Trace(error)))?;
    let figure = |published: &twin_generate::Published| Fit {
        workload: text.clone(),
        stands_for: stands_for.what,
        what: published.what,
        unit: published.unit,
        expected: published.range,
        place: published.place,
        published: published.confirmed,
        drawn: (published.of)(&stats),
    };
    Ok((stands_for.published)().iter().map(figure).collect())
}

/// How many of the figures are met: of those that were published, and of ours.
pub fn fits_in_words(all: &[Fit]) -> String {
    let count = |published: bool| {
        let of = || all.iter().filter(move |fit| fit.published == published);
        (of().filter(|fit| fit.holds()).count(), of().count())
    };
    let ((held, known), (ours_held, ours)) = (count(true), count(false));
    format!("{held} of {known} published figures and {ours_held} of {ours} assumed by us are met")
}

/// What was drawn beside what was published or assumed.
pub fn fits(all: &[Fit]) -> Table {
    let columns = ["workload", "figure", "drawn", "expected range", "source", "within"];
    let row = |fit: &Fit| {
        cells![
            &fit.workload,
            fit.what,
            Cell::new(fit.drawn, "", format!("{:.1} {}", fit.drawn, fit.unit)),
            format!("{} to {} {}", fit.expected.0, fit.expected.1, fit.unit),
            match fit.published {
                true => fit.place.to_owned(),
                false => format!("ours (from memory: {})", fit.place),
            },
            if fit.holds() { "yes" } else { "NO" },
        ]
    };
    Table::new(columns, 1).with(all.iter().map(row))
}

/// What is drawn for a plan, beside what it asks.
///
/// # Errors
/// If the plan cannot be started.
fn drawn(plan: &Arc<Plan>, seed: u64) -> Result<Vec<Drawn>, WorkloadError> {
    let (mut source, tally) = by_hand::start(plan, seed).map_err(WorkloadError::Settings)?;
    while source.next_record().map_err(WorkloadError::Trace)?.is_some() {}
    let drawn = tally.borrow().drawn(plan);
    Ok(drawn)
}

/// The same as a table.
fn drawn_table(all: &[Drawn]) -> Table {
    let columns = ["clients", "drawn for", "asked", "mean asked", "mean drawn", "draws"];
    let row = |drawn: &Drawn| {
        let value = |mean: f64| match drawn.what {
            "think" | "pause" => micros(mean / 1e3),
            "size" | "length" => Cell::new(mean, "bytes", format!("{mean:.0} bytes")),
            "popularity" | "burst" | "session" => fixed(mean, 2),
            _ => Cell::new(mean, "share", format!("{:.2}%", mean * 100.0)),
        };
        let (asked, found) = (value(drawn.asked_mean), value(drawn.drawn_mean));
        cells![&drawn.group, drawn.what, &drawn.asked, asked, found, drawn.draws]
    };
    Table::new(columns, 3).with(all.iter().map(row))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = r#"
        [client.readers]
        clients = 3
        files = 200
        operations = 3000
        size = "lognormal:median=4K,sigma=1.0"
        popularity = "zipf:count=200,exponent=0.9"
        think = "exponential:mean=20ms"
        session = { operations = "uniform:from=50,to=150", pause = "exponential:mean=2s" }
        mix = { read-whole = 70, stat = 30 }

        [client.writers]
        files = 20
        operations = 3000
        size = "constant:value=8K"
        length = "empirical:512=1,4K=3"
        burst = "uniform:from=1,to=20"
        think = "constant:value=5ms"
        mix = { write = 4, write-sync = 1, append = 1, create = 2, delete = 2, read = 1 }
    "#;

    #[test]
    fn what_is_drawn_is_what_was_asked_for() {
        let plan = Arc::new(twin_lab::plan("test", TEXT).unwrap());
        let drawn = drawn(&plan, 3).unwrap();
        for figure in drawn.iter().filter(|figure| figure.draws > 400 && figure.what != "burst") {
            let off = figure.drawn_mean / figure.asked_mean - 1.0;
            assert!(off.abs() < 0.15, "{figure:?}");
        }
        let whats: Vec<_> = drawn.iter().filter(|d| d.group == "writers").map(|d| d.what).collect();
        assert!(
            ["size", "length", "burst", "think", "write-sync"].iter().all(|w| whats.contains(w))
        );
        let operations: u64 =
            drawn.iter().filter(|d| d.asked.starts_with("weight")).map(|d| d.draws).sum();
        assert_eq!(operations, 4 * 3000);
        assert!(drawn_table(&drawn).markdown().contains("zipf:count=200"));
    }
}
