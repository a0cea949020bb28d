//! Figures 2 to 10 of Heuristic Cleaning 1995 as distributions: idle times, what accumulated between
//! cleanings, delays in the queue; three servers, both write models.

use super::heuristic::Studies;
use crate::nfs_server::Outcome;
use twin_report::draw::{Chart, Colour, Distribution, Line, distribution, lines, part};
use twin_report::markup::charts as side_by_side;

/// Amounts in KB.
const AMOUNTS_KB: [u64; 11] = [1, 4, 16, 64, 256, 1024, 4096, 16_384, 65_536, 131_072, 524_288];
/// Points of a distribution: shares of all values.
const POINTS: usize = 200;

/// The charts, those of NFS-async first, as in the paper.
pub(super) fn charts(studies: &Studies) -> String {
    let mut all = Vec::new();
    for (model, name) in [(1, "NFS-async"), (0, "NFS-sync")] {
        let of: Vec<_> = studies.of_model(model).into_iter().zip([0, 3, 6].map(part)).collect();
        let figures = if model == 1 {
            ["2 and 4", "5 and 7", "9 and 10"]
        } else {
            ["3 and 4", "6 and 7", "8 and 10"]
        };
        let title = |at: usize, what: &str| format!("Figures {}. {what}, {name}", figures[at]);
        let one = |values: fn(&Outcome) -> Vec<(f64, f64)>| -> Vec<Distribution> {
            let of = of.iter().map(|((server, outcome), colour)| Distribution {
                name: format!("{server}-like"),
                colour: *colour,
                shares: values(outcome),
            });
            of.collect()
        };
        let longest = of.iter().map(|((_, o), _)| o.delays_ns.len().max(o.idle_s.len()));
        let count = longest.max().unwrap_or(0) as u64;
        let idle = |outcome: &Outcome| -> Vec<(f64, f64)> {
            sampled(outcome.idle_s.len(), |at| f64::from(outcome.idle_s[at]) * 1e6)
        };
        all.push(distribution(&title(0, "Idle times from a second on"), &one(idle), count));
        all.push(accumulated(&title(1, "Written between cleanings"), &of));
        let delays = |outcome: &Outcome| -> Vec<(f64, f64)> {
            sampled(outcome.delays_ns.len(), |at| f64::from(outcome.delays_ns[at]) / 1e3)
        };
        all.push(distribution(&title(2, "Delays in the queue"), &one(delays), count));
    }
    side_by_side(&all)
}

/// Points of the distribution of `count` sorted values: more of them where few values are left, so
/// that the long end is seen.
fn sampled(count: usize, value: impl Fn(usize) -> f64) -> Vec<(f64, f64)> {
    let mut points: Vec<(f64, f64)> = Vec::new();
    for step in 1..=POINTS {
        // From the first value to the last but one, by even parts of the logarithm of what is left.
        let left = (count as f64).powf(1.0 - step as f64 / POINTS as f64);
        let at = count.saturating_sub(left as usize);
        if at < count {
            points.push((value(at), (at + 1) as f64 / count as f64));
        }
    }
    points.dedup();
    points
}

/// The share of intervals between cleanings in which less was written.
fn accumulated(title: &str, of: &[((&str, &Outcome), Colour)]) -> String {
    let line = |((server, outcome), colour): &((&str, &Outcome), Colour)| Line {
        name: format!("{server}-like"),
        colour: *colour,
        paper: false,
        points: AMOUNTS_KB
            .iter()
            .map(|&kb| (kb as f64, outcome.accumulated_below(kb << 10) * 100.0))
            .collect(),
    };
    let marks = [(96.0, "paper: 96% below 1M"), (99.0, "paper: 99% below 4M")];
    let chart = Chart { title, y_label: "% of intervals", log_y: false, marks: &marks };
    let all: Vec<Line> = of.iter().map(line).collect();
    lines(&chart, &all, "less than")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sampled_distribution_ends_with_the_largest_value_and_all_of_them() {
        let values: Vec<f64> = (0..1000).map(f64::from).collect();
        let points = sampled(values.len(), |at| values[at]);
        assert_eq!(points.last(), Some(&(999.0, 1.0)));
        assert!(points.windows(2).all(|two| two[0].0 <= two[1].0 && two[0].1 <= two[1].1));
        assert!(sampled(0, |_| 0.0).is_empty());
    }
}
