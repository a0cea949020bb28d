//! The charts of a comparison.

use twin_fs::{RegionState, SpaceMap};
use twin_lab::{DiskFigures, History, LogAtEnd, Moment, WAITING};
use twin_report::Part;
use twin_report::draw::{
    self, BLUE, Bar, Chart, Colour, Distribution, GREY, Group, Line, Span, Stack, bars,
    distribution, histogram, map, part, stacks,
};
use twin_report::markup::{charts, escape};
use twin_report::units::duration;

use super::curves::{by_interval, course, cumulative, hits, peaks, throughput};
use super::figures::wait_us;
use crate::seeds::Seeded;
use crate::verdict::{MeasureEntry, spread_of, text_of, value_of};

/// A run with its appearance.
pub(super) struct Shown<'a> {
    pub(super) run: &'a Seeded,
    /// Its name on the page.
    pub(super) label: String,
    pub(super) colour: Colour,
}

impl Shown<'_> {
    /// Its name, and the one on the page if that is shorter.
    pub(super) fn name(&self) -> (Colour, String, String) {
        let name = &self.run.figures.config;
        let remark = match self.label == *name {
            true => String::new(),
            false => format!("shown as {}", self.label),
        };
        (self.colour, name.clone(), remark)
    }

    fn line(&self, points: Vec<(f64, f64)>) -> Line {
        Line { name: self.label.clone(), colour: self.colour, paper: false, points }
    }

    fn bar(&self, value: f64, text: String) -> Bar {
        Bar { text, ..Bar::new(self.label.clone(), self.colour, value) }
    }
}

/// The text with a capital first letter.
fn capital(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map_or_else(String::new, |first| first.to_uppercase().chain(chars).collect())
}

/// A bar of the measure for each run, the best first; those that failed come last.
pub(super) fn measure(measure: &MeasureEntry, shown: &[Shown<'_>]) -> String {
    let mut sorted: Vec<&Shown<'_>> = shown.iter().collect();
    let place = |one: &Shown<'_>| one.run.figures.rank.unwrap_or(usize::MAX);
    let value = |one: &Shown<'_>| value_of(measure, &one.run.figures).unwrap_or(f64::INFINITY);
    sorted.sort_by(|a, b| place(a).cmp(&place(b)).then(value(a).total_cmp(&value(b))));
    let bar = |one: &Shown<'_>| {
        let figures = &one.run.figures;
        let text = text_of(measure, figures).unwrap_or("none".into());
        let failed = figures.failed > 0;
        let text = if failed { format!("failed: {text}") } else { text };
        let range = spread_of(measure.name, figures).map(|spread| (spread.min, spread.max));
        let value = value_of(measure, figures).unwrap_or(f64::NAN);
        Bar { range, failed, ..one.bar(value, text) }
    };
    let bars_of = sorted.into_iter().map(bar).collect();
    let group = Group { title: String::new(), bars: bars_of };
    bars(&capital(measure.about), &[group], Span::Shared)
}

/// The disk's work by part.
pub(super) fn disk_time(shown: &[Shown<'_>]) -> String {
    let stack = |one: &Shown<'_>| {
        let times = one.run.figures.disk_use.time_s.iter();
        let work = times.filter(|(name, _)| *name != WAITING).enumerate();
        let parts: Vec<_> = work.map(|(i, &(name, s))| (name, part(i), s)).collect();
        let sum: f64 = parts.iter().map(|(_, _, s)| s).sum();
        Stack { name: one.label.clone(), text: duration(sum * 1e6), parts }
    };
    let all: Vec<Stack> = shown.iter().map(stack).collect();
    let title = match shown.iter().any(|one| overlaps(&one.run.figures.disk_use)) {
        true => "What disk requests take, also those at the same time, added up",
        false => "What the disk spends its time on",
    };
    stacks(title, &all)
}

/// True if a disk served requests at the same time: parts of their time, added up, are then longer than the
/// time that passed.
fn overlaps(disk: &DiskFigures) -> bool {
    disk.service_s > disk.busy_s * 1.01
}

/// How long requests to the disk wait for each other.
pub(super) fn waits(shown: &[Shown<'_>]) -> String {
    let bar = |one: &Shown<'_>| {
        let us = wait_us(&one.run.figures);
        one.bar(us, duration(us))
    };
    let group = Group { title: String::new(), bars: shown.iter().map(bar).collect() };
    bars("Mean wait of a disk request behind others", &[group], Span::Shared)
}

/// The most distributions that are drawn.
const MOST_VERBS: usize = 6;
/// The share of the time of all operations from which on a kind of operation is drawn.
const WORTH_DRAWING: f64 = 0.01;

/// Kinds of operations that take a share of the time worth drawing in one run at least, by their
/// largest share.
fn verbs_that_matter(shown: &[Shown<'_>]) -> Vec<&'static str> {
    let mut shares: Vec<(&'static str, f64)> = Vec::new();
    for figures in shown.iter().map(|one| &one.run.figures) {
        let time = |of: &twin_lab::Latency| of.count as f64 * of.mean_us;
        let all: f64 = figures.verbs.iter().map(|verb| time(&verb.latency)).sum();
        for verb in &figures.verbs {
            let share = time(&verb.latency) / all.max(1e-9);
            match shares.iter_mut().find(|(name, _)| *name == verb.verb) {
                Some((_, most)) => *most = most.max(share),
                None => shares.push((verb.verb, share)),
            }
        }
    }
    shares.retain(|(_, share)| *share >= WORTH_DRAWING);
    shares.sort_by(|a, b| b.1.total_cmp(&a.1));
    shares.into_iter().take(MOST_VERBS).map(|(name, _)| name).collect()
}

/// The distributions of latencies.
pub(super) fn latencies(shown: &[Shown<'_>]) -> Vec<String> {
    let chart = |verb: &'static str| {
        let mut most = 0;
        let one = |one: &Shown<'_>| {
            let found = one.run.figures.verbs.iter().find(|of| of.verb == verb);
            let counts = found.map_or(&[][..], |of| &of.distribution);
            most = most.max(counts.iter().map(|(_, count)| count).sum::<u64>());
            Distribution::of(one.label.as_str(), one.colour, counts)
        };
        let all: Vec<Distribution> = shown.iter().map(one).collect();
        let operations = if most == 1 { "operation" } else { "operations" };
        distribution(&format!("{verb}: {most} {operations}"), &all, most)
    };
    verbs_that_matter(shown).into_iter().map(chart).collect()
}

/// Seconds of the simulated clock, as the label of an axis.
const SECONDS: &str = "simulated seconds";

/// The ratio of the highest rate to the lowest mean rate of a run from which on rates are drawn on a
/// logarithmic axis.
const FAR_APART: f64 = 30.0;

/// The charts of the runs over time. The cleaner is drawn if it cleaned.
pub(super) fn over_time(shown: &[Shown<'_>]) -> Vec<String> {
    let chart = |title, y_label, log_y, points: &dyn Fn(&History) -> Vec<(f64, f64)>| {
        let chart = Chart { title, y_label, log_y, marks: &[] };
        let lines: Vec<Line> = shown.iter().map(|one| one.line(points(&one.run.history))).collect();
        draw::over_time(&chart, &lines, SECONDS)
    };
    let mib = |moment: &Moment| moment.dirty_bytes as f64 / f64::from(1 << 20);
    let rates = shown.iter().flat_map(|one| throughput(&one.run.history));
    let highest = rates.map(|rate| rate.1).fold(0.0, f64::max);
    let means = shown.iter().map(|one| one.run.figures.ops_per_s);
    let log = highest > FAR_APART * means.fold(highest, f64::min);
    let mut all = vec![
        chart("Throughput", "operations a second", log, &throughput),
        chart("Dirty data in the cache, peaks", "MiB", false, &|history| peaks(history, mib)),
        chart("Look-ups that the cache served", "%", false, &hits),
    ];
    if shown.iter().any(|one| one.run.figures.log.cleaned_segments > 0) {
        let cleaned = |moment: &Moment| moment.log.cleaned_segments as f64;
        all.push(chart("Segments cleaned from the beginning", "", false, &|h| course(h, cleaned)));
        let cost = "bytes to and from the disk for a new byte";
        all.push(chart("Write cost from the beginning", cost, false, &cumulative));
    }
    all
}

/// The volumes at the end: a map for each, and the charts of logs.
pub(super) fn volumes(shown: &[Shown<'_>]) -> Vec<Part> {
    let mut parts = Vec::new();
    for one in shown {
        let history = &one.run.history;
        let mut drawings = Vec::new();
        if !history.space.regions.is_empty() {
            drawings.push(space(&history.space, one.colour));
        }
        drawings.extend(log_charts(history, one.colour));
        if !drawings.is_empty() {
            parts.extend([Part::Heading(Some(one.colour), one.label.clone()), drawings.into()]);
        }
    }
    parts
}

/// The map of a volume.
fn space(space: &SpaceMap, colour: Colour) -> String {
    let region = |region: &twin_fs::Region| draw::Region {
        used: region.used,
        is_open: region.state == RegionState::BeingWritten,
    };
    map(space.kind, &space.regions.iter().map(region).collect::<Vec<_>>(), colour)
}

/// An explanation of the charts of a log.
pub const LOG_EXPLAINED: &str = "<p>The live share of each full segment at the end of the run, and \
    the write cost: bytes to and from the disk for each byte of file contents that users wrote (Rosenblum and \
    Ousterhout 1991). The cost of intervals in which only the cleaner worked is added to the next \
    interval with new data.</p>";

/// The charts of a log, under its name; `None` if there is no log.
pub fn log_course(name: &str, history: &History) -> Option<String> {
    let drawings = log_charts(history, BLUE);
    let has_log = !drawings.is_empty();
    has_log.then(|| format!("<h3>{}</h3>{}", escape(name), charts(&drawings)))
}

fn log_charts(history: &History, colour: Colour) -> Vec<String> {
    let log = history.log.as_ref();
    let Some(log) = log else { return Vec::new() };
    let mut all = vec![utilization(log, colour)];
    let last = history.samples.last();
    if last.is_some_and(|(_, moment)| moment.log.cleaned_segments > 0) {
        all.push(write_cost(history, colour));
    }
    all
}

fn utilization(log: &LogAtEnd, colour: Colour) -> String {
    let full = log.full();
    let (clean, open) = (log.clean, log.open);
    let title = format!("{full} full segments; {clean} clean, {open} being written");
    let chart = Chart { title: &title, y_label: "% of full segments", log_y: false, marks: &[] };
    let share = |&count: &u32| f64::from(count) * 100.0 / f64::from(full.max(1));
    let bins: Vec<f64> = log.bins.iter().map(share).collect();
    histogram(&chart, &bins, colour, "% of the segment that is live")
}

fn write_cost(history: &History, colour: Colour) -> String {
    let line =
        |name: &str, colour, points| Line { name: name.into(), colour, paper: false, points };
    let (each, all) = (by_interval(history), cumulative(history));
    let highest = each.iter().map(|point| point.1).fold(1.0, f64::max);
    let overall = all.last().map_or(1.0, |point| point.1);
    let title = match all.last() {
        Some((_, cost)) => format!("Write cost: {cost:.2} over all"),
        None => "Nothing was written".into(),
    };
    // Short intervals with little new data can cost a hundred times the mean.
    let log_y = highest > 10.0 * overall;
    let y_label = "bytes to and from the disk for a new byte";
    let chart = Chart { title: &title, y_label, log_y, marks: &[] };
    let lines = [line("each interval", GREY, each), line("from the beginning", colour, all)];
    draw::over_time(&chart, &lines, SECONDS)
}
