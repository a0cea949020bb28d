//! The results of benchmarks for scripts.

use serde_json::{Value, json};
use twin_bench::{self as bench, Row};

use crate::cli::{Format, Output};

/// The rows of a benchmark for scripts: as JSON an object a phase with all targets in it, otherwise a row
/// for each phase and target.
pub(super) fn in_targets(output: &Output, rows: &[Row], names: &[String]) -> Vec<Value> {
    let Value::Array(phases) = bench::json(rows, names) else { return Vec::new() };
    if output.format() == Format::Json {
        return phases;
    }
    let mut all = Vec::new();
    for phase in phases {
        for target in phase["targets"].as_array().into_iter().flatten() {
            let runs = target["runs"].as_array().into_iter().flatten();
            let rates: Vec<f64> = runs.filter_map(Value::as_f64).collect();
            let least = rates.iter().copied().reduce(f64::min);
            let most = rates.iter().copied().reduce(f64::max);
            all.push(json!({
                "bench": phase["bench"], "phase": phase["phase"], "unit": phase["unit"],
                "target": target["target"], "runs": rates.len(),
                "median_per_s": target["median"], "min_per_s": least, "max_per_s": most,
            }));
        }
    }
    all
}
