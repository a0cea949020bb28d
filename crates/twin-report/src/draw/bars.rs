//! Bars: of one figure by configuration, of groups, stacked by parts; and histograms of shares.

use std::fmt::Write;

use super::axes::{
    BOTTOM, Chart, LEFT, RIGHT, Sample, Scale, WIDTH, cut, empty, height_with, legend_at,
    legend_end, marks, open, ticks, x_axis, y_axis,
};
use super::colour::Colour;
use crate::markup::escape;
use crate::units::figure;

/// A bar.
pub struct Bar {
    /// What it stands for.
    pub name: String,
    /// Its colour.
    pub colour: Colour,
    /// Its length.
    pub value: f64,
    /// The value in words.
    pub text: String,
    /// The smallest and the largest of several values, drawn as a line.
    pub range: Option<(f64, f64)>,
    /// Drawn hatched: the value does not count.
    pub failed: bool,
}

impl Bar {
    /// A bar with this value.
    pub fn new(name: impl Into<String>, colour: Colour, value: f64) -> Bar {
        Bar { name: name.into(), colour, value, text: figure(value), range: None, failed: false }
    }

    /// The same with a line from the smallest to the largest of these values, if there are several.
    pub fn over(self, values: &[f64]) -> Bar {
        let low = values.iter().copied().fold(f64::INFINITY, f64::min);
        let high = values.iter().copied().fold(0.0, f64::max);
        Bar { range: (values.len() > 1).then_some((low, high)), ..self }
    }
}

/// Bars under a common title.
pub struct Group {
    /// Its title; empty for none.
    pub title: String,
    /// Its bars, in order.
    pub bars: Vec<Bar>,
}

/// What the longest bar stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Span {
    /// The largest value of all groups.
    Shared,
    /// In each group its own largest value.
    Each,
}

/// The left edge of bars.
const EDGE: f64 = 10.0;
/// The length of the longest bar that stands below its name, and of one with its value behind it.
const LONGEST: (f64, f64) = (WIDTH - 2.0 * EDGE, WIDTH - 2.0 * EDGE - 62.0);
/// Where the first line of bars begins.
const FIRST: f64 = 34.0;
const THICK: f64 = 12.0;

const HATCH: &str = "<defs><pattern id=\"hatch\" width=\"6\" height=\"6\" \
    patternUnits=\"userSpaceOnUse\" patternTransform=\"rotate(45)\"><rect width=\"3\" height=\"6\" \
    class=\"f-grey\"/></pattern></defs>";

fn largest<'a>(bars: impl Iterator<Item = &'a Bar>) -> f64 {
    let reach = |bar: &Bar| bar.range.map_or(bar.value, |(_, high)| high.max(bar.value));
    bars.map(reach).filter(|v| v.is_finite()).fold(0.0, f64::max)
}

/// One bar with its range, at this height.
fn bar(out: &mut String, bar: &Bar, y: f64, unit: f64) {
    let width = (bar.value * unit).max(1.0);
    let fill = match bar.failed {
        true => format!("fill=\"url(#hatch)\" class=\"s-{}\"", bar.colour.name),
        false => format!("class=\"f-{}\"", bar.colour.name),
    };
    let _ = write!(
        out,
        "<rect x=\"{EDGE}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{THICK}\" {fill}>\
         <title>{}: {}</title></rect>",
        escape(&bar.name),
        escape(&bar.text)
    );
    if let Some((low, high)) = bar.range.filter(|(low, high)| low < high) {
        let (low, high, middle) = (EDGE + low * unit, EDGE + high * unit, y + THICK / 2.0);
        let _ = write!(
            out,
            "<path d=\"M{low:.1} {y:.1}v{THICK}M{low:.1} {middle:.1}H{high:.1}M{high:.1} \
             {y:.1}v{THICK}\" class=\"reach\"/>"
        );
    }
}

/// Bars, each below its name, or, if the names come again in several groups, with a legend. Values
/// that are not finite have no bar.
pub fn bars(title: &str, groups: &[Group], span: Span) -> String {
    let all = || groups.iter().flat_map(|group| &group.bars);
    let high = largest(all());
    if high <= 0.0 {
        return empty(title);
    }
    let is_single = groups.len() == 1;
    let mut names: Vec<(&str, Colour)> = Vec::new();
    for bar in all().filter(|bar| !is_single && bar.value.is_finite()) {
        if !names.iter().any(|(name, _)| *name == bar.name) {
            names.push((&bar.name, bar.colour));
        }
    }
    let (mut body, mut y) = (String::new(), FIRST);
    for group in groups {
        if !group.title.is_empty() {
            y += 12.0;
            let text = cut(&group.title, WIDTH - 2.0 * EDGE);
            let _ = write!(body, "<text x=\"{EDGE}\" y=\"{y:.0}\" class=\"name\">{text}</text>");
            y += 5.0;
        }
        let longest = if is_single { LONGEST.0 } else { LONGEST.1 };
        let top = if span == Span::Each { largest(group.bars.iter()) } else { high };
        let unit = longest / top.max(1e-300);
        for one in group.bars.iter().filter(|bar| bar.value.is_finite()) {
            if is_single {
                named(&mut body, &one.name, &one.text, &mut y);
                bar(&mut body, one, y, unit);
                y += THICK + 8.0;
                continue;
            }
            bar(&mut body, one, y, unit);
            let end = one.range.map_or(one.value, |(_, high)| high.max(one.value));
            let _ = write!(
                body,
                "<text x=\"{:.1}\" y=\"{:.1}\" class=\"tick\">{}</text>",
                EDGE + end * unit + 5.0,
                y + THICK - 2.0,
                escape(&one.text)
            );
            y += THICK + 2.0;
        }
        y += 6.0;
    }
    let entries: Vec<&str> = names.iter().map(|(name, _)| *name).collect();
    let height = if is_single { y } else { legend_end(y + 14.0, &entries) };
    let mut out = open(title, height);
    if all().any(|bar| bar.failed) {
        out += HATCH;
    }
    out += &body;
    let entries: Vec<_> = names.into_iter().map(|(n, c)| (n, Sample::Area(c))).collect();
    legend_at(&mut out, y + 14.0, &entries);
    out + "</svg>"
}

/// A name and, at the right, a value, above a bar.
fn named(out: &mut String, name: &str, value: &str, y: &mut f64) {
    *y += 12.0;
    let taken = value.chars().count() as f64 * 7.2 + 12.0;
    let _ = write!(
        out,
        "<text x=\"{EDGE}\" y=\"{y:.0}\" class=\"name\">{}</text>\
         <text x=\"{}\" y=\"{y:.0}\" class=\"value\" text-anchor=\"end\">{}</text>",
        cut(name, WIDTH - 2.0 * EDGE - taken),
        WIDTH - EDGE,
        escape(value)
    );
    *y += 5.0;
}

/// A bar of several parts.
pub struct Stack {
    /// What it stands for.
    pub name: String,
    /// The sum in words.
    pub text: String,
    /// For each part its name, its colour and its value.
    pub parts: Vec<(&'static str, Colour, f64)>,
}

/// Stacked bars on a common scale, each below its name, with a legend of the parts.
pub fn stacks(title: &str, all: &[Stack]) -> String {
    let sum = |stack: &Stack| stack.parts.iter().map(|(_, _, v)| v).sum::<f64>();
    let high = all.iter().map(sum).fold(0.0, f64::max);
    if high <= 0.0 {
        return empty(title);
    }
    let unit = LONGEST.0 / high;
    let mut names: Vec<(&str, Colour)> = Vec::new();
    let (mut body, mut y) = (String::new(), FIRST);
    for stack in all {
        named(&mut body, &stack.name, &stack.text, &mut y);
        let mut x = EDGE;
        for &(part, colour, value) in stack.parts.iter().filter(|(_, _, v)| *v > 0.0) {
            let width = value * unit;
            let _ = write!(
                body,
                "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{}\" class=\"f-{}\">\
                 <title>{}: {part} {:.1}%</title></rect>",
                THICK + 4.0,
                colour.name,
                escape(&stack.name),
                value * 100.0 / sum(stack)
            );
            x += width;
            if !names.iter().any(|(name, _)| *name == part) {
                names.push((part, colour));
            }
        }
        y += THICK + 12.0;
    }
    names.sort_by_key(|(_, colour)| colour.name);
    let entries: Vec<&str> = names.iter().map(|(name, _)| *name).collect();
    let mut out = open(title, legend_end(y + 14.0, &entries)) + &body;
    let entries: Vec<_> = names.into_iter().map(|(n, c)| (n, Sample::Area(c))).collect();
    legend_at(&mut out, y + 14.0, &entries);
    out + "</svg>"
}

/// The share in each of equal parts of 0 to 1, in percent.
pub fn histogram(chart: &Chart<'_>, percent: &[f64], colour: Colour, x_label: &str) -> String {
    let high = percent.iter().copied().fold(0.0, f64::max);
    if high <= 0.0 {
        return empty(chart.title);
    }
    let mut out = open(chart.title, height_with(&[]));
    let y_ticks = ticks(high);
    let y = Scale::vertical(&y_ticks, false);
    let x = Scale::horizontal((0.0, 1.0), false, (LEFT, RIGHT - 8.0));
    y_axis(&mut out, &y, &y_ticks, chart.y_label);
    marks(&mut out, &y, chart.marks);
    let tenths = (0..=10).map(|tenth| (f64::from(tenth) / 10.0, format!("{}", tenth * 10)));
    x_axis(&mut out, &x, tenths.collect(), x_label);
    let width = 1.0 / percent.len() as f64;
    for (bin, &v) in percent.iter().enumerate().filter(|(_, v)| **v > 0.0) {
        let (from, to) = (bin as f64 * width, (bin + 1) as f64 * width);
        let height = (BOTTOM - y.at(v)).max(0.5);
        let _ = write!(
            out,
            "<rect x=\"{:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{height:.1}\" class=\"f-{}\">\
             <title>{:.0}% to {:.0}%: {v:.1}%</title></rect>",
            x.at(from) + 1.0,
            BOTTOM - height,
            x.at(to) - x.at(from) - 2.0,
            colour.name,
            from * 100.0,
            to * 100.0
        );
    }
    out + "</svg>"
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::draw::{BLUE, RED, part};

    fn group(values: &[f64]) -> Group {
        let bar = |(i, &v): (usize, &f64)| Bar::new(["<a>", "b", "c"][i], BLUE, v);
        Group { title: String::new(), bars: values.iter().enumerate().map(bar).collect() }
    }

    #[test]
    fn a_chart_without_figures_is_empty_and_sound() {
        let text = bars("t", &[group(&[f64::NAN, 0.0])], Span::Shared);
        assert!(text.ends_with("</svg>") && text.contains("no figures"), "{text}");
        assert!(stacks("t", &[]).ends_with("</svg>"));
        let chart = Chart { title: "t", y_label: "y", log_y: false, marks: &[] };
        assert!(histogram(&chart, &[0.0; 3], RED, "x").ends_with("</svg>"));
    }

    #[test]
    fn each_bar_has_its_name_and_what_failed_is_hatched() {
        let mut one = group(&[2.0, 4.0, f64::NAN]);
        one.bars[0].failed = true;
        one.bars[1].range = Some((3.0, 5.0));
        let text = bars("t", &[one], Span::Shared);
        assert_eq!(text.matches("url(#hatch)").count(), 1, "{text}");
        assert_eq!(text.matches("id=\"hatch\"").count(), 1, "{text}");
        assert_eq!(text.matches("class=\"reach\"").count(), 1, "{text}");
        assert!(text.contains("&lt;a&gt;") && !text.contains(">c<"), "{text}");
    }

    #[test]
    fn groups_share_a_scale_or_have_one_each() {
        let groups = [group(&[1.0]), group(&[4.0])];
        let longest = format!("width=\"{:.1}\"", LONGEST.1);
        assert_eq!(bars("t", &groups, Span::Shared).matches(&longest).count(), 1);
        assert_eq!(bars("t", &groups, Span::Each).matches(&longest).count(), 2);
        assert_eq!(bars("t", &groups, Span::Each).matches(">&lt;a&gt;</text>").count(), 1);
    }

    #[test]
    fn the_parts_of_a_stack_lie_side_by_side() {
        let parts = vec![("seek", part(1), 1.0), ("none", part(2), 0.0), ("flush", part(3), 3.0)];
        let text = stacks("t", &[Stack { name: "n".into(), text: "4 s".into(), parts }]);
        let quarter = format!("x=\"{:.1}\" y", EDGE + LONGEST.0 / 4.0);
        assert!(text.contains(&quarter) && text.contains("flush 75.0%"), "{text}");
        assert!(!text.contains("none"));
    }
}
