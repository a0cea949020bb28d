//! The frame of a chart: title, axes, ticks, legend.

use std::fmt::Write;

use super::colour::Colour;
use crate::markup::escape;

/// The settings of a chart.
pub struct Chart<'a> {
    /// What it shows.
    pub title: &'a str,
    /// The unit of the vertical axis.
    pub y_label: &'a str,
    /// Whether the vertical axis is logarithmic.
    pub log_y: bool,
    /// Values that the paper or the hardware gives, drawn as horizontal lines: value and label.
    pub marks: &'a [(f64, &'a str)],
}

/// The width of a drawing in its own units.
pub(super) const WIDTH: f64 = 440.0;
/// Where the plot begins and ends.
pub(super) const LEFT: f64 = 50.0;
pub(super) const RIGHT: f64 = WIDTH - 14.0;
pub(super) const TOP: f64 = 50.0;
pub(super) const BOTTOM: f64 = 236.0;
/// Where the legend begins.
const LEGEND: f64 = BOTTOM + 58.0;
/// The mean width of a character of 12 units.
const CHARACTER: f64 = 6.5;
/// The width of a digit or a capital letter of 12 units.
const DIGIT: f64 = 7.4;
/// The height of a line of the legend.
const LEGEND_LINE: f64 = 17.0;
/// The width of a sample in the legend, and the distance to its text and to the next sample.
const SAMPLE: (f64, f64) = (20.0, 6.0);

/// The text, cut off where it would be wider than this.
pub(super) fn cut(text: &str, width: f64) -> String {
    let most = (width / CHARACTER) as usize;
    if text.chars().count() <= most {
        return escape(text);
    }
    let kept: String = text.chars().take(most.saturating_sub(1)).collect();
    escape(&kept) + "…"
}

/// The beginning of a drawing.
pub(super) fn open(title: &str, height: f64) -> String {
    open_in(WIDTH, title, height)
}

/// The beginning of a drawing of this width.
pub(super) fn open_in(width: f64, title: &str, height: f64) -> String {
    format!(
        "<svg viewBox=\"0 0 {width} {height:.0}\" role=\"img\" aria-label=\"{}\">\
         <text x=\"10\" y=\"20\" class=\"title\">{}</text>",
        escape(title),
        // The title is a little larger than other text.
        cut(title, 0.87 * (width - 20.0))
    )
}

/// A drawing that says why it is empty.
pub(super) fn empty(title: &str) -> String {
    open(title, 60.0) + "<text x=\"10\" y=\"44\" class=\"name soft\">no figures</text></svg>"
}

pub(super) fn size_label(kb: f64) -> String {
    if kb >= 1024.0 { format!("{}M", kb / 1024.0) } else { format!("{kb}K") }
}

/// A time in microseconds, in the unit in which it is a small number.
pub(super) fn micros_label(us: f64) -> String {
    match us {
        us if us < 1.0 => format!("{:.0} ns", us * 1e3),
        us if us < 1e3 => format!("{us:.0} us"),
        us if us < 1e6 => format!("{:.0} ms", us / 1e3),
        us => format!("{:.0} s", us / 1e6),
    }
}

pub(super) fn tick_label(y: f64) -> String {
    match y {
        y if y >= 1e6 => format!("{}M", y / 1e6),
        y if y >= 1e4 => format!("{}k", y / 1e3),
        y if y >= 10.0 || y == y.round() => format!("{y:.0}"),
        y if y >= 0.1 => format!("{y:.1}"),
        // As many digits as the first one needs, and one more.
        y => {
            let digits = (2.0 - y.log10().floor() - 1.0).clamp(2.0, 12.0) as usize;
            let text = format!("{y:.digits$}");
            text.trim_end_matches('0').trim_end_matches('.').to_owned()
        }
    }
}

/// Round steps from 0 up to a value.
pub(super) fn ticks(top: f64) -> Vec<f64> {
    let raw = top / 5.0;
    let unit = 10f64.powf(raw.log10().floor());
    let step = [1.0, 2.0, 2.5, 5.0, 10.0].map(|m| m * unit).into_iter().find(|&s| s >= raw);
    let step = step.unwrap_or(unit * 10.0);
    (0..=(top / step).ceil() as u32).map(|i| f64::from(i) * step).collect()
}

/// Round steps around two values, of which the first may be far from 0.
pub(super) fn ticks_between(low: f64, high: f64) -> Vec<f64> {
    if high <= low {
        return ticks(if high > 0.0 { high } else { 1.0 });
    }
    let steps = ticks(high - low);
    let step = steps[1];
    let first = (low / step).floor();
    let count = ((high / step).ceil() - first) as u32;
    (0..=count).map(|nth| (first + f64::from(nth)) * step).collect()
}

/// The powers of ten around two values.
pub(super) fn log_ticks(low: f64, high: f64) -> Vec<f64> {
    let (from, to) = (low.log10().floor() as i32, high.log10().ceil() as i32);
    (from..=to.max(from + 1)).map(|e| 10f64.powi(e)).collect()
}

/// The scale of an axis.
pub(super) struct Scale {
    pub(super) low: f64,
    pub(super) high: f64,
    pub(super) log: bool,
    pub(super) from: f64,
    pub(super) to: f64,
    /// Of a vertical axis, where its lines end.
    pub(super) right: f64,
}

impl Scale {
    /// The scale of the vertical axis for these ticks.
    pub(super) fn vertical(ticks: &[f64], log: bool) -> Scale {
        let (low, high) = (ticks[0], ticks[ticks.len() - 1]);
        Scale { low, high, log, from: BOTTOM, to: TOP, right: RIGHT }
    }

    /// The scale of a horizontal axis.
    pub(super) fn horizontal((low, high): (f64, f64), log: bool, (from, to): (f64, f64)) -> Scale {
        Scale { low, high, log, from, to, right: RIGHT }
    }

    pub(super) fn at(&self, v: f64) -> f64 {
        let part = match self.log {
            true => (v / self.low).ln() / (self.high / self.low).ln(),
            false => (v - self.low) / (self.high - self.low),
        };
        self.from + part * (self.to - self.from)
    }
}

pub(super) fn y_axis(out: &mut String, y: &Scale, all: &[f64], label: &str) {
    let all: Vec<_> = all.iter().map(|&v| (v, tick_label(v))).collect();
    y_axis_of(out, y, &all, label);
}

/// The vertical axis with these ticks and their labels.
pub(super) fn y_axis_of(out: &mut String, y: &Scale, all: &[(f64, String)], label: &str) {
    for (v, text) in all {
        let at = y.at(*v);
        let _ = write!(
            out,
            "<line x1=\"{LEFT}\" x2=\"{}\" y1=\"{at:.1}\" y2=\"{at:.1}\" class=\"grid\"/>\
             <text x=\"{}\" y=\"{:.1}\" class=\"tick\" text-anchor=\"end\">{text}</text>",
            y.right,
            LEFT - 6.0,
            at + 4.0
        );
    }
    let _ = write!(out, "<text x=\"10\" y=\"38\" class=\"tick soft\">{}</text>", escape(label));
}

/// Ticks and the label of the horizontal axis. Where not all labels fit, every second one is left
/// out, or more.
pub(super) fn x_axis(out: &mut String, x: &Scale, all: Vec<(f64, String)>, label: &str) {
    let places: Vec<(f64, f64)> =
        all.iter().map(|(v, text)| (x.at(*v), text.chars().count() as f64 * DIGIT / 2.0)).collect();
    let fits = |&stride: &usize| {
        let shown: Vec<_> = places.iter().step_by(stride).collect();
        shown.windows(2).all(|pair| pair[0].0 + pair[0].1 + 4.0 <= pair[1].0 - pair[1].1)
    };
    let stride = (1..=all.len()).find(fits).unwrap_or(1);
    for (nth, ((_, text), (at, _))) in all.iter().zip(&places).enumerate() {
        let _ = write!(
            out,
            "<line x1=\"{at:.1}\" x2=\"{at:.1}\" y1=\"{BOTTOM}\" y2=\"{}\" class=\"axis\"/>",
            BOTTOM + 4.0
        );
        if nth % stride == 0 {
            let _ = write!(
                out,
                "<text x=\"{at:.1}\" y=\"{}\" class=\"tick\" text-anchor=\"middle\">{text}</text>",
                BOTTOM + 18.0
            );
        }
    }
    let _ = write!(
        out,
        "<text x=\"{}\" y=\"{}\" class=\"tick soft\" text-anchor=\"middle\">{}</text>",
        (x.from + x.to) / 2.0,
        BOTTOM + 36.0,
        escape(label)
    );
}

/// Horizontal lines with a label above their left end.
pub(super) fn marks(out: &mut String, y: &Scale, all: &[(f64, &str)]) {
    for &(v, label) in all {
        let at = y.at(v);
        let _ = write!(
            out,
            "<line x1=\"{LEFT}\" x2=\"{}\" y1=\"{at:.1}\" y2=\"{at:.1}\" class=\"mark\"/>\
             <text x=\"{}\" y=\"{:.1}\" class=\"tick soft\">{}</text>",
            y.right,
            LEFT + 6.0,
            at - 4.0,
            cut(label, y.right - LEFT - 6.0)
        );
    }
}

/// The sample of an entry of the legend.
pub(super) enum Sample {
    Line(Colour),
    /// The thin line with hollow dots of a paper's figures.
    Paper(Colour),
    Area(Colour),
}

/// The height of a chart with a legend of these names.
pub(super) fn height_in(width: f64, names: &[&str]) -> f64 {
    end_in(width, LEGEND, names)
}

pub(super) fn height_with(names: &[&str]) -> f64 {
    height_in(WIDTH, names)
}

/// Where a legend that begins at `from` ends.
pub(super) fn legend_end(from: f64, names: &[&str]) -> f64 {
    end_in(WIDTH, from, names)
}

fn end_in(width: f64, from: f64, names: &[&str]) -> f64 {
    places(width, names).last().map_or(from - 12.0, |place| from + place.1 + 10.0)
}

/// The places of the entries of a legend, from its beginning: as many in a line as fit.
fn places(width: f64, names: &[&str]) -> Vec<(f64, f64)> {
    let (mut x, mut y) = (10.0, 0.0);
    let mut all = Vec::new();
    for name in names {
        let own = SAMPLE.0 + SAMPLE.1 + name.chars().count() as f64 * CHARACTER;
        if x > 10.0 && x + own > width - 8.0 {
            (x, y) = (10.0, y + LEGEND_LINE);
        }
        all.push((x, y));
        x += own + 14.0;
    }
    all
}

/// The legend below the axis of a drawing of this width.
pub(super) fn legend(out: &mut String, width: f64, entries: &[(&str, Sample)]) {
    legend_in(out, width, LEGEND, entries);
}

pub(super) fn legend_at(out: &mut String, from: f64, entries: &[(&str, Sample)]) {
    legend_in(out, WIDTH, from, entries);
}

fn legend_in(out: &mut String, width: f64, from: f64, entries: &[(&str, Sample)]) {
    let names: Vec<&str> = entries.iter().map(|(name, _)| *name).collect();
    for ((name, sample), (x, y)) in entries.iter().zip(places(width, &names)) {
        let (end, y) = (x + SAMPLE.0, y + from);
        let middle = y - 4.0;
        let line = |width: &str, colour: Colour, dash: &str| {
            format!(
                "<line x1=\"{x:.0}\" x2=\"{end:.0}\" y1=\"{middle:.0}\" y2=\"{middle:.0}\" \
                 class=\"s-{}\" stroke-width=\"{width}\"{dash}/>",
                colour.name
            )
        };
        *out += &match sample {
            Sample::Line(colour) => line("3.5", *colour, &colour.dash()),
            Sample::Paper(colour) => line("1.4", *colour, " stroke-dasharray=\"2 3\""),
            Sample::Area(colour) => format!(
                "<rect x=\"{x:.0}\" y=\"{:.0}\" width=\"{}\" height=\"11\" class=\"f-{}\"/>",
                y - 10.0,
                SAMPLE.0,
                colour.name
            ),
        };
        let _ = write!(
            out,
            "<text x=\"{:.0}\" y=\"{y:.0}\" class=\"name\">{}</text>",
            end + SAMPLE.1,
            cut(name, width - 8.0 - end - SAMPLE.1)
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_of_small_values_have_the_digits_that_they_need() {
        let labels = [0.0, 0.05, 0.001, 0.0025, 0.2, 12_000.0].map(tick_label);
        assert_eq!(labels, ["0", "0.05", "0.001", "0.0025", "0.2", "12k"]);
    }

    #[test]
    fn ticks_are_round_and_reach_the_top() {
        assert_eq!(ticks(2.3), [0.0, 0.5, 1.0, 1.5, 2.0, 2.5]);
        assert_eq!(ticks(470.0).last(), Some(&500.0));
    }

    #[test]
    fn long_names_take_a_line_of_the_legend_each_and_are_cut_at_the_edge() {
        let long = "lfs:".to_string() + &"x".repeat(100);
        let names = [long.as_str(), long.as_str(), "a", "b"];
        let lines: Vec<f64> = places(WIDTH, &names).iter().map(|place| place.1).collect();
        assert_eq!(lines, [0.0, LEGEND_LINE, 2.0 * LEGEND_LINE, 2.0 * LEGEND_LINE]);
        assert!(cut(&long, 300.0).ends_with('…') && cut("<a>", 300.0) == "&lt;a&gt;");
    }

    #[test]
    fn labels_of_ticks_that_would_touch_are_left_out_at_equal_distances() {
        let axis = |to| {
            let x = Scale::horizontal((0.0, 100.0), false, (0.0, to));
            let mut out = String::new();
            let all =
                (0..=10).map(|tick| (f64::from(tick) * 10.0, format!("{tick}0 ms"))).collect();
            x_axis(&mut out, &x, all, "x");
            out.matches(" ms<").count()
        };
        assert_eq!((axis(600.0), axis(300.0), axis(150.0)), (11, 6, 4));
    }
}
