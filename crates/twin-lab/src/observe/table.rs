//! What observers have seen as a table for the terminal, and as rows.

use serde::{Deserialize, Serialize};

use super::{Observed, Over};
use twin_report::columns::in_width;
use twin_report::units::duration;

/// A line of the CSV output: the figures of a channel over an interval, or over the whole run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Row {
    observer: String,
    what: String,
    of: String,
    unit: String,
    over: Span,
    #[serde(flatten)]
    figures: Over,
}

/// What a row is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Span {
    Run,
    Interval,
}

impl Row {
    /// A row of an interval: observer, kind of values, part and unit are its names.
    pub(super) fn of_interval(names: [&str; 4], figures: Over) -> Row {
        Row::new(names, Span::Interval, figures)
    }

    fn new(names: [&str; 4], over: Span, figures: Over) -> Row {
        let [observer, what, of, unit] = names.map(String::from);
        Row { observer, what, of, unit, over, figures }
    }

    /// True if it is of the whole run.
    pub fn is_of_run(&self) -> bool {
        self.over == Span::Run
    }

    /// When it ends, in seconds since the beginning of all.
    pub fn to_s(&self) -> f64 {
        self.figures.to_s
    }

    /// When it begins, in seconds since the beginning of all.
    pub fn from_s(&self) -> f64 {
        self.figures.from_s
    }
}

/// What was seen, a row for the whole run of each channel and a row for each of its intervals.
pub fn rows(all: &[Observed]) -> Vec<Row> {
    let mut rows = Vec::new();
    for one in all {
        let names = [one.observer, one.what, &one.part, one.unit];
        rows.push(Row::new(names, Span::Run, one.whole));
        rows.extend(one.every.iter().map(|over| Row::of_interval(names, *over)));
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
    let mut rows = rows(all);
    rows.retain(|row| intervals || row.is_of_run());
    table_of(&rows, intervals, width)
}

/// These rows as a table, if `until` with the ends of their intervals.
pub fn table_of(all: &[Row], until: bool, width: Option<u16>) -> String {
    let mut header = vec!["observed", "of"];
    if until {
        header.push("until");
    }
    header.extend(["values", "mean", "p50", "p90", "p99", "largest"]);
    let header: Vec<String> = header.into_iter().map(String::from).collect();
    let row = |one: &Row| {
        let over = &one.figures;
        let mut row = vec![one.what.clone(), one.of.clone()];
        if until {
            row.push(match one.over {
                Span::Run => "the end".into(),
                Span::Interval => duration(over.to_s * 1e6),
            });
        }
        // The number of values of a ratio is what it is a share of.
        row.push(if over.p50.is_none() { "-".into() } else { over.count.to_string() });
        let figures = [over.mean, over.p50, over.p90, over.p99, over.max];
        row.extend(figures.map(|figure| value(&one.unit, figure)));
        row
    };
    let rows: Vec<Vec<String>> = all.iter().map(row).collect();
    if rows.is_empty() {
        return "Nothing that was observed happened.".into();
    }
    in_width(&header, &rows, if until { 3 } else { 2 }, width)
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
        let overs: Vec<Span> = rows.iter().map(|row| row.over).collect();
        assert_eq!(overs, [Span::Run, Span::Interval, Span::Interval]);
        let text = serde_json::to_string(&rows[2]).unwrap();
        assert!(text.contains("\"of\":\"d0\",\"unit\":\"us\",\"over\":\"interval\""), "{text}");
        assert_eq!(serde_json::from_str::<Row>(&text).unwrap(), rows[2]);
    }
}
