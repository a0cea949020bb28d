//! Lines over file sizes, over time, and distributions of latencies.

use std::fmt::Write;

use super::axes::{
    BOTTOM, Chart, LEFT, RIGHT, Sample, Scale, TOP, WIDTH, empty, height_in, legend, log_ticks,
    marks, micros_label, open, open_in, size_label, tick_label, ticks, ticks_between, x_axis,
    y_axis, y_axis_of,
};
use super::colour::Colour;
use crate::markup::escape;
use crate::units::figure;

/// A line: name, colour, points.
pub struct Line {
    /// Its name in the legend.
    pub name: String,
    /// Its colour.
    pub colour: Colour,
    /// Drawn as dots and a thin dashed line: the paper's own figures.
    pub paper: bool,
    /// Its points by x.
    pub points: Vec<(f64, f64)>,
}

/// Lines with fewer points show each of them.
const FEW: usize = 20;

/// The smallest and the largest coordinate of points that can be drawn, of x and of y.
fn ranges(all: &[Line], positive: bool) -> Option<((f64, f64), (f64, f64))> {
    let points = || {
        let finite = |p: &&(f64, f64)| p.0.is_finite() && p.1.is_finite();
        all.iter().flat_map(|l| &l.points).filter(finite).filter(|p| !positive || p.1 > 0.0)
    };
    points().next()?;
    let range = |pick: fn(&(f64, f64)) -> f64| {
        let values = || points().map(pick);
        (values().fold(f64::MAX, f64::min), values().fold(f64::MIN, f64::max))
    };
    Some((range(|p| p.0), range(|p| p.1)))
}

/// The lines, their points and the legend.
fn curves(out: &mut String, all: &[Line], x: &Scale, y: &Scale) {
    curves_in(out, WIDTH, all, (x, y));
}

fn curves_in(out: &mut String, width_of_all: f64, all: &[Line], (x, y): (&Scale, &Scale)) {
    for (i, line) in all.iter().enumerate() {
        let can_be_drawn = |p: &&(f64, f64)| p.1.is_finite() && (!y.log || p.1 > 0.0);
        let shown: Vec<_> = line.points.iter().filter(can_be_drawn).collect();
        let path: Vec<String> =
            shown.iter().map(|p| format!("{:.1},{:.1}", x.at(p.0), y.at(p.1))).collect();
        // Where lines coincide, the earlier ones are wider and show at the sides.
        let below = all[i + 1..].iter().filter(|l| !l.paper).count().min(4) as f64;
        let (width, dash) = match line.paper {
            true => (1.2, " stroke-dasharray=\"2 3\"".to_string()),
            false => (1.7 + 0.7 * below, line.colour.dash()),
        };
        let colour = line.colour.name;
        let _ = write!(
            out,
            "<polyline points=\"{}\" class=\"curve s-{colour}\" stroke-width=\"{width:.1}\"{dash}/>",
            path.join(" "),
        );
        for p in shown.iter().filter(|_| shown.len() < FEW) {
            let (fill, r) = match line.paper {
                true => ("hollow".to_string(), 3.2),
                false => (format!("f-{colour}"), 2.6),
            };
            let _ = write!(
                out,
                "<circle cx=\"{:.1}\" cy=\"{:.1}\" r=\"{r}\" class=\"{fill} s-{colour}\">\
                 <title>{}: {}</title></circle>",
                x.at(p.0),
                y.at(p.1),
                escape(&line.name),
                figure(p.1)
            );
        }
    }
    let sample = |l: &Line| if l.paper { Sample::Paper(l.colour) } else { Sample::Line(l.colour) };
    let entries: Vec<_> = all.iter().map(|l| (l.name.as_str(), sample(l))).collect();
    legend(out, width_of_all, &entries);
}

fn height(all: &[Line]) -> f64 {
    height_of(WIDTH, all)
}

fn height_of(width: f64, all: &[Line]) -> f64 {
    let names: Vec<&str> = all.iter().map(|line| line.name.as_str()).collect();
    height_in(width, &names)
}

/// The width of a drawing that takes the whole width of a page.
const WHOLE: f64 = 1080.0;

/// A drawing for the whole width of a page, and the same in the usual width for a narrow screen.
fn whole(draw: impl Fn(f64) -> String) -> String {
    format!("<div class=\"wide\">{}</div><div class=\"narrow\">{}</div>", draw(WHOLE), draw(WIDTH))
}

/// Lines over file sizes in KB (logarithmic).
pub fn lines(chart: &Chart<'_>, all: &[Line], x_label: &str) -> String {
    lines_in(WIDTH, chart, all, x_label)
}

/// The same in the whole width of a page.
pub fn whole_lines(chart: &Chart<'_>, all: &[Line], x_label: &str) -> String {
    whole(|width| lines_in(width, chart, all, x_label))
}

/// The ratio of the largest to the smallest value from which on a fitted axis is logarithmic.
const WIDE_RANGE: f64 = 20.0;

/// Lines and dots in the whole width of a page, over axes that are fitted to the points, and logarithmic where
/// these are far apart.
pub fn fitted(chart: &Chart<'_>, all: &[Line], x_label: &str) -> String {
    whole(|width| fitted_in(width, chart, all, x_label))
}

fn fitted_in(width: f64, chart: &Chart<'_>, all: &[Line], x_label: &str) -> String {
    let Some(((x_low, x_high), (y_low, y_high))) = ranges(all, false) else {
        return empty(chart.title);
    };
    let axis = |low: f64, high: f64| {
        let log = low > 0.0 && high > WIDE_RANGE * low;
        (if log { log_ticks(low, high) } else { ticks_between(low, high) }, log)
    };
    let ((x_ticks, x_log), (y_ticks, y_log)) = (axis(x_low, x_high), axis(y_low, y_high));
    let right = RIGHT + width - WIDTH;
    let ends = (x_ticks[0], x_ticks[x_ticks.len() - 1]);
    let x = Scale::horizontal(ends, x_log, (LEFT + 6.0, right - 8.0));
    let y = Scale { right, ..Scale::vertical(&y_ticks, y_log) };
    let said = |label: &str, log: bool| match log {
        true => format!("{label}, logarithmic"),
        false => label.to_owned(),
    };
    let mut out = open_in(width, chart.title, height_of(width, all));
    y_axis(&mut out, &y, &y_ticks, &said(chart.y_label, y_log));
    marks(&mut out, &y, chart.marks);
    let labelled = x_ticks.iter().map(|&v| (v, tick_label(v))).collect();
    x_axis(&mut out, &x, labelled, &said(x_label, x_log));
    curves_in(&mut out, width, all, (&x, &y));
    out + "</svg>"
}

fn lines_in(width: f64, chart: &Chart<'_>, all: &[Line], x_label: &str) -> String {
    let Some(((x_low, x_high), (y_low, y_high))) = ranges(all, true) else {
        return empty(chart.title);
    };
    if x_high <= x_low {
        return empty(chart.title);
    }
    let mut out = open_in(width, chart.title, height_of(width, all));
    let right = RIGHT + width - WIDTH;
    let y_high = chart.marks.iter().fold(y_high, |high, mark| high.max(mark.0));
    let y_ticks = if chart.log_y { log_ticks(y_low, y_high) } else { ticks(y_high) };
    let y = Scale { right, ..Scale::vertical(&y_ticks, chart.log_y) };
    let x = Scale::horizontal((x_low, x_high), true, (LEFT + 6.0, right - 8.0));
    y_axis(&mut out, &y, &y_ticks, chart.y_label);
    marks(&mut out, &y, chart.marks);
    let mut x_ticks: Vec<f64> = all.iter().flat_map(|l| l.points.iter().map(|p| p.0)).collect();
    x_ticks.sort_by(f64::total_cmp);
    x_ticks.dedup();
    let shown = x_ticks.into_iter().filter(|v| v.log2().fract() == 0.0);
    x_axis(&mut out, &x, shown.map(|v| (v, size_label(v))).collect(), x_label);
    curves_in(&mut out, width, all, (&x, &y));
    out + "</svg>"
}

/// The ratio of the longest line to the shortest from which on time is logarithmic.
const FAR_APART: f64 = 5.0;
/// The most powers of ten of a logarithmic axis.
const DECADES: i32 = 5;

/// Lines over time from 0 on, with any number of points. If some end much earlier than others, time
/// is logarithmic, so that they can be seen.
pub fn over_time(chart: &Chart<'_>, all: &[Line], x_label: &str) -> String {
    let Some(((_, x_high), (y_low, y_high))) = ranges(all, chart.log_y) else {
        return empty(chart.title);
    };
    if x_high <= 0.0 || y_high <= 0.0 {
        return empty(chart.title);
    }
    let mut out = open(chart.title, height(all));
    let y_low = y_low.max(y_high * 10f64.powi(-DECADES));
    let y_ticks = if chart.log_y { log_ticks(y_low, y_high) } else { ticks(y_high) };
    let y = Scale::vertical(&y_ticks, chart.log_y);
    let ends = all.iter().filter_map(|line| line.points.last()).map(|p| p.0);
    let log = x_high > FAR_APART * ends.fold(x_high, f64::min);
    let first = all.iter().flat_map(|line| &line.points).map(|p| p.0);
    let first = first.filter(|x| *x > x_high * 10f64.powi(-DECADES)).fold(x_high, f64::min);
    let low = if log { first } else { 0.0 };
    let x = Scale::horizontal((low, x_high), log, (LEFT, RIGHT - 8.0));
    y_axis(&mut out, &y, &y_ticks, chart.y_label);
    marks(&mut out, &y, chart.marks);
    let x_ticks = if log { log_ticks(low, x_high) } else { ticks(x_high) };
    let x_ticks = x_ticks.into_iter().filter(|&v| low <= v && v <= x_high);
    let label = if log { format!("{x_label}, logarithmic") } else { x_label.to_string() };
    x_axis(&mut out, &x, x_ticks.map(|v| (v, tick_label(v))).collect(), &label);
    let visible = |line: &Line| {
        let points = line.points.iter().copied().filter(|p| p.0 >= low);
        let points = points.filter(|p| !chart.log_y || p.1 >= y.low).collect();
        Line { name: line.name.clone(), colour: line.colour, paper: line.paper, points }
    };
    let all: Vec<Line> = all.iter().map(visible).collect();
    curves(&mut out, &all, &x, &y);
    out + "</svg>"
}

/// A distribution of latencies.
pub struct Distribution {
    /// Its name in the legend.
    pub name: String,
    /// Its colour.
    pub colour: Colour,
    /// For each latency in microseconds the share of operations, from 0 to 1, that took no longer.
    pub shares: Vec<(f64, f64)>,
}

impl Distribution {
    /// The distribution of values of which each has been counted so often, the smallest first.
    pub fn of(name: impl Into<String>, colour: Colour, counts: &[(f64, u64)]) -> Distribution {
        let all: u64 = counts.iter().map(|(_, count)| count).sum();
        let mut so_far = 0;
        let share = |&(value, count): &(f64, u64)| {
            so_far += count;
            (value, so_far as f64 / all.max(1) as f64)
        };
        Distribution { name: name.into(), colour, shares: counts.iter().map(share).collect() }
    }
}

/// What a distribution is of.
#[derive(Clone, Copy)]
pub enum Scaled {
    /// Microseconds that operations take.
    Latency,
    /// Other microseconds.
    Time,
    /// Amounts.
    Bytes,
    /// A number of something, which may be zero.
    Count(&'static str),
}

impl Scaled {
    /// The smallest value that is drawn: a simulated time is a whole nanosecond, or zero.
    fn least(self) -> f64 {
        match self {
            Scaled::Latency | Scaled::Time => 1e-3,
            Scaled::Bytes | Scaled::Count(_) => 1.0,
        }
    }

    fn tick(self, value: f64) -> String {
        match self {
            Scaled::Latency | Scaled::Time => micros_label(value),
            Scaled::Bytes | Scaled::Count(_) => tick_label(value),
        }
    }

    /// The names of the axes.
    fn labels(self) -> (String, &'static str) {
        match self {
            Scaled::Latency => ("latency, logarithmic".into(), "% of operations take no longer"),
            Scaled::Time => ("time, logarithmic".into(), "% are not longer"),
            Scaled::Bytes => ("bytes, logarithmic".into(), "% are not larger"),
            Scaled::Count(unit) => (format!("{unit}, logarithmic"), "% are not larger"),
        }
    }
}

/// The number of nines of a share: 0 for nothing, 1 for 0.9, 2 for 0.99.
fn nines(share: f64, most: f64) -> f64 {
    if share >= 1.0 { most } else { (-(1.0 - share).log10()).clamp(0.0, most) }
}

/// Distributions of latencies over a logarithmic axis. Each further nine of the share takes the same
/// height, so that the rare long operations can be seen. `count` is the number of operations.
pub fn distribution(title: &str, all: &[Distribution], count: u64) -> String {
    distribution_of(Scaled::Latency, title, all, count)
}

/// As [`distribution`], of other values too; `count` is their number.
pub fn distribution_of(scaled: Scaled, title: &str, all: &[Distribution], count: u64) -> String {
    let least = scaled.least();
    let most = (count.max(2) as f64).log10().ceil().clamp(1.0, f64::from(DECADES));
    // A distribution rises in steps, from nothing, and stays at its end.
    let steps = |one: &Distribution, high: f64| {
        let mut points = Vec::new();
        let mut before = 0.0;
        for &(us, share) in &one.shares {
            let (us, now) = (us.max(least), nines(share, most));
            points.extend([(us, before), (us, now)]);
            before = now;
        }
        points.extend((!points.is_empty()).then_some((high, before)));
        Line { name: one.name.clone(), colour: one.colour, paper: false, points }
    };
    let times = || all.iter().flat_map(|one| &one.shares).map(|(us, _)| us.max(least));
    if times().next().is_none() {
        return empty(title);
    }
    let x_ticks = log_ticks(times().fold(f64::MAX, f64::min), times().fold(0.0, f64::max));
    let (low, high) = (x_ticks[0], x_ticks[x_ticks.len() - 1]);
    let lines: Vec<Line> = all.iter().map(|one| steps(one, high)).collect();
    let mut out = open(title, height(&lines));
    let y = Scale::vertical(&[0.0, most], false);
    let x = Scale::horizontal((low, high), true, (LEFT, RIGHT - 8.0));
    let shares =
        [0.0, 0.5, 0.9, 0.99, 0.999, 0.9999, 0.99999].map(|share| (share, nines(share, most)));
    let mut y_ticks: Vec<(f64, String)> = shares
        .into_iter()
        // With many nines there is no room for the half.
        .filter(|(share, at)| *at < most - 0.01 && (*share != 0.5 || most <= 4.0))
        .map(|(share, at)| (at, format!("{}", (share * 1e5).round() / 1e3)))
        .collect();
    y_ticks.push((most, "100".into()));
    let (x_label, y_label) = scaled.labels();
    y_axis_of(&mut out, &y, &y_ticks, y_label);
    for &v in &x_ticks[1..] {
        let at = x.at(v);
        let _ = write!(
            out,
            "<line x1=\"{at:.1}\" x2=\"{at:.1}\" y1=\"{TOP}\" y2=\"{BOTTOM}\" class=\"grid\"/>"
        );
    }
    let labelled = x_ticks.iter().map(|&v| (v, scaled.tick(v)));
    x_axis(&mut out, &x, labelled.collect(), &x_label);
    curves(&mut out, &lines, &x, &y);
    out + "</svg>"
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::draw::{BLUE, RED};

    const CHART: Chart<'_> = Chart { title: "t", y_label: "y", log_y: false, marks: &[] };

    fn line(points: Vec<(f64, f64)>) -> [Line; 1] {
        [Line { name: "a & b".into(), colour: BLUE, paper: false, points }]
    }

    fn points(text: &str) -> Vec<&str> {
        let (_, points) = text.split_once("points=\"").unwrap();
        points.split_once('"').unwrap().0.split(' ').collect()
    }

    #[test]
    fn a_chart_without_figures_is_empty_and_sound() {
        for points in [vec![(1.0, f64::NAN)], vec![]] {
            let line = line(points);
            for text in [lines(&CHART, &line, "x"), over_time(&CHART, &line, "x")] {
                assert!(text.ends_with("</svg>") && text.contains("no figures"), "{text}");
            }
        }
        let none = Distribution { name: "a".into(), colour: BLUE, shares: vec![] };
        assert!(distribution("t", &[none], 0).contains("no figures"));
    }

    #[test]
    fn a_distribution_rises_in_steps_and_shows_each_nine() {
        let shares = vec![(0.0, 0.5), (12.0, 0.99), (80.0, 1.0)];
        let one = Distribution { name: "a & b".into(), colour: RED, shares };
        let text = distribution("t", &[one], 1000);
        let points = points(&text);
        assert_eq!(points.len(), 7, "two for each step, and the end: {points:?}");
        let at = |share: f64| BOTTOM + (TOP - BOTTOM) * share / 3.0;
        let height = |point: &str| point.split_once(',').unwrap().1.parse::<f64>().unwrap();
        let heights: Vec<f64> = points.iter().map(|point| height(point)).collect();
        let expected = [0.0, 0.301, 0.301, 2.0, 2.0, 3.0, 3.0].map(at);
        for (is, should) in heights.iter().zip(expected) {
            assert!((is - should).abs() < 0.1, "{heights:?} {expected:?}");
        }
        for tick in [">0<", ">50<", ">90<", ">99<", ">100<"] {
            assert!(text.contains(tick), "{tick}");
        }
        assert!(text.contains("a &amp; b") && !text.contains("NaN") && !text.contains(">99.9<"));
    }

    #[test]
    fn a_fitted_axis_begins_near_its_points_and_takes_the_whole_width() {
        let text = fitted(&CHART, &line(vec![(95.0, 0.0), (140.0, 0.0)]), "x");
        assert!(text.contains("viewBox=\"0 0 1080") && text.contains("viewBox=\"0 0 440"));
        assert!(text.contains("\"middle\">90<") && !text.contains("\"middle\">0<"), "{text}");
        assert!(
            !text.contains("no figures") && !text.contains("NaN"),
            "losses of nothing are drawn"
        );
        let far = fitted(&CHART, &line(vec![(1.0, 3.0), (100.0, 5.0)]), "x");
        assert!(far.contains("x, logarithmic") && !far.contains("y, logarithmic"), "{far}");
    }

    #[test]
    fn time_is_logarithmic_if_one_line_ends_much_earlier() {
        let both = |end: f64| {
            let line = |end| line(vec![(0.5 * end, 1.0), (end, 2.0)]).into_iter();
            over_time(&CHART, &line(end).chain(line(100.0)).collect::<Vec<_>>(), "s")
        };
        assert!(both(1.0).contains("s, logarithmic") && !both(50.0).contains("logarithmic"));
    }

    #[test]
    fn a_distribution_of_counts_ends_with_all_of_them() {
        let counts = [(1.0, 1), (10.0, 2), (80.0, 1)];
        let shares = Distribution::of("read", RED, &counts).shares;
        assert_eq!(shares, [(1.0, 0.25), (10.0, 0.75), (80.0, 1.0)]);
        assert_eq!(Distribution::of("write", RED, &[]).shares, []);
    }
}
