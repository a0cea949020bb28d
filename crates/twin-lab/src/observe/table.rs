//! What observers have seen as a table for the terminal, and as rows.

use serde::Serialize;

use super::{Observed, Over};
use crate::table::in_width;
use crate::units::duration;

/// A line of the CSV output: the figures of a channel over an interval, or over the whole run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row<'a> {
    observer: &'static str,
    what: &'static str,
    of: &'a str,
    unit: &'static str,
    /// `run` or `interval`.
    over: &'static str,
    #[serde(flatten)]
    figures: Over,
}

/// What was seen, a row for the whole run of each channel and a row for each of its intervals.
pub fn rows(all: &[Observed]) -> Vec<Row<'_>> {
    let mut rows = Vec::new();
    for one in all {
        let row = |over, figures: &Over| Row {
            observer: one.observer,
            what: one.what,
            of: &one.part,
            unit: one.unit,
            over,
            figures: *figures,
        };
        rows.push(row("run", &one.whole));
        rows.extend(one.every.iter().map(|over| row("interval", over)));
    }
    rows
}

/// A value with its unit.
pub(super) fn value(unit: &str, value: Option<f64>) -> String {
    let Some(value) = value else { return "-".into() };
    match unit {
        "us" => duration(value),
        "bytes" if value >= f64::from(1 << 20) => format!("{:.1} MiB", value / f64::from(1 << 20)),
        "bytes" => format!("{:.1} KiB", value / 1024.0),
        "%" => format!("{value:.1}%"),
        _ => format!("{value:.2}"),
    }
}

/// What was seen over the whole run, a table; with `intervals` those too.
pub fn table(all: &[Observed], intervals: bool, width: Option<u16>) -> String {
    let mut header = vec!["observed", "of"];
    if intervals {
        header.push("until");
    }
    header.extend(["values", "mean", "p50", "p90", "p99", "largest"]);
    let header: Vec<String> = header.into_iter().map(String::from).collect();
    let row = |one: &Observed, over: &Over, until: String| {
        let mut row = vec![one.what.to_string(), one.part.clone()];
        if intervals {
            row.push(until);
        }
        // The number of values of a ratio is what it is a share of.
        row.push(if over.p50.is_none() { "-".into() } else { over.count.to_string() });
        let figures = [over.mean, over.p50, over.p90, over.p99, over.max];
        row.extend(figures.map(|figure| value(one.unit, figure)));
        row
    };
    let mut rows = Vec::new();
    for one in all {
        rows.push(row(one, &one.whole, "the end".into()));
        let every = one.every.iter().filter(|_| intervals);
        rows.extend(every.map(|over| row(one, over, duration(over.to_s * 1e6))));
    }
    if rows.is_empty() {
        return "Nothing that was observed happened.".into();
    }
    in_width(&header, &rows, if intervals { 3 } else { 2 }, width)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_whole_run_comes_first_and_intervals_where_they_are_asked_for() {
        let over = |mean| Over { to_s: 60.0, count: 2, mean, p50: mean, ..Over::default() };
        let part = String::from("d0");
        let whole = over(Some(5.0));
        let every = vec![over(None), whole];
        let (observer, what, unit) = ("x", "wait", "us");
        let one = Observed { observer, what, part, unit, whole, every, histogram: Vec::new() };
        let all = [one];
        assert_eq!(table(&all, false, None).matches("wait").count(), 1);
        assert_eq!(table(&all, true, None).matches("60.0 s").count(), 2);
        let rows = rows(&all);
        let overs: Vec<&str> = rows.iter().map(|row| row.over).collect();
        assert_eq!((overs, rows[2].of), (vec!["run", "interval", "interval"], "d0"));
    }
}
