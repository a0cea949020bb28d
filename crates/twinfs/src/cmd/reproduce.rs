//! `twinfs reproduce`: the papers' measurements on the papers' hardware, modelled.

use std::path::Path;
use std::process::ExitCode;

use twin_lab::reproduce::choices::{self, Choice, Fitted};
use twin_lab::reproduce::fit::{self, Half};
use twin_lab::reproduce::wrong::Found;
use twin_lab::reproduce::{self, Claim, Judged, Paper, Results, Variation, clc, worth, wrong};

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
    let without = args.without.as_deref().map(choice).transpose()?;
    let variation = without.map_or(&Variation::NONE, |choice| &choice.without);
    let claims = chosen(all, &args.claims, without.map(|choice| choice.papers))?;
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
    let for_page = args.html.is_some();
    let result = reproduce::reproduce(&claims, for_page, variation, threads, &progress);
    let (judged, results) = result.map_err(|e| e.to_string())?;
    let sensitivity = match args.sensitivity {
        true => Some(choices::sensitivity(threads, &progress).map_err(|e| e.to_string())?),
        false => None,
    };
    if args.choices {
        let worths = worth::worths(&claims, &results, threads, &progress);
        bar.finish_and_clear();
        say(worth::text(&worths.map_err(|e| e.to_string())?).trim_end())?;
        return Ok(ExitCode::SUCCESS);
    }
    let found = match args.wrong {
        true => {
            let found = wrong::plant(&claims, &results, threads, &progress);
            Some(found.map_err(|e| e.to_string())?)
        }
        false => None,
    };
    bar.finish_and_clear();
    say_results(args.format, &judged, &results, found.as_deref())?;
    if args.html.is_some() && args.format == ReproduceFormat::Text {
        say(reproduce::present::text(&results).trim_end())?;
    }
    for (fitted, scores) in sensitivity.iter().flatten() {
        say_sensitivity(fitted, scores)?;
    }
    if args.cross_validate {
        cross_validate(threads)?;
    }
    if let Some(file) = page_file {
        file.write(&reproduce::html(&judged, &results, measured.as_ref()))?;
    }
    let missed = found.iter().flatten().any(|found| found.missed().next().is_some());
    Ok(if missed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// Prints the results, or with wrong models the checks that find them.
fn say_results(
    format: ReproduceFormat,
    judged: &[Judged],
    results: &Results,
    found: Option<&[Found]>,
) -> Result<(), String> {
    match (format, found) {
        (ReproduceFormat::Csv, _) => say(clc::csv(results).trim_end()),
        (ReproduceFormat::Text, Some(found)) => say(wrong::text(found).trim_end()),
        (ReproduceFormat::Text, None) => say(reproduce::text(judged).trim_end()),
        (ReproduceFormat::Json, found) => {
            let mut object = reproduce::json(judged);
            object["wrong"] = wrong::json(found.unwrap_or_default());
            say(object.to_string())
        }
    }
}

fn say_sensitivity(fitted: &Fitted, [less, more]: &[clc::Score; 2]) -> Result<(), String> {
    let part = |score: &clc::Score| {
        format!("{:.1}% median, {} within 10%", score.median * 100.0, score.within_10)
    };
    say(format!("{}: 5% less gives {}; 5% more {}", fitted.key, part(less), part(more)))
}

fn choice(name: &str) -> Result<&'static Choice, String> {
    choices::all().find(|choice| choice.name == name).ok_or_else(|| {
        let known: Vec<_> = choices::all().map(|choice| choice.name).collect();
        format!("there is no choice {name:?}; choose from: {}", known.join(", "))
    })
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

/// Fits the constants to each half, scores them on the other, and says whether they are those that
/// are declared.
fn cross_validate(threads: usize) -> Result<(), String> {
    let halves = [
        (Half::EvenSizes, "fitted to every second size, scored on the others"),
        (Half::OddSizes, "the other way round"),
        (Half::Efs, "fitted to EFS, scored on LFS"),
        (Half::Lfs, "fitted to LFS, scored on EFS"),
    ];
    for (half, what) in halves {
        let bar = progress_bar(0);
        let progress = |ended: usize, all: usize| {
            bar.set_length(all as u64);
            bar.set_position(ended as u64);
        };
        let settings = fit::fit(half, threads, &progress).map_err(|e| e.to_string())?;
        let score = fit::score(half.other(), &settings, threads).map_err(|e| e.to_string())?;
        bar.finish_and_clear();
        let clc::Score { cells, median, within_10, .. } = score;
        let median = median * 100.0;
        say(format!("{what}: median error {median:.1}%, {within_10} of {cells} within 10%"))?;
        let declared = if settings == fit::held_out(half) { "" } else { ", not as declared" };
        say(format!("    with {settings}{declared}"))?;
    }
    Ok(())
}

/// The claims of these names; without names those of the papers, or all.
fn chosen(
    all: &'static [Claim],
    names: &[String],
    papers: Option<&[Paper]>,
) -> Result<Vec<&'static Claim>, String> {
    if names.is_empty() {
        let has = |claim: &&Claim| papers.is_none_or(|papers| papers.contains(&claim.paper()));
        return Ok(all.iter().filter(has).collect());
    }
    let find = |name: &String| {
        all.iter().find(|c| c.id == name).ok_or_else(|| {
            let known: Vec<_> = all.iter().map(|c| c.id).collect();
            format!("there is no claim {name:?}; choose from: {}", known.join(", "))
        })
    };
    names.iter().map(find).collect()
}
