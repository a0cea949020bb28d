//! Charts as inline SVG: lines over file sizes or time, bars, and histograms of shares.

use std::fmt::Write;

/// Colours that people with colour blindness tell apart (Okabe and Ito). Logs are blue, clustered
/// file systems are not.
pub(crate) const BLUE: &str = "#0072b2";
pub(crate) const SKY: &str = "#56b4e9";
pub(crate) const RED: &str = "#d55e00";
pub(crate) const YELLOW: &str = "#e69f00";
pub(crate) const GREEN: &str = "#009e73";
pub(crate) const PINK: &str = "#cc79a7";
pub(crate) const GREY: &str = "#8a94a6";

/// A line: name, colour, dashed, points.
pub(crate) struct Line {
    pub(crate) name: String,
    pub(crate) colour: &'static str,
    /// Drawn as dots and a thin dashed line: the paper's own figures.
    pub(crate) paper: bool,
    pub(crate) points: Vec<(f64, f64)>,
}

/// What a chart shows.
pub(crate) struct Chart<'a> {
    pub(crate) title: &'a str,
    pub(crate) y_label: &'a str,
    pub(crate) log_y: bool,
    /// Values that the paper or the hardware gives, drawn across: value and label.
    pub(crate) marks: &'a [(f64, &'a str)],
}

const WIDTH: f64 = 620.0;
const HEIGHT: f64 = 330.0;
const LEFT: f64 = 58.0;
const RIGHT: f64 = 14.0;
const TOP: f64 = 40.0;
const BOTTOM: f64 = 64.0;

fn open(title: &str, height: f64) -> String {
    format!(
        "<svg viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" aria-label=\"{title}\">\
         <text x=\"{LEFT}\" y=\"20\" class=\"title\">{title}</text>"
    )
}

fn size_label(kb: f64) -> String {
    if kb >= 1024.0 { format!("{}M", kb / 1024.0) } else { format!("{kb}K") }
}

fn tick_label(y: f64) -> String {
    match y {
        y if y >= 10.0 || y == y.round() => format!("{y:.0}"),
        y if y >= 0.1 => format!("{y:.1}"),
        y => format!("{y:.2}"),
    }
}

/// Round steps up to a value.
fn ticks(top: f64) -> Vec<f64> {
    let raw = top / 5.0;
    let unit = 10f64.powf(raw.log10().floor());
    let step = [1.0, 2.0, 2.5, 5.0, 10.0].map(|m| m * unit).into_iter().find(|&s| s >= raw);
    let step = step.unwrap_or(unit * 10.0);
    (0..=(top / step).ceil() as u32).map(|i| f64::from(i) * step).collect()
}

fn log_ticks(low: f64, high: f64) -> Vec<f64> {
    let (from, to) = (low.log10().floor() as i32, high.log10().ceil() as i32);
    (from..=to).map(|e| 10f64.powi(e)).collect()
}

/// Where values of an axis lie.
struct Scale {
    low: f64,
    high: f64,
    log: bool,
    from: f64,
    to: f64,
}

impl Scale {
    fn at(&self, v: f64) -> f64 {
        let part = match self.log {
            true => (v / self.low).ln() / (self.high / self.low).ln(),
            false => (v - self.low) / (self.high - self.low),
        };
        self.from + part * (self.to - self.from)
    }
}

fn y_axis(out: &mut String, y: &Scale, all: &[f64], label: &str) {
    for &v in all {
        let at = y.at(v);
        let _ = write!(
            out,
            "<line x1=\"{LEFT}\" x2=\"{:.0}\" y1=\"{at:.1}\" y2=\"{at:.1}\" class=\"grid\"/>\
             <text x=\"{:.0}\" y=\"{:.1}\" class=\"tick\" text-anchor=\"end\">{}</text>",
            WIDTH - RIGHT,
            LEFT - 6.0,
            at + 4.0,
            tick_label(v)
        );
    }
    let middle = (y.from + y.to) / 2.0;
    let _ = write!(
        out,
        "<text transform=\"translate(14 {middle:.0}) rotate(-90)\" class=\"axis\" \
         text-anchor=\"middle\">{label}</text>"
    );
}

fn x_axis(out: &mut String, x: &Scale, all: impl Iterator<Item = (f64, String)>, label: &str) {
    for (v, text) in all {
        let _ = write!(
            out,
            "<text x=\"{:.1}\" y=\"{:.0}\" class=\"tick\" text-anchor=\"middle\">{text}</text>",
            x.at(v),
            HEIGHT - BOTTOM + 16.0
        );
    }
    let _ = write!(
        out,
        "<text x=\"{:.0}\" y=\"{:.0}\" class=\"axis\" text-anchor=\"middle\">{label}</text>",
        (LEFT + WIDTH - RIGHT) / 2.0,
        HEIGHT - BOTTOM + 32.0
    );
}

/// Lines across the chart with a label at their right end.
fn marks(out: &mut String, y: &Scale, all: &[(f64, &str)]) {
    for &(v, label) in all {
        let at = y.at(v);
        let _ = write!(
            out,
            "<line x1=\"{LEFT}\" x2=\"{:.0}\" y1=\"{at:.1}\" y2=\"{at:.1}\" class=\"mark\"/>\
             <text x=\"{:.0}\" y=\"{:.1}\" class=\"small\">{label}</text>",
            WIDTH - RIGHT,
            LEFT + 6.0,
            at - 3.0
        );
    }
}

fn legend(out: &mut String, names: &[(String, &str, bool)], y: f64) {
    let mut x = LEFT;
    for (name, colour, paper) in names {
        let dash = if *paper { " stroke-dasharray=\"2 3\"" } else { "" };
        let _ = write!(
            out,
            "<line x1=\"{x:.0}\" x2=\"{:.0}\" y1=\"{:.0}\" y2=\"{:.0}\" stroke=\"{colour}\" \
             stroke-width=\"3\"{dash}/><text x=\"{:.0}\" y=\"{y:.0}\" class=\"tick\">{name}</text>",
            x + 18.0,
            y - 4.0,
            y - 4.0,
            x + 23.0
        );
        x += 34.0 + 6.6 * name.chars().count() as f64;
    }
}

/// Lines over file sizes in KB (logarithmic).
pub(crate) fn lines(chart: &Chart<'_>, all: &[Line], x_label: &str, log_x: bool) -> String {
    let points = || all.iter().flat_map(|l| &l.points).filter(|p| p.1.is_finite() && p.1 > 0.0);
    let fold = |f: fn(f64, f64) -> f64, start, pick: fn(&(f64, f64)) -> f64| {
        points().map(pick).fold(start, f)
    };
    let (x_low, x_high) = (fold(f64::min, f64::MAX, |p| p.0), fold(f64::max, 0.0, |p| p.0));
    let (y_low, y_high) = (fold(f64::min, f64::MAX, |p| p.1), fold(f64::max, 0.0, |p| p.1));
    let mut out = open(chart.title, HEIGHT);
    if x_high <= x_low || y_high <= 0.0 {
        return out + "</svg>";
    }
    let y_high = chart.marks.iter().fold(y_high, |high, mark| high.max(mark.0));
    let y_ticks = if chart.log_y { log_ticks(y_low, y_high) } else { ticks(y_high) };
    let (first, last) = (y_ticks[0], y_ticks[y_ticks.len() - 1]);
    let y = Scale { low: first, high: last, log: chart.log_y, from: HEIGHT - BOTTOM, to: TOP };
    let x =
        Scale { low: x_low, high: x_high, log: log_x, from: LEFT + 6.0, to: WIDTH - RIGHT - 8.0 };
    y_axis(&mut out, &y, &y_ticks, chart.y_label);
    marks(&mut out, &y, chart.marks);
    let mut x_ticks: Vec<f64> = all.iter().flat_map(|l| l.points.iter().map(|p| p.0)).collect();
    x_ticks.sort_by(f64::total_cmp);
    x_ticks.dedup();
    let shown = x_ticks.into_iter().filter(|v| !log_x || v.log2().fract() == 0.0);
    let labelled = shown.map(|v| (v, if log_x { size_label(v) } else { tick_label(v) }));
    x_axis(&mut out, &x, labelled, x_label);
    for (i, line) in all.iter().enumerate() {
        let shown: Vec<_> = line.points.iter().filter(|p| p.1.is_finite() && p.1 > 0.0).collect();
        let path: Vec<String> =
            shown.iter().map(|p| format!("{:.1},{:.1}", x.at(p.0), y.at(p.1))).collect();
        // Where lines lie on each other the earlier show at the sides.
        let below = all[i + 1..].iter().filter(|l| !l.paper).count() as f64;
        let (width, dash) =
            if line.paper { (1.2, " stroke-dasharray=\"2 3\"") } else { (1.8 + 0.8 * below, "") };
        let _ = write!(
            out,
            "<polyline points=\"{}\" fill=\"none\" stroke=\"{}\" stroke-width=\"{width}\"{dash}/>",
            path.join(" "),
            line.colour
        );
        for p in shown {
            let (fill, r) = if line.paper { ("#fff", 3.2) } else { (line.colour, 2.6) };
            let _ = write!(
                out,
                "<circle cx=\"{:.1}\" cy=\"{:.1}\" r=\"{r}\" fill=\"{fill}\" stroke=\"{}\">\
                 <title>{}: {}</title></circle>",
                x.at(p.0),
                y.at(p.1),
                line.colour,
                line.name,
                super::figure(p.1)
            );
        }
    }
    let names: Vec<_> = all.iter().map(|l| (l.name.clone(), l.colour, l.paper)).collect();
    legend(&mut out, &names, HEIGHT - 10.0);
    out + "</svg>"
}

/// Lines over time from 0 on, for any number of points.
pub(crate) fn over_time(chart: &Chart<'_>, all: &[Line], x_label: &str) -> String {
    let points = || all.iter().flat_map(|line| &line.points);
    let high = |pick: fn(&(f64, f64)) -> f64| points().map(pick).fold(0.0, f64::max);
    let (x_high, y_high) = (high(|p| p.0), high(|p| p.1));
    let mut out = open(chart.title, HEIGHT);
    if x_high <= 0.0 || y_high <= 0.0 {
        return out + "</svg>";
    }
    let y_low = points().map(|p| p.1).fold(y_high, f64::min);
    let y_ticks = if chart.log_y { log_ticks(y_low, y_high) } else { ticks(y_high) };
    let (first, last) = (y_ticks[0], y_ticks[y_ticks.len() - 1]);
    let y = Scale { low: first, high: last, log: chart.log_y, from: HEIGHT - BOTTOM, to: TOP };
    let x = Scale { low: 0.0, high: x_high, log: false, from: LEFT, to: WIDTH - RIGHT - 8.0 };
    y_axis(&mut out, &y, &y_ticks, chart.y_label);
    marks(&mut out, &y, chart.marks);
    let x_ticks = ticks(x_high).into_iter().filter(|&v| v <= x_high);
    x_axis(&mut out, &x, x_ticks.map(|v| (v, tick_label(v))), x_label);
    for line in all {
        let at = |p: &(f64, f64)| (x.at(p.0), y.at(p.1));
        let path: Vec<String> =
            line.points.iter().map(at).map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
        let _ = write!(
            out,
            "<polyline points=\"{}\" fill=\"none\" stroke=\"{}\" stroke-width=\"1.6\"/>",
            path.join(" "),
            line.colour
        );
        // A line of one point is not seen.
        for (x, y) in line.points.iter().map(at).filter(|_| line.points.len() < 20) {
            let colour = line.colour;
            let _ =
                write!(out, "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"2.6\" fill=\"{colour}\"/>");
        }
    }
    let names: Vec<_> = all.iter().map(|l| (l.name.clone(), l.colour, l.paper)).collect();
    legend(&mut out, &names, HEIGHT - 10.0);
    out + "</svg>"
}

/// How much falls into each of equal parts of 0 to 1, in percent.
pub(crate) fn histogram(
    chart: &Chart<'_>,
    percent: &[f64],
    colour: &'static str,
    x_label: &str,
) -> String {
    let mut out = open(chart.title, HEIGHT);
    let high = percent.iter().copied().fold(0.0, f64::max);
    if high <= 0.0 {
        return out + "</svg>";
    }
    let y_ticks = ticks(high);
    let last = y_ticks[y_ticks.len() - 1];
    let y = Scale { low: 0.0, high: last, log: false, from: HEIGHT - BOTTOM, to: TOP };
    let x = Scale { low: 0.0, high: 1.0, log: false, from: LEFT, to: WIDTH - RIGHT - 8.0 };
    y_axis(&mut out, &y, &y_ticks, chart.y_label);
    marks(&mut out, &y, chart.marks);
    let tenths = (0..=10).map(|tenth| f64::from(tenth) / 10.0);
    x_axis(&mut out, &x, tenths.map(|v| (v, format!("{v:.1}"))), x_label);
    let width = 1.0 / percent.len() as f64;
    for (bin, &v) in percent.iter().enumerate().filter(|(_, v)| **v > 0.0) {
        let (from, to) = (bin as f64 * width, (bin + 1) as f64 * width);
        let height = (HEIGHT - BOTTOM - y.at(v)).max(0.5);
        let _ = write!(
            out,
            "<rect x=\"{:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{height:.1}\" fill=\"{colour}\">\
             <title>{from:.2} to {to:.2}: {v:.1}%</title></rect>",
            x.at(from) + 1.0,
            HEIGHT - BOTTOM - height,
            x.at(to) - x.at(from) - 2.0
        );
    }
    out + "</svg>"
}

/// Groups of bars: `values[series][group]`; a series is a name and a colour.
pub(crate) fn bars(
    chart: &Chart<'_>,
    groups: &[&str],
    series: &[(&str, &'static str)],
    values: &[Vec<f64>],
) -> String {
    let mut out = open(chart.title, HEIGHT);
    let finite = values.iter().flatten().filter(|v| v.is_finite());
    let high = finite.fold(0f64, |a, &b| a.max(b));
    if high <= 0.0 {
        return out + "</svg>";
    }
    let y_ticks = ticks(high);
    let last = y_ticks[y_ticks.len() - 1];
    let y = Scale { low: 0.0, high: last, log: false, from: HEIGHT - BOTTOM, to: TOP };
    y_axis(&mut out, &y, &y_ticks, chart.y_label);
    marks(&mut out, &y, chart.marks);
    let room = (WIDTH - LEFT - RIGHT) / groups.len() as f64;
    let width = room * 0.84 / series.len() as f64;
    let class = if width < 21.0 { "tiny" } else { "small" };
    for (g, group) in groups.iter().enumerate() {
        let left = LEFT + room * (g as f64 + 0.08);
        for (s, (name, colour)) in series.iter().enumerate() {
            let v = values[s][g];
            if !v.is_finite() {
                continue;
            }
            let (x, top) = (left + width * s as f64, y.at(v));
            let _ = write!(
                out,
                "<rect x=\"{x:.1}\" y=\"{top:.1}\" width=\"{:.1}\" height=\"{:.1}\" fill=\"{colour}\">\
                 <title>{name}, {group}: {}</title></rect>\
                 <text x=\"{:.1}\" y=\"{:.1}\" class=\"{class}\" text-anchor=\"middle\">{}</text>",
                width - 1.5,
                (HEIGHT - BOTTOM - top).max(0.5),
                super::figure(v),
                x + width / 2.0,
                top - 3.0,
                super::figure(v)
            );
        }
        let _ = write!(
            out,
            "<text x=\"{:.1}\" y=\"{:.0}\" class=\"tick\" text-anchor=\"middle\">{group}</text>",
            left + room * 0.42,
            HEIGHT - BOTTOM + 16.0
        );
    }
    let names: Vec<_> = series.iter().map(|&(s, colour)| (s.to_string(), colour, false)).collect();
    legend(&mut out, &names, HEIGHT - 12.0);
    out + "</svg>"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_and_reach_the_top() {
        assert_eq!(ticks(2.3), [0.0, 0.5, 1.0, 1.5, 2.0, 2.5]);
        assert_eq!(ticks(470.0).last(), Some(&500.0));
    }

    #[test]
    fn a_chart_without_figures_is_empty_and_sound() {
        let chart = Chart { title: "t", y_label: "y", log_y: false, marks: &[] };
        let points = vec![(1.0, f64::NAN)];
        let line = Line { name: "a".into(), colour: BLUE, paper: false, points };
        assert!(lines(&chart, &[line], "x", true).ends_with("</svg>"));
        assert!(over_time(&chart, &[], "x").ends_with("</svg>"));
        assert!(histogram(&chart, &[0.0; 3], BLUE, "x").ends_with("</svg>"));
        assert!(bars(&chart, &["g"], &[("s", RED)], &[vec![f64::NAN]]).ends_with("</svg>"));
    }
}
