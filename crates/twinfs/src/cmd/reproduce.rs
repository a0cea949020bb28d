//! `twinfs reproduce`: the papers' measurements on the papers' hardware, modelled.

use std::path::Path;
use std::process::ExitCode;

use twin_lab::reproduce::fit::{self, Half};
use twin_lab::reproduce::{self, Claim, clc, fitted};

use super::files::Page;
use super::time::progress_bar;
use super::{Outcome, say};
use crate::cli::{Reproduce, ReproduceFormat};

pub(crate) fn run(args: &Reproduce) -> Outcome {
    let all = reproduce::claims();
    if args.list {
        for claim in all {
            say(format!("{:<18} {} [{}]", claim.id, claim.says, claim.source))?;
        }
        return Ok(ExitCode::SUCCESS);
    }
    let claims = chosen(all, &args.claims)?;
    if args.format == ReproduceFormat::Csv && claims.iter().any(|c| c.id != "efs-table") {
        return Err(
            "--format csv is for efs-table alone: twinfs reproduce efs-table --format csv".into()
        );
    }
    // What cannot be read is said before minutes of work.
    let measured = args.measured.as_deref().map(measured).transpose()?;
    let page_file = args.html.as_deref().map(Page::open).transpose()?;
    let threads = std::thread::available_parallelism().map_or(1, |n| n.get());
    let bar = progress_bar(0);
    let progress = |ended: usize, all: usize| {
        bar.set_length(all as u64);
        bar.set_position(ended as u64);
    };
    let result = reproduce::reproduce(&claims, args.html.is_some(), threads, &progress);
    let (judged, results) = result.map_err(|e| e.to_string())?;
    let sensitivity = match args.sensitivity {
        true => Some(fitted::sensitivity(threads, &progress).map_err(|e| e.to_string())?),
        false => None,
    };
    bar.finish_and_clear();
    match args.format {
        ReproduceFormat::Csv => say(clc::csv(&results).trim_end())?,
        ReproduceFormat::Text => say(reproduce::text(&judged).trim_end())?,
    }
    if args.html.is_some() && args.format == ReproduceFormat::Text {
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

/// Rows of `twinfs bench --json`.
fn measured(path: &Path) -> Result<serde_json::Value, String> {
    let text = std::fs::read_to_string(path).map_err(|e| e.to_string());
    let value: Result<serde_json::Value, _> =
        text.and_then(|t| serde_json::from_str(&t).map_err(|e| e.to_string()));
    match value {
        Ok(rows) if rows.is_array() => Ok(rows),
        Ok(_) => Err("it is not what twinfs bench --json prints, an array of rows".into()),
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
        let bar = progress_bar(0);
        let progress = |ended: usize, all: usize| {
            bar.set_length(all as u64);
            bar.set_position(ended as u64);
        };
        let (settings, score) = fit::cross(half, threads, &progress).map_err(|e| e.to_string())?;
        bar.finish_and_clear();
        let clc::Score { cells, median, within_10, .. } = score;
        let median = median * 100.0;
        say(format!("{what}: median error {median:.1}%, {within_10} of {cells} within 10%"))?;
        say(format!("    with {settings}"))?;
    }
    Ok(())
}

fn chosen(all: &'static [Claim], names: &[String]) -> Result<Vec<&'static Claim>, String> {
    if names.is_empty() {
        return Ok(all.iter().collect());
    }
    let find = |name: &String| {
        all.iter().find(|c| c.id == name).ok_or_else(|| {
            let known: Vec<_> = all.iter().map(|c| c.id).collect();
            format!("there is no claim {name:?}; choose from: {}", known.join(", "))
        })
    };
    names.iter().map(find).collect()
}
