//! How the page opens: what was claimed, what holds, and what changed since, a line each; and the
//! bands in which the statements' tolerances are drawn.

use super::{Check, Expect, Judged, Paper, Results, present, tally};
use twin_report::markup::escape;

/// The claim of each paper in a sentence.
fn claimed(paper: Paper) -> &'static str {
    match paper {
        Paper::Clc => {
            "on an empty disk a log is as fast as a clustered FFS or faster nearly everywhere"
        }
        Paper::Lvc => {
            "a log is ten times as fast where names change, alike for large files, and loses its lead \
             to the cleaner under transactions"
        }
        Paper::Hc => {
            "cleaning after two idle seconds is done in the background, and is hardly felt"
        }
        Paper::Cp => "the longer dirty data stays in memory, the shorter latencies are",
        Paper::Fl => "age fragments small files most, and costs 10 to 15% of the speed at most",
    }
}

/// The lines at the head of the page.
pub(super) fn section(judged: &[Judged], results: &Results) -> String {
    let mut out = String::from("<div class=\"verdict\">");
    for tally in tally(judged) {
        let (paper, held, all) = (tally.paper, tally.held, tally.all);
        let hold = match all {
            0 => "Of what ran nothing is an independent statement".to_string(),
            _ => format!("<b>{held} of {all}</b> independent statements hold here"),
        };
        let (title, claimed) = (escape(paper.title()), claimed(paper));
        out += &format!("<p><b>{title}</b> claimed: {claimed}. {hold}.</p>");
    }
    out += &present::lines_of(results);
    out + "</div>"
}

/// Width and height of a band.
const WIDTH: f64 = 120.0;
const HEIGHT: f64 = 16.0;
/// The band spans values from the paper's over this to the paper's times this.
const SPAN: f64 = 2.5;

/// A statement's tolerance as a band, the paper's value as a line in it, and ours as a dot, which
/// lies at the edge if it is farther away.
pub(super) fn band(check: &Check) -> String {
    let (low, high, paper) = match check.paper {
        Expect::Figure(paper) => (paper * 0.85, paper * 1.15, Some(paper)),
        Expect::Ratio(paper) => (paper * 0.8, paper * 1.2, Some(paper)),
        Expect::Within(paper, distance) => (paper - distance, paper + distance, Some(paper)),
        Expect::Between(low, high) => (low * 0.85, high * 1.15, None),
        Expect::AtLeast(low) => (low, f64::INFINITY, None),
        Expect::AtMost(high) => (0.0, high, None),
    };
    let middle = paper.unwrap_or(if high.is_finite() { high } else { low });
    if middle <= 0.0 || !check.ours.is_finite() {
        return String::new();
    }
    let at = |value: f64| {
        let part = (value.max(1e-12) / middle).ln() / SPAN.ln();
        WIDTH * (0.5 + 0.5 * part.clamp(-0.94, 0.94))
    };
    let (from, to) = (at(low), if high.is_finite() { at(high) } else { WIDTH });
    let from = if low <= 0.0 { 0.0 } else { from };
    let line = paper.map_or(String::new(), |paper| {
        let x = at(paper);
        format!("<line x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"1\" y2=\"15\" class=\"axis\"/>")
    });
    let class = if check.holds() { "in" } else { "off" };
    format!(
        "<svg class=\"band\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"{}\">\
         <rect x=\"{from:.1}\" y=\"3\" width=\"{:.1}\" height=\"10\" class=\"tolerance\"/>{line}\
         <circle cx=\"{:.1}\" cy=\"8\" r=\"4\" class=\"{class}\"/></svg>",
        escape(&check.comparison()),
        (to - from).max(1.0),
        at(check.ours),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn attribute(text: &str, name: &str) -> f64 {
        let (_, rest) = text.split_once(name).unwrap();
        rest.split('"').nth(1).unwrap().parse().unwrap()
    }

    #[test]
    fn what_holds_lies_in_its_band_and_what_does_not_outside() {
        let expects = [
            (Expect::Figure(2.0), 2.2, 2.5),
            (Expect::Ratio(10.0), 8.5, 17.0),
            (Expect::Within(1.1, 0.04), 1.12, 1.2),
            (Expect::AtLeast(0.96), 0.97, 0.5),
            (Expect::AtMost(0.05), 0.01, 0.2),
        ];
        for (expect, good, bad) in expects {
            let drawn = |ours| band(&Check::paper("a", expect, ours));
            let place = |ours| {
                let text = drawn(ours);
                let (x, width) = (attribute(&text, "rect x="), attribute(&text, "width="));
                let dot = attribute(&text, "cx=");
                (x - 0.1..=x + width + 0.1).contains(&dot)
            };
            assert!(place(good) && !place(bad), "{expect:?} {}", drawn(bad));
            assert!(drawn(good).contains("class=\"in\"") && drawn(bad).contains("class=\"off\""));
        }
        assert!(band(&Check::paper("a", Expect::Figure(1.0), f64::NAN)).is_empty());
    }
}
