//! A study of bare volumes as a self-contained page, in the style of the comparison's.

use crate::statistics::median;
use crate::volume::Row;
use twin_report::draw::{self, Bar, Chart, Group, Line, Span, bars, nth};
use twin_report::markup::{charts, escape, page_of, table_of};

/// The write amplifications of a pair of policies.
struct Pair {
    name: String,
    /// For each workload, in order, the values of all seeds; empty if it was not run.
    values: Vec<Vec<f64>>,
}

impl Pair {
    /// The geometric mean of the medians over all workloads; `None` if one was not run.
    fn mean(&self) -> Option<f64> {
        let logs: Vec<f64> = self.values.iter().map(|values| median(values).ln()).collect();
        let mean = logs.iter().sum::<f64>() / logs.len().max(1) as f64;
        Some(mean.exp()).filter(|mean| mean.is_finite())
    }
}

/// The workloads, each with its exponent if it has one, and the pairs of policies, in the order of
/// the rows.
fn pairs(rows: &[Row]) -> (Vec<(&str, Option<f64>)>, Vec<Pair>) {
    let mut workloads: Vec<(&str, Option<f64>)> = Vec::new();
    for row in rows {
        if !workloads.iter().any(|(name, _)| *name == row.workload) {
            workloads.push((&row.workload, row.exponent));
        }
    }
    let mut pairs: Vec<Pair> = Vec::new();
    for row in rows {
        let name = format!("{}, {}", row.placement, row.victim);
        let at = pairs.iter().position(|pair| pair.name == name).unwrap_or_else(|| {
            pairs.push(Pair { name, values: vec![Vec::new(); workloads.len()] });
            pairs.len() - 1
        });
        let workload = workloads.iter().position(|(name, _)| *name == row.workload);
        if let Some(workload) = workload {
            pairs[at].values[workload].push(row.write_amplification);
        }
    }
    (workloads, pairs)
}

/// The page: which policies cost the least, a chart for each workload, a curve over the exponents if
/// there are several, and all figures.
pub fn page(rows: &[Row]) -> String {
    let (workloads, pairs) = pairs(rows);
    let mut body = verdict(&pairs, workloads.len());
    let mut drawings = Vec::new();
    drawings.extend(over_exponents(&workloads, &pairs));
    for (at, (workload, _)) in workloads.iter().enumerate() {
        drawings.push(of_workload(workload, at, &pairs));
    }
    body += "<p>Write amplification: all blocks written over those that users wrote. A pair of names \
             is a placement and a victim policy. With several seeds \
             a bar is the median, and its line reaches from the smallest to the largest value.</p>";
    body += &charts(&drawings);
    body += "<h2>All figures</h2>";
    let head = ["placement, victim".to_string()];
    let names = workloads.iter().map(|(name, _)| name.to_string());
    let mut table = vec![head.into_iter().chain(names).collect::<Vec<_>>()];
    for pair in &pairs {
        let cells = pair.values.iter().map(|values| match values.is_empty() {
            true => "-".to_string(),
            false => format!("{:.3}", median(values)),
        });
        table.push(std::iter::once(pair.name.clone()).chain(cells).collect());
    }
    body += &table_of(&table);
    page_of("Cleaning a log: write amplification", &body)
}

fn verdict(pairs: &[Pair], workloads: usize) -> String {
    let mut means: Vec<(&str, f64)> =
        pairs.iter().filter_map(|pair| Some((pair.name.as_str(), pair.mean()?))).collect();
    means.sort_by(|a, b| a.1.total_cmp(&b.1));
    let over = if workloads > 1 { ", geometric mean over the workloads" } else { "" };
    let text = match means[..] {
        [] => return String::new(),
        [(name, mean)] => format!("{name}: {mean:.3}."),
        [(first, least), (second, next), ..] => {
            format!("{first} writes the least: {least:.3}. Next is {second} with {next:.3}.")
        }
    };
    format!(
        "<div class=\"verdict\"><p>{}</p><small>Measure: write amplification{over}; smaller is \
         better.</small></div>",
        escape(&text)
    )
}

/// The bars of a workload, the least write amplification first.
fn of_workload(workload: &str, at: usize, pairs: &[Pair]) -> String {
    let mut all: Vec<Bar> = Vec::new();
    for (number, pair) in pairs.iter().enumerate() {
        let values = &pair.values[at];
        let value = median(values);
        let low = values.iter().copied().fold(f64::INFINITY, f64::min);
        let high = values.iter().copied().fold(0.0, f64::max);
        let range = (values.len() > 1).then_some((low, high));
        let text = match range {
            Some((low, high)) => format!("{value:.3} ({low:.3} to {high:.3})"),
            None => format!("{value:.3}"),
        };
        let bar = Bar::new(pair.name.clone(), nth(number), value);
        all.push(Bar { range, text, ..bar });
    }
    all.sort_by(|a, b| a.value.total_cmp(&b.value));
    bars(workload, &[Group { title: String::new(), bars: all }], Span::Shared)
}

/// Write amplification over the exponent of the workload, if there are at least two.
fn over_exponents(workloads: &[(&str, Option<f64>)], pairs: &[Pair]) -> Option<String> {
    let exponents: Vec<f64> = workloads.iter().filter_map(|(_, exponent)| *exponent).collect();
    let distinct = exponents.windows(2).all(|pair| pair[0] < pair[1]);
    if exponents.len() < 2 || exponents.len() < workloads.len() || !distinct {
        return None;
    }
    let line = |(number, pair): (usize, &Pair)| {
        let points = exponents.iter().zip(&pair.values);
        let points = points.map(|(&exponent, values)| (exponent, median(values))).collect();
        Line { name: pair.name.clone(), colour: nth(number), paper: false, points }
    };
    let lines: Vec<Line> = pairs.iter().enumerate().map(line).collect();
    let title = format!("Exponents {} to {}", exponents[0], exponents[exponents.len() - 1]);
    let chart = Chart { title: &title, y_label: "write amplification", log_y: false, marks: &[] };
    Some(draw::over_time(&chart, &lines, "exponent of the workload"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(workload: &str, exponent: f64, placement: &'static str, seed: u64, wa: f64) -> Row {
        Row {
            workload: workload.into(),
            exponent: Some(exponent),
            placement,
            victim: "greedy",
            seed,
            blocks: 100,
            segment_blocks: 2,
            user_writes: 100,
            cleaner_writes: 0,
            victims: 0,
            write_amplification: wa,
        }
    }

    #[test]
    fn the_page_names_the_policies_that_write_the_least() {
        let rows = [
            row("zipf:exponent=0", 0.0, "none", 1, 2.0),
            row("zipf:exponent=0", 0.0, "none", 2, 3.0),
            row("zipf:exponent=0", 0.0, "twin", 1, 1.5),
            row("zipf:exponent=1", 1.0, "none", 1, 1.4),
            row("zipf:exponent=1", 1.0, "twin", 1, 1.2),
        ];
        let page = page(&rows);
        assert!(
            page.contains("twin, greedy writes the least: 1.342. Next is none, greedy with 1.871.")
        );
        assert_eq!(page.matches("<svg").count(), 3, "a curve and two workloads");
        assert!(page.contains("2.500 (2.000 to 3.000)") && !page.contains("NaN"));
        assert!(!page.contains("<script") && !page.contains("http"));
    }

    #[test]
    fn policies_that_did_not_run_a_workload_have_no_mean_and_no_bar() {
        let rows = [row("a", 0.0, "none", 1, 2.0), row("b", 1.0, "twin", 1, 1.5)];
        let page = page(&rows);
        assert!(!page.contains("class=\"verdict\"") && !page.contains("NaN"), "{page}");
    }
}
