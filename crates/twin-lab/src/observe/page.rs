//! What observers have seen as charts: the distribution over the whole run, and the course by interval.

use super::Observed;
use twin_report::draw::{Chart, Distribution, Line, Scaled, distribution_of, nth, over_time};
use twin_report::markup::charts as side_by_side;

/// The charts of a run, two for each kind of values: a line for each part.
pub(crate) fn charts(all: &[Observed]) -> String {
    let mut drawings = Vec::new();
    for group in by_kind(all).chunk_by(|a, b| (a.observer, a.what) == (b.observer, b.what)) {
        drawings.push(distribution(group));
        drawings.push(course(group));
    }
    side_by_side(&drawings.into_iter().flatten().collect::<Vec<_>>())
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
        let (mut sum, all) = (0, one.whole.count.max(1) as f64);
        let share = |&(value, count): &(f64, u64)| {
            sum += count;
            (value, sum as f64 / all)
        };
        Distribution {
            name: one.part.clone(),
            colour: nth(number),
            shares: one.histogram.iter().map(share).collect(),
        }
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
