//! Two sets of results against each other.
//!
//! Contract: runs are paired by workload, configuration and seed, whatever program made them. Medians over the
//! seeds are compared. What only one side has is counted and named, because a change that makes runs disappear
//! must not look like one that changes nothing.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::json;
use twin_lab::median;
use twin_report::{Report, Table, cells};
use twin_verdict::MeasureEntry;

use crate::store::{Brief, StoreError};

/// The rows of one side.
pub struct Side<'a, R> {
    /// Its name for people.
    pub name: &'a str,
    /// Its rows, which are gone through once.
    pub rows: R,
}

/// What differs.
pub struct Difference {
    /// The pairs, those that changed most first.
    pub report: Report,
    /// Pairs whose second side is larger by more than the threshold.
    pub worse: usize,
    /// Workloads and configurations that the first side has and the second lacks.
    pub lost: usize,
}

/// A workload and a configuration.
type Pair = (String, String);

/// The values of a side.
fn values<R>(
    name: &str,
    rows: R,
    measure: &MeasureEntry,
) -> Result<BTreeMap<Pair, Vec<f64>>, String>
where
    R: Iterator<Item = Result<Brief, StoreError>>,
{
    let mut seen: BTreeMap<Pair, (BTreeSet<u64>, Vec<f64>)> = BTreeMap::new();
    for row in rows {
        let row = row.map_err(|error| error.to_string())?;
        let value = row.value(measure);
        let (Some(workload), Some(config), Some(seed)) = (row.workload, row.config, row.seed)
        else {
            return Err(format!("{name}: a row names no workload, configuration or seed"));
        };
        let pair = (workload, config);
        let (seeds, values) = seen.entry(pair.clone()).or_default();
        if !seeds.insert(seed) {
            let (workload, config) = pair;
            return Err(format!(
                "{name} holds several results of {config} under {workload} with seed {seed}, of several \
                 programs or versions of the workload: compare stores that hold one each (`twinfs run \
                 --store DIR`)"
            ));
        }
        values.extend(value);
    }
    Ok(seen.into_iter().map(|(pair, (_, values))| (pair, values)).collect())
}

/// Compares the second side with the first by a measure. `threshold` is a share, such as 0.02.
///
/// # Errors
/// If a side cannot be understood, or holds two results of one run.
pub fn difference<R>(
    first: Side<'_, R>,
    second: Side<'_, R>,
    measure: &MeasureEntry,
    threshold: f64,
) -> Result<Difference, String>
where
    R: Iterator<Item = Result<Brief, StoreError>>,
{
    let before = values(first.name, first.rows, measure)?;
    let after = values(second.name, second.rows, measure)?;
    let mut pairs = Vec::new();
    let mut lost = Vec::new();
    for (pair, old) in &before {
        match after.get(pair) {
            Some(new) if !old.is_empty() && !new.is_empty() => {
                pairs.push((pair, median(old), median(new)));
            }
            // There is nothing to lose: the workload has no such operation, or the run failed before too.
            Some(_) if old.is_empty() => {}
            _ => lost.push(pair),
        }
    }
    let change = |old: f64, new: f64| if old == new { 0.0 } else { new / old - 1.0 };
    pairs.sort_by(|a, b| change(b.1, b.2).total_cmp(&change(a.1, a.2)));
    let worse = pairs.iter().filter(|(_, old, new)| change(*old, *new) > threshold).count();
    let better = pairs.iter().filter(|(_, old, new)| change(*old, *new) < -threshold).count();
    let new = after.keys().filter(|pair| !before.contains_key(*pair)).count();
    let title = format!("{} against {}", second.name, first.name);
    let mut report = Report::answer("diff", title);
    let verdict =
        said(&pairs_words(pairs.len(), worse, better, threshold), &lost, new, second.name);
    report.set_verdict(verdict, format!("Measure: {}, {}.", measure.name, measure.about));
    let row = |&((workload, config), old, new): &(&Pair, f64, f64)| {
        let percent = format!("{:+.1}%", change(old, new) * 100.0);
        cells![workload, config, measure.text(old), measure.text(new), percent]
    };
    let columns = ["workload", "config", first.name, second.name, "change"];
    report.add(Table::new(columns, 2).with(pairs.iter().map(row)));
    report.add_rows(pairs.iter().map(|((workload, config), old, new)| {
        json!({
            "workload": workload, "config": config, "measure": measure.name,
            "first": old, "second": new, "change": change(*old, *new),
        })
    }));
    Ok(Difference { report, worse, lost: lost.len() })
}

fn pairs_words(all: usize, worse: usize, better: usize, threshold: f64) -> String {
    let percent = threshold * 100.0;
    match (all, worse, better) {
        (0, ..) => "No run is in both.".into(),
        (_, 0, 0) => format!("None of {all} differs by more than {percent}%."),
        (_, worse, better) => {
            format!("Of {all}, {worse} are worse by more than {percent}%, and {better} are better.")
        }
    }
}

/// The verdict, with what only one side has.
fn said(pairs: &str, lost: &[&Pair], new: usize, second: &str) -> String {
    let mut said = pairs.to_string();
    if let Some((workload, config)) = lost.first() {
        said += &format!(
            " {} of the first have no figure in {second}, such as {config} under {workload}.",
            lost.len()
        );
    }
    if new > 0 {
        said += &format!(" {new} are only in {second}.");
    }
    said
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;
    use twin_report::Form;
    use twin_verdict::MEASURES;

    fn row(config: &str, seed: u64, finish: Option<f64>) -> Value {
        json!({
            "key": "", "workload": "mail", "config": config, "seed": seed,
            "measured": { "finish": finish }, "failed": 0,
        })
    }

    fn compared(first: &[Value], second: &[Value]) -> Result<Difference, String> {
        let side = |name, rows: &[Value]| {
            let rows: Vec<Value> = rows.to_vec();
            let rows = rows.into_iter().map(|row| Ok(serde_json::from_value(row).unwrap()));
            Side { name, rows }
        };
        difference(side("old", first), side("new", second), MEASURES.default_entry(), 0.02)
    }

    #[test]
    fn medians_over_seeds_are_compared() {
        let old = [1.0, 2.0, 9.0].map(Some);
        let new = [2.0, 2.1, 2.2].map(Some);
        let rows = |all: [Option<f64>; 3]| (0..3).map(move |n| row("lfs", n as u64, all[n]));
        let rows = |all| rows(all).collect::<Vec<_>>();
        let found = compared(&rows(old), &rows(new)).unwrap();
        assert_eq!((found.worse, found.lost), (1, 0));
        let json = found.report.write(Form::Json);
        assert!(json.contains("\"change\": 0.0500"), "{json}");
        assert_eq!(compared(&rows(old), &rows(old)).unwrap().worse, 0);
    }

    #[test]
    fn what_disappears_is_counted_and_what_is_new_is_named() {
        let old = [row("lfs", 0, Some(1.0)), row("ffs", 0, Some(1.0))];
        let new = [row("lfs", 0, Some(1.0)), row("ffs", 0, None), row("vsfs", 0, Some(1.0))];
        let found = compared(&old, &new).unwrap();
        assert_eq!((found.worse, found.lost), (0, 1));
        let text = found.report.write(Form::Terminal(None));
        assert!(
            text.contains("such as ffs under mail") && text.contains("1 are only in new"),
            "{text}"
        );
    }

    #[test]
    fn two_results_of_one_run_are_an_error_with_its_remedy() {
        let twice = [row("lfs", 0, Some(1.0)), row("lfs", 0, Some(2.0))];
        let error = compared(&twice, &[]).err().unwrap();
        assert!(error.contains("--store"), "{error}");
    }
}
