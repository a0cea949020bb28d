//! The picture of a validation: every simulated time against the real ones, as an SVG for documents.
//!
//! Contract: a line for each workload and configuration from the shortest to the longest real run, and a point for the
//! simulated time, all over the real median, on one logarithmic scale; beside the middle what is within 20%. The
//! picture has its own colours for light and dark, and needs nothing else. Equal figures give equal bytes.

use std::fmt::Write as _;

/// A workload on a configuration.
pub(super) struct Row {
    pub(super) name: String,
    /// The shortest and the longest real run and the simulated time, over the real median.
    pub(super) least: f64,
    pub(super) most: f64,
    pub(super) simulated: f64,
}

const WIDTH: f64 = 920.0;
const LEFT: f64 = 240.0;
const RIGHT: f64 = 20.0;
const TOP: f64 = 58.0;
const STEP: f64 = 16.0;
const BOTTOM: f64 = 44.0;
/// The scale: what lies beyond is drawn at its end.
const LEAST: f64 = 0.4;
const MOST: f64 = 2.5;
/// What is near enough, in shares of the real median.
const NEAR: f64 = 0.2;
const TICKS: [f64; 7] = [0.5, 0.65, 0.8, 1.0, 1.2, 1.5, 2.0];

const STYLE: &str = "text{font-family:system-ui,sans-serif;font-size:12px;fill:#1c2430}\
.title{font-size:14px;font-weight:600}.soft{fill:#566173}.band{fill:#e3f3ea}.grid{stroke:#e3e8ef}\
.middle{stroke:#8a94a6}.real{stroke:#77818f;stroke-width:4}.near{fill:#0072b2}.far{fill:#d55e00}\
@media(prefers-color-scheme:dark){text{fill:#e8ecf2}.soft{fill:#a5b0c0}.band{fill:#143a2b}\
.grid{stroke:#2c3644}.middle{stroke:#6b778a}.real{stroke:#98a3b5}.near{fill:#429fe3}.far{fill:#f0803c}}";

/// Draws the rows.
pub(super) fn draw(rows: &[Row]) -> String {
    let height = TOP + rows.len() as f64 * STEP + BOTTOM;
    let bottom = height - BOTTOM;
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" \
         aria-labelledby=\"title about\"><title id=\"title\">Simulated and real times</title><desc id=\"about\">\
         A point for each simulated time over the median of real runs, and a line from their shortest to \
         their longest.</desc><style>{STYLE}</style>\n"
    );
    let (from, to) = (at(1.0 - NEAR), at(1.0 + NEAR));
    let _ = write!(
        out,
        "<text class=\"title\" x=\"{LEFT}\" y=\"20\">Simulated time over real time</text>\n\
         <text class=\"soft\" x=\"{LEFT}\" y=\"38\">point: simulated; line: real runs, shortest to longest; \
         shaded: within {:.0}%</text>\n\
         <rect class=\"band\" x=\"{from:.1}\" y=\"{TOP}\" width=\"{:.1}\" height=\"{:.1}\"/>\n",
        NEAR * 100.0,
        to - from,
        bottom - TOP
    );
    for tick in TICKS {
        let (x, class) = (at(tick), if tick == 1.0 { "middle" } else { "grid" });
        let _ = writeln!(
            out,
            "<path class=\"{class}\" d=\"M{x:.1} {TOP}V{bottom:.1}\"/><text text-anchor=\"middle\" \
             x=\"{x:.1}\" y=\"{:.1}\">{tick}</text>",
            bottom + 18.0
        );
    }
    for (nth, row) in rows.iter().enumerate() {
        let y = TOP + (nth as f64 + 0.5) * STEP;
        let near = (row.simulated - 1.0).abs() <= NEAR;
        let _ = writeln!(
            out,
            "<text text-anchor=\"end\" x=\"{:.1}\" y=\"{:.1}\">{}</text><path class=\"real\" \
             d=\"M{:.1} {y:.1}H{:.1}\"/><circle class=\"{}\" cx=\"{:.1}\" cy=\"{y:.1}\" r=\"4.5\"/>",
            LEFT - 10.0,
            y + 4.0,
            escaped(&row.name),
            at(row.least),
            at(row.most),
            if near { "near" } else { "far" },
            at(row.simulated),
        );
    }
    out + "</svg>\n"
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

/// The place of a ratio.
fn at(ratio: f64) -> f64 {
    let share = (ratio.clamp(LEAST, MOST) / LEAST).ln() / (MOST / LEAST).ln();
    LEFT + share * (WIDTH - LEFT - RIGHT)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn points_stand_where_their_ratio_is_and_in_the_colour_of_their_error() {
        let row =
            |name: &str, simulated| Row { name: name.into(), least: 0.9, most: 1.3, simulated };
        let picture =
            draw(&[row("tar & co, lfs", 1.0), row("git, ffs", 1.5), row("mail, ffs", 9.0)]);
        let middle = format!("cx=\"{:.1}\"", at(1.0));
        assert!(picture.contains(&middle) && picture.contains("tar &amp; co, lfs"), "{picture}");
        assert_eq!(
            (picture.matches("class=\"near\"").count(), picture.matches("class=\"far\"").count()),
            (1, 2)
        );
        let end = format!("cx=\"{:.1}\"", WIDTH - RIGHT);
        assert!(picture.contains(&end), "what lies beyond is at the end");
        assert!(at(0.5) > LEFT && at(2.0) < WIDTH - RIGHT);
    }
}
