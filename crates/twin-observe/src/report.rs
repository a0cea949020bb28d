//! What observers have seen: rows, a table, and charts of the distribution over the whole run and of the
//! course by interval.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use twin_report::draw::{Chart, Distribution, Line, Scaled, distribution_of, nth, over_time};
use twin_report::table::{Cell, fixed, micros, seconds};
use twin_report::{Part, Table, cells, value};

use crate::{Observed, Over};

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
    pub(crate) fn of_interval(names: [&str; 4], figures: Over) -> Row {
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

/// The rows of comma-separated values, each with the name of what was observed in `column`.
pub fn named_rows(all: &[Observed], column: &str, name: &str) -> Vec<Value> {
    let named = |row: Row| {
        let mut row = value(row);
        row[column] = name.into();
        row
    };
    rows(all).into_iter().map(named).collect()
}

/// A figure with its unit.
fn cell(unit: &str, figure: Option<f64>) -> Cell {
    Cell::or_dash(figure, |value| match unit {
        "us" => micros(value),
        "bytes" if value >= f64::from(1 << 20) => {
            Cell::new(value, "bytes", format!("{:.1} MiB", value / f64::from(1 << 20)))
        }
        "bytes" => Cell::new(value, "bytes", format!("{:.1} KiB", value / 1024.0)),
        "%" => Cell::new(value, "percent", format!("{value:.1}%")),
        _ => fixed(value, 2),
    })
}

/// These rows as a table, if `until` with the ends of their intervals.
pub fn table(all: &[Row], until: bool) -> Table {
    let ends = ["until"].into_iter().filter(|_| until);
    let figures = ["values", "mean", "p50", "p90", "p99", "largest"];
    let columns = ["observed", "of"].into_iter().chain(ends).chain(figures);
    let row = |one: &Row| {
        let over = &one.figures;
        let mut row = cells![&one.what, &one.of];
        row.extend(until.then(|| match one.over {
            Span::Run => "the end".into(),
            Span::Interval => seconds(over.to_s),
        }));
        // The number of values of a ratio is what it is a share of.
        row.push(Cell::or_dash(over.p50.map(|_| over.count), Cell::from));
        let figures = [over.mean, over.p50, over.p90, over.p99, over.max];
        row.extend(figures.map(|figure| cell(&one.unit, figure)));
        row
    };
    Table::new(columns, if until { 3 } else { 2 }).with(all.iter().map(row))
}

/// What was seen of what is called `name`, for people: a table over the whole run, with `intervals` of
/// these too.
pub fn parts(all: &[Observed], name: &str, intervals: bool) -> Vec<Part> {
    let mut rows = rows(all);
    rows.retain(|row| intervals || row.is_of_run());
    match (all.is_empty(), rows.is_empty()) {
        (true, _) => Vec::new(),
        (false, true) => vec!["Nothing that was observed happened.".into()],
        _ => vec![format!("Observed of {name}:").into(), table(&rows, intervals).into()],
    }
}

/// The charts of a run, two for each kind of values: a line for each part.
pub fn charts(all: &[Observed]) -> Vec<String> {
    let mut drawings = Vec::new();
    for group in by_kind(all).chunk_by(|a, b| (a.observer, a.what) == (b.observer, b.what)) {
        drawings.push(distribution(group));
        drawings.push(course(group));
    }
    drawings.into_iter().flatten().collect()
}

/// The channels in the order of their kinds.
fn by_kind(all: &[Observed]) -> Vec<Observed> {
    let mut sorted = all.to_vec();
    let place = |one: &Observed| {
        all.iter().position(|other| (other.observer, other.what) == (one.observer, one.what))
    };
    sorted.sort_by_key(place);
    sorted
}

fn distribution(group: &[Observed]) -> Option<String> {
    let first = group.first()?;
    let of = |(number, one): (usize, &Observed)| {
        Distribution::of(one.part.as_str(), nth(number), &one.histogram)
    };
    let all: Vec<Distribution> = group.iter().enumerate().map(of).collect();
    if all.iter().all(|one| one.shares.is_empty()) {
        return None;
    }
    let count = group.iter().map(|one| one.whole.count).max().unwrap_or(0);
    let scaled = match first.unit {
        "us" => Scaled::Time,
        "bytes" => Scaled::Bytes,
        unit => Scaled::Count(unit),
    };
    Some(distribution_of(scaled, first.what, &all, count))
}

fn course(group: &[Observed]) -> Option<String> {
    let first = group.first().filter(|one| one.every.len() > 1)?;
    let (scale, unit) = match first.unit {
        "us" => (1e-3, "ms"),
        "bytes" => (1.0 / f64::from(1 << 20), "MiB"),
        unit => (1.0, unit),
    };
    let line = |(number, one): (usize, &Observed)| Line {
        name: one.part.clone(),
        colour: nth(number),
        paper: false,
        points: one
            .every
            .iter()
            .filter_map(|over| Some(((over.from_s + over.to_s) / 7200.0, over.mean? * scale)))
            .collect(),
    };
    let lines: Vec<Line> = group.iter().enumerate().map(line).collect();
    let title = format!("{} by interval", first.what);
    let label = format!("mean, {unit}");
    let chart = Chart { title: &title, y_label: &label, log_y: false, marks: &[] };
    Some(over_time(&chart, &lines, "hours"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use twin_report::{Form, Report};

    #[test]
    fn the_whole_run_comes_first_and_intervals_where_they_are_asked_for() {
        let over = |mean| Over { to_s: 60.0, count: 2, mean, p50: mean, ..Over::default() };
        let part = String::from("d0");
        let whole = over(Some(5.0));
        let every = vec![over(None), whole];
        let (observer, what, unit) = ("x", "wait", "us");
        let one = Observed { observer, what, part, unit, whole, every, histogram: Vec::new() };
        let all = [one];
        let shown = |intervals| {
            let mut report = Report::new("");
            parts(&all, "d", intervals).into_iter().for_each(|part| report.add(part));
            report.write(Form::Terminal(None))
        };
        assert_eq!(shown(false).matches("wait").count(), 1);
        assert_eq!(shown(true).matches("60.0 s").count(), 2);
        let rows = rows(&all);
        let overs: Vec<Span> = rows.iter().map(|row| row.over).collect();
        assert_eq!(overs, [Span::Run, Span::Interval, Span::Interval]);
        let text = serde_json::to_string(&rows[2]).unwrap();
        assert!(text.contains("\"of\":\"d0\",\"unit\":\"us\",\"over\":\"interval\""), "{text}");
        assert_eq!(serde_json::from_str::<Row>(&text).unwrap(), rows[2]);
    }
}
