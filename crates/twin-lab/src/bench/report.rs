//! Benchmark results as a table for the terminal and as JSON.

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
