//! `twinfs reproduce`: the papers' measurements on the papers' hardware, modelled.

use std::path::Path;
use std::process::ExitCode;

use serde_json::{Value, json};
use twin_lab::reproduce::fit::{self, Half};
use twin_lab::reproduce::{self, Check, Claim, Judged, Results, clc, fitted};
use twin_settings::SettingsError;

use super::files::Page;
use super::progress::Progress;
use super::{Failure, Interrupts, Outcome, say, usage};
use crate::cli::Reproduce;
use crate::input::{Wanted, must_be};
use crate::rows;

pub(crate) fn run(args: &Reproduce, interrupts: &Interrupts) -> Outcome {
    let all = reproduce::claims();
    if args.list {
        for claim in all {
            say(format!("{:<18} {} [{}]", claim.id, claim.says, claim.source))?;
        }
        return Ok(ExitCode::SUCCESS);
    }
    let claims = chosen(all, &args.claims)?;
    if args.cells && claims.iter().any(|claim| claim.id != TABLE) {
        return Err(usage(format!("--cells is for one claim: twinfs reproduce {TABLE} --cells")));
    }
    if (args.sensitivity || args.cross_validate) && !args.output.is_table() {
        return Err(usage("--sensitivity and --cross-validate print text: leave --format out"));
    }
    // What cannot be read is said before minutes of work.
    let measured = args.measured.as_deref().map(measured).transpose()?;
    let page_file = args.html.as_deref().map(|path| Page::open(path, interrupts)).transpose()?;
    let threads = std::thread::available_parallelism().map_or(1, |n| n.get());
    let bar = Progress::of("runs", 1);
    let progress = |ended: usize, all: usize| bar.set(ended as u64, all as u64);
    let result = reproduce::reproduce(&claims, args.html.is_some(), threads, &progress);
    let (judged, results) = result.map_err(|e| e.to_string())?;
    let sensitivity = match args.sensitivity {
        true => Some(fitted::sensitivity(threads, &progress).map_err(|e| e.to_string())?),
        false => None,
    };
    bar.finish();
    match args.cells {
        true => rows::print(&args.output, &cells(&results), || Ok(clc::csv(&results)))?,
        false => rows::print(&args.output, &statements(&judged), || Ok(reproduce::text(&judged)))?,
    }
    if args.html.is_some() && !args.cells && args.output.is_table() {
        say(reproduce::present::text(&results).trim_end())?;
    }
    for (fitted, [less, more]) in sensitivity.iter().flatten() {
        let part = |score: &clc::Score| {
            format!("{:.1}% median, {} within 10%", score.median * 100.0, score.within_10)
        };
        say(format!("{}: 5% less gives {}; 5% more {}", fitted.key, part(less), part(more)))?;
    }
    if args.cross_validate {
        cross_validate(threads)?;
    }
    if let Some(file) = page_file {
        file.write(&reproduce::html(&judged, &results, measured.as_ref()))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// The claim whose cells can be printed.
const TABLE: &str = "efs-table";

/// A row for each statement.
fn statements(judged: &[Judged]) -> Vec<Value> {
    let row = |claim: &Claim, check: &Check| {
        json!({
            "claim": claim.id, "source": claim.source, "statement": check.what,
            "paper": check.paper.to_string(), "ours": check.ours, "holds": check.holds(),
            "reason": check.reason.filter(|_| !check.holds()),
        })
    };
    let of_claim = |one: &Judged| one.checks.iter().map(|c| row(one.claim, c)).collect::<Vec<_>>();
    judged.iter().flat_map(of_claim).collect()
}

/// The table of 1994: a row for each size, in MB a second.
fn cells(results: &Results) -> Vec<Value> {
    let all = clc::cells(results);
    let mut rows: Vec<Value> = Vec::new();
    for cell in all {
        if rows.last().is_none_or(|row| row["file_kb"] != cell.file_kb) {
            rows.push(json!({ "file_kb": cell.file_kb }));
        }
        let system = match cell.system {
            clc::System::Efs => "efs",
            clc::System::Lfs => "lfs",
        };
        if let Some(row) = rows.last_mut() {
            row[format!("{}_{system}_mb_per_s", clc::COLUMNS[cell.column].0)] = json!(cell.ours);
        }
    }
    rows
}

/// Rows of `twinfs bench --format json`.
fn measured(path: &Path) -> Result<serde_json::Value, String> {
    must_be(path, Wanted::Results)?;
    let text = std::fs::read_to_string(path).map_err(|e| e.to_string());
    let value: Result<serde_json::Value, _> =
        text.and_then(|t| serde_json::from_str(&t).map_err(|e| e.to_string()));
    match value {
        Ok(rows) if rows.is_array() => Ok(rows),
        Ok(_) => Err("it is not what twinfs bench --format json prints, an array of rows".into()),
        Err(error) => Err(error),
    }
    .map_err(|e| format!("{}: {e}", path.display()))
}

fn cross_validate(threads: usize) -> Result<(), String> {
    let halves = [
        (Half::EvenSizes, "fitted on every second size, scored on the others"),
        (Half::OddSizes, "the other way round"),
        (Half::Efs, "fitted on EFS, scored on LFS"),
        (Half::Lfs, "fitted on LFS, scored on EFS"),
    ];
    for (half, what) in halves {
        let bar = Progress::of("runs", 1);
        let progress = |ended: usize, all: usize| bar.set(ended as u64, all as u64);
        let (settings, score) = fit::cross(half, threads, &progress).map_err(|e| e.to_string())?;
        bar.finish();
        let clc::Score { cells, median, within_10, .. } = score;
        let median = median * 100.0;
        say(format!("{what}: median error {median:.1}%, {within_10} of {cells} within 10%"))?;
        say(format!("    with {settings}"))?;
    }
    Ok(())
}

fn chosen(all: &'static [Claim], names: &[String]) -> Result<Vec<&'static Claim>, Failure> {
    if names.is_empty() {
        return Ok(all.iter().collect());
    }
    let find = |name: &String| {
        all.iter().find(|c| c.id == name).ok_or_else(|| {
            let known = all.iter().map(|c| c.id);
            usage(SettingsError::unknown("claim", name, known))
        })
    };
    names.iter().map(find).collect()
}
