//! Benchmark results as tables for the terminal, as JSON and as a page with a chart.

use std::fmt::Write as _;

use comfy_table::{CellAlignment, Table, presets};
use serde_json::{Value, json};

use super::run::{Row, median};

/// A rate with three significant digits.
fn short(rate: f64) -> String {
    match rate.abs() {
        r if r >= 100.0 => format!("{rate:.0}"),
        r if r >= 10.0 => format!("{rate:.1}"),
        _ => format!("{rate:.2}"),
    }
}

/// The middle of the runs, and with several runs how far the others lie from it.
fn cell(rates: &[f64]) -> String {
    let middle = median(rates);
    if rates.is_empty() {
        return "-".into();
    }
    if rates.len() < 2 {
        return short(middle);
    }
    let far = rates.iter().map(|r| (r - middle).abs()).fold(0.0, f64::max);
    format!("{} ±{:.0}%", short(middle), far * 100.0 / middle.max(1e-12))
}

/// Phases down, targets across: medians, and the farthest run in percent.
pub fn table(rows: &[Row], targets: &[String]) -> String {
    let mut table = Table::new();
    table.load_style(presets::UTF8_FULL_CONDENSED);
    let head = ["benchmark", "phase", "in"].into_iter().map(String::from);
    table.set_header(head.chain(targets.iter().cloned()));
    let mut last = "";
    for row in rows {
        let bench = if row.bench == last { String::new() } else { row.bench.clone() };
        last = &row.bench;
        let head = [bench, row.phase.to_string(), row.unit.to_string()];
        table.add_row(head.into_iter().chain(row.rates.iter().map(|r| cell(r))));
    }
    for column in table.column_iter_mut().skip(3) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table.to_string()
}

/// One object a phase: for each target its name, the median, and all runs.
pub fn json(rows: &[Row], targets: &[String]) -> Value {
    let target = |name: &String, rates: &Vec<f64>| json!({ "target": name, "median": median(rates), "runs": rates });
    let row = |row: &Row| {
        let all: Vec<_> = targets.iter().zip(&row.rates).map(|(n, r)| target(n, r)).collect();
        json!({ "bench": row.bench, "phase": row.phase, "unit": row.unit, "targets": all })
    };
    Value::Array(rows.iter().map(row).collect())
}

/// How many times as fast the target at `ours` is as each of the others, by medians: phases down,
/// the others across.
pub fn ratios(rows: &[Row], targets: &[String], ours: usize) -> String {
    let mut table = Table::new();
    table.load_style(presets::UTF8_FULL_CONDENSED);
    let others = || (0..targets.len()).filter(move |&i| i != ours);
    let head = ["benchmark".to_string(), format!("{} to:", targets[ours])];
    table.set_header(head.into_iter().chain(others().map(|i| targets[i].clone())));
    let mut last = "";
    for row in rows.iter().filter(|row| !row.rates[ours].is_empty()) {
        let bench = if row.bench == last { String::new() } else { row.bench.clone() };
        last = &row.bench;
        let ratio = |i: usize| match row.rates[i].is_empty() {
            true => "-".into(),
            false => format!("{:.2}", median(&row.rates[ours]) / median(&row.rates[i])),
        };
        table.add_row([bench, row.phase.to_string()].into_iter().chain(others().map(ratio)));
    }
    for column in table.column_iter_mut().skip(2) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table.to_string()
}

const COLOURS: [&str; 9] = [
    "#4e79a7", "#f28e2b", "#e15759", "#76b7b2", "#59a14f", "#edc948", "#b07aa1", "#9c755f",
    "#bab0ac",
];
const BAR: usize = 12;
const LEFT: usize = 230;
const WIDTH: usize = 560;

/// A page that needs nothing else: for each phase the medians as bars, the fastest at full
/// length, with lines from the slowest to the fastest run.
pub fn bars(rows: &[Row], targets: &[String]) -> String {
    let mut svg = String::new();
    let mut y = 10;
    for row in rows {
        let runs = row.rates.iter().flatten();
        let most = runs.fold(0.0, |most: f64, &rate| most.max(rate)).max(1e-12);
        let name = escaped(&format!("{} {}, {}", row.bench, row.phase, row.unit));
        let _ = writeln!(svg, "<text x=\"0\" y=\"{}\" class=\"phase\">{name}</text>", y + BAR);
        y += BAR + 6;
        for (i, rates) in row.rates.iter().enumerate().filter(|(_, rates)| !rates.is_empty()) {
            let x = |rate: f64| LEFT as f64 + rate / most * WIDTH as f64;
            let (middle, colour) = (median(rates), COLOURS[i % COLOURS.len()]);
            let least = rates.iter().copied().fold(f64::INFINITY, f64::min);
            let best = rates.iter().copied().fold(0.0, f64::max);
            let (text, mid) = (y + BAR - 2, y + BAR / 2);
            let _ = writeln!(
                svg,
                "<text x=\"{}\" y=\"{text}\" text-anchor=\"end\">{}</text>\
                 <rect x=\"{LEFT}\" y=\"{y}\" width=\"{:.1}\" height=\"{}\" fill=\"{colour}\"/>\
                 <path d=\"M{:.1} {mid}H{:.1}\" stroke=\"black\"/>\
                 <text x=\"{}\" y=\"{text}\">{}</text>",
                LEFT - 6,
                escaped(&targets[i]),
                x(middle) - LEFT as f64,
                BAR - 2,
                x(least),
                x(best),
                LEFT + WIDTH + 6,
                short(middle),
            );
            y += BAR;
        }
        y += 8;
    }
    let width = LEFT + WIDTH + 70;
    format!(
        "<!doctype html><meta charset=\"utf-8\"><title>twinfs bench</title>\
         <style>text{{font:10px sans-serif}}.phase{{font-weight:bold;font-size:11px}}</style>\n\
         <h1>File systems side by side</h1><p>Medians; black: from the slowest to the fastest \
         run. Each phase has its own scale.</p>\n\
         <svg width=\"{width}\" height=\"{y}\" xmlns=\"http://www.w3.org/2000/svg\">\n{svg}</svg>\n"
    )
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows() -> (Vec<Row>, Vec<String>) {
        let rates = vec![vec![30.0, 10.0, 20.0], vec![8.0, 10.0], Vec::new()];
        let row = Row { bench: "small".into(), phase: "create", unit: "files/s", rates };
        (vec![row], ["ours", "<peer>", "absent"].map(String::from).into())
    }

    #[test]
    fn ratios_are_of_medians_and_what_was_not_measured_has_none() {
        let (rows, names) = rows();
        let table = ratios(&rows, &names, 0);
        let last = table.lines().rfind(|line| line.contains("create")).unwrap_or_default();
        assert!(last.contains("2.22") && last.contains('-'), "{table}");
    }

    #[test]
    fn a_page_has_a_bar_for_each_target_that_ran() {
        let (rows, names) = rows();
        let page = bars(&rows, &names);
        assert_eq!(page.matches("<rect").count(), 2);
        assert!(page.contains("&lt;peer>") && !page.contains("absent"));
    }
}
