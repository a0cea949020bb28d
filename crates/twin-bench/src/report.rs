//! Benchmark results as tables for the terminal and as JSON.

use serde_json::{Value, json};

use super::run::Row;
use twin_lab::median;
use twin_report::columns::in_width;

/// A rate with three significant digits.
pub(super) fn short(rate: f64) -> String {
    match rate.abs() {
        r if r >= 100.0 => format!("{rate:.0}"),
        r if r >= 10.0 => format!("{rate:.1}"),
        _ => format!("{rate:.2}"),
    }
}

/// The median of the runs, and with several runs the largest deviation from it.
pub(super) fn cell(rates: &[f64]) -> String {
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

/// A table of medians with the largest deviation in percent: phases down, targets across; those that
/// do not fit into `width` characters in tables below.
pub fn table(rows: &[Row], targets: &[String], width: Option<u16>) -> String {
    let head = ["benchmark", "phase", "in"].into_iter().map(String::from);
    let header: Vec<String> = head.chain(targets.iter().cloned()).collect();
    let mut cells = Vec::new();
    let mut last = "";
    for row in rows {
        let bench = if row.bench == last { String::new() } else { row.bench.clone() };
        last = &row.bench;
        let head = [bench, row.phase.to_string(), row.unit.to_string()];
        cells.push(head.into_iter().chain(row.rates.iter().map(|r| cell(r))).collect());
    }
    in_width(&header, &cells, 3, width)
}

/// One object for each phase: for each target its name, the median, and all runs.
pub fn json(rows: &[Row], targets: &[String]) -> Value {
    let target = |name: &String, rates: &Vec<f64>| json!({ "target": name, "median": median(rates), "runs": rates });
    let row = |row: &Row| {
        let all: Vec<_> = targets.iter().zip(&row.rates).map(|(n, r)| target(n, r)).collect();
        json!({ "bench": row.bench, "phase": row.phase, "unit": row.unit, "targets": all })
    };
    Value::Array(rows.iter().map(row).collect())
}

/// The speed of the target at `ours` as a multiple of that of each other target, by medians: phases
/// down, targets across.
pub fn ratios(rows: &[Row], targets: &[String], ours: usize, width: Option<u16>) -> String {
    let others = || (0..targets.len()).filter(move |&i| i != ours);
    let head = ["benchmark".to_string(), format!("{} to:", targets[ours])];
    let header: Vec<String> =
        head.into_iter().chain(others().map(|i| targets[i].clone())).collect();
    let mut cells = Vec::new();
    let mut last = "";
    for row in rows.iter().filter(|row| !row.rates[ours].is_empty()) {
        let bench = if row.bench == last { String::new() } else { row.bench.clone() };
        last = &row.bench;
        let ratio = |i: usize| match row.rates[i].is_empty() {
            true => "-".into(),
            false => format!("{:.2}", median(&row.rates[ours]) / median(&row.rates[i])),
        };
        cells.push([bench, row.phase.to_string()].into_iter().chain(others().map(ratio)).collect());
    }
    in_width(&header, &cells, 2, width)
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
        let table = ratios(&rows, &names, 0, None);
        let last = table.lines().rfind(|line| line.contains("create")).unwrap_or_default();
        assert!(last.contains("2.22") && last.contains('-'), "{table}");
    }
}
