//! The report on a study of bare volumes: which policies write the least, charts, and all medians.

use twin_lab::median;
use twin_report::draw::{self, Bar, Chart, Group, Line, Span, bars, nth};
use twin_report::table::{Cell, fixed};
use twin_report::{Report, Table, cells};

use super::Row;

/// The write amplifications of a pair of policies.
struct Pair<'a> {
    placement: &'a str,
    victim: &'a str,
    /// For each workload, in order, the values of all seeds; empty if it was not run.
    values: Vec<Vec<f64>>,
}

impl Pair<'_> {
    fn name(&self) -> String {
        format!("{}, {}", self.placement, self.victim)
    }

    /// The geometric mean of the medians over all workloads; `None` if one was not run.
    fn mean(&self) -> Option<f64> {
        Some(mean(self.values.iter().map(|values| median(values)))).filter(|mean| mean.is_finite())
    }
}

/// The geometric mean; 1 of nothing.
fn mean(values: impl ExactSizeIterator<Item = f64>) -> f64 {
    let count = values.len().max(1) as f64;
    (values.map(f64::ln).sum::<f64>() / count).exp()
}

/// The rows by workload and policies.
struct Found<'a> {
    /// The workloads, each with its exponent if it has one, in the order of the rows.
    workloads: Vec<(&'a str, Option<f64>)>,
    pairs: Vec<Pair<'a>>,
}

impl<'a> Found<'a> {
    fn of(rows: &'a [Row]) -> Found<'a> {
        let mut workloads: Vec<(&str, Option<f64>)> = Vec::new();
        let mut pairs: Vec<Pair<'_>> = Vec::new();
        for row in rows {
            let workload = workloads.iter().position(|(name, _)| *name == row.workload);
            let workload = workload.unwrap_or_else(|| {
                workloads.push((&row.workload, row.exponent));
                workloads.len() - 1
            });
            let (placement, victim) = (row.placement, row.victim);
            let is_same = |pair: &Pair<'_>| (pair.placement, pair.victim) == (placement, victim);
            let at = pairs.iter().position(is_same).unwrap_or_else(|| {
                pairs.push(Pair { placement, victim, values: Vec::new() });
                pairs.len() - 1
            });
            let values = &mut pairs[at].values;
            values.resize(values.len().max(workload + 1), Vec::new());
            values[workload].push(row.write_amplification);
        }
        pairs.iter_mut().for_each(|pair| pair.values.resize(workloads.len(), Vec::new()));
        Found { workloads, pairs }
    }

    /// Medians over seeds: a row for each pair of policies, a column for each workload.
    fn table(&self) -> Table {
        let columns = ["placement", "victim"].into_iter();
        let row = |pair: &Pair<'_>| {
            let cell = |values: &Vec<f64>| match values.is_empty() {
                true => Cell::default(),
                false => fixed(median(values), 3),
            };
            let names = cells![pair.placement, pair.victim];
            names.into_iter().chain(pair.values.iter().map(cell)).collect()
        };
        Table::new(columns.chain(self.workloads.iter().map(|(name, _)| *name)), 2)
            .with(self.pairs.iter().map(row))
    }
}

/// The report on these rows.
pub fn report(rows: &[Row]) -> Report {
    let found = Found::of(rows);
    let mut report = Report::answer("volume", "Cleaning a log: write amplification");
    let (answer, measure) = verdict(&found);
    report.set_verdict(answer, measure);
    report.add(found.table());
    report.on_page(
        "Write amplification: all blocks written over those that users wrote. A pair of names is a \
         placement and a victim policy. With several seeds a bar is the median, and its line reaches from \
         the smallest to the largest value.",
    );
    let of_workloads = (0..found.workloads.len()).map(|at| of_workload(at, &found));
    report.on_page(over_exponents(&found).into_iter().chain(of_workloads).collect::<Vec<_>>());
    report.add_rows(rows);
    report
}

/// The medians in Markdown, for documents, with the geometric mean over the workloads.
pub fn markdown(rows: &[Row]) -> String {
    let found = Found::of(rows);
    let mut table = found.table();
    let means = found.pairs.iter().map(|pair| {
        let known: Vec<&Vec<f64>> = pair.values.iter().filter(|v| !v.is_empty()).collect();
        fixed(mean(known.iter().map(|values| median(values))), 3)
    });
    table.add_column("geometric mean", means);
    table.markdown()
}

/// What our own policies lack to the best other pair, in Markdown: for each workload the best other
/// pair, its write amplification, ours and the ratio, then the geometric mean of the ratios. The
/// rows are those of [`rivals`](super::rivals); figures are medians over seeds.
pub fn gaps(rows: &[Row]) -> String {
    let found = Found::of(rows);
    let columns =
        ["workload", "best other placement", "victim", "its amplification", "ours", "ratio"];
    let mut table = Table::new(columns, 1);
    let Some((own, others)) = found.pairs.split_first() else { return table.markdown() };
    let mut ratios = Vec::new();
    for (at, (workload, _)) in found.workloads.iter().enumerate() {
        let value = |pair: &Pair<'_>| Some(median(&pair.values[at])).filter(|v| v.is_finite());
        let known = others.iter().filter_map(|pair| Some((pair, value(pair)?)));
        let best = known.min_by(|a, b| a.1.total_cmp(&b.1));
        let (Some((best, its)), Some(ours)) = (best, value(own)) else { continue };
        let [its_cell, ours_cell, ratio] = [its, ours, ours / its].map(|value| fixed(value, 3));
        table.push(cells![*workload, best.placement, best.victim, its_cell, ours_cell, ratio]);
        ratios.push(ours / its);
    }
    let mean = fixed(mean(ratios.into_iter()), 3);
    table.push(cells!["geometric mean", "", "", "", "", mean]);
    table.markdown()
}

/// Which policies write the least, and what that is measured by.
fn verdict(found: &Found<'_>) -> (String, String) {
    let mut means: Vec<(String, f64)> =
        found.pairs.iter().filter_map(|pair| Some((pair.name(), pair.mean()?))).collect();
    means.sort_by(|a, b| a.1.total_cmp(&b.1));
    let over = match found.workloads.len() {
        ..=1 => "",
        _ => ", geometric mean over the workloads",
    };
    let text = match &means[..] {
        [] => "No pair of policies ran all workloads, so none is the best of all.".into(),
        [(name, mean)] => {
            format!(
                "{name} writes {mean:.3} times what users write. There is no other pair to compare."
            )
        }
        [(first, least), (second, next), ..] => {
            format!(
                "{first} writes the least: {least:.3} times what users write. Next is {second} with {next:.3}."
            )
        }
    };
    (text, format!("Measure: write amplification{over}; smaller is better."))
}

/// The bars of a workload, the least write amplification first.
fn of_workload(at: usize, found: &Found<'_>) -> String {
    let mut all: Vec<Bar> = Vec::new();
    for (number, pair) in found.pairs.iter().enumerate() {
        let values = &pair.values[at];
        let value = median(values);
        let bar = Bar::new(pair.name(), nth(number), value).over(values);
        let text = match bar.range {
            Some((low, high)) => format!("{value:.3} ({low:.3} to {high:.3})"),
            None => format!("{value:.3}"),
        };
        all.push(Bar { text, ..bar });
    }
    all.sort_by(|a, b| a.value.total_cmp(&b.value));
    let group = Group { title: String::new(), bars: all };
    bars(found.workloads[at].0, &[group], Span::Shared)
}

/// Write amplification over the exponent of the workload, if there are at least two.
fn over_exponents(Found { workloads, pairs }: &Found<'_>) -> Option<String> {
    let exponents: Vec<f64> = workloads.iter().filter_map(|(_, exponent)| *exponent).collect();
    let distinct = exponents.windows(2).all(|pair| pair[0] < pair[1]);
    if exponents.len() < 2 || exponents.len() < workloads.len() || !distinct {
        return None;
    }
    let line = |(number, pair): (usize, &Pair<'_>)| {
        let points = exponents.iter().zip(&pair.values);
        let points = points.map(|(&exponent, values)| (exponent, median(values))).collect();
        Line { name: pair.name(), colour: nth(number), paper: false, points }
    };
    let lines: Vec<Line> = pairs.iter().enumerate().map(line).collect();
    let title = format!("Exponents {} to {}", exponents[0], exponents[exponents.len() - 1]);
    let chart = Chart { title: &title, y_label: "write amplification", log_y: false, marks: &[] };
    Some(draw::over_time(&chart, &lines, "exponent of the workload"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use twin_report::Form;

    fn row(workload: &str, exponent: f64, placement: &'static str, seed: u64, wa: f64) -> Row {
        Row {
            workload: workload.into(),
            exponent: Some(exponent),
            placement,
            victim: "v",
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
        let page = report(&rows).write(Form::Html);
        assert!(page.contains(
            "twin, v writes the least: 1.342 times what users write. Next is none, v with 1.871."
        ));
        assert_eq!(page.matches("<svg").count(), 3, "a curve and two workloads");
        assert!(page.contains("2.500 (2.000 to 3.000)") && !page.contains("NaN"));
        assert!(!page.contains("<script") && !page.contains("http"));
        assert!(markdown(&rows).ends_with("| twin | v | 1.500 | 1.200 | 1.342 |"));
    }

    #[test]
    fn policies_that_did_not_run_a_workload_have_no_mean_and_no_bar() {
        let rows = [row("a", 0.0, "none", 1, 2.0), row("b", 1.0, "twin", 1, 1.5)];
        let page = report(&rows).write(Form::Html);
        assert!(!page.contains("writes the least") && !page.contains("NaN"), "{page}");
    }

    #[test]
    fn the_gap_is_measured_to_the_best_other_pair_of_each_workload() {
        let rows = [
            row("a", 0.0, "ours", 1, 2.2),
            row("a", 0.0, "b", 1, 2.0),
            row("a", 0.0, "c", 1, 3.0),
            row("z", 0.0, "ours", 1, 1.0),
            row("z", 0.0, "b", 1, 1.5),
            row("z", 0.0, "c", 1, 1.1),
        ];
        let found = gaps(&rows);
        assert!(found.contains("| a | b | v | 2.000 | 2.200 | 1.100 |"), "{found}");
        assert!(found.contains("| z | c | v | 1.100 | 1.000 | 0.909 |"), "{found}");
        assert!(found.ends_with("| geometric mean |  |  |  |  | 1.000 |"), "{found}");
    }
}
