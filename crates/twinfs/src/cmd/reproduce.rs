//! `twinfs reproduce`: the papers' measurements on the papers' hardware, modelled.

use std::path::Path;
use std::process::ExitCode;

use serde_json::{Value, json};
use twin_papers::choices::{self, Choice, Fitted};
use twin_papers::fit::{self, Half};
use twin_papers::wrong::Found;
use twin_papers::{self as reproduce, Claim, Judged, Paper, Results, Variation, clc, worth, wrong};
use twin_report::Report;
use twin_settings::SettingsError;

use super::files::Page;
use super::printing::form;
use super::progress::Progress;
use super::{Failure, Interrupts, Outcome, say, usage};
use crate::cli::{Format, Reproduce};
use crate::input::{Wanted, must_be};

pub(crate) fn run(args: &Reproduce, interrupts: &Interrupts) -> Outcome {
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
    if args.cells && claims.iter().any(|claim| claim.id != TABLE) {
        return Err(usage(format!("--cells is for one claim: twinfs reproduce {TABLE} --cells")));
    }
    let prints_text = args.sensitivity || args.cross_validate || args.choices;
    if prints_text && !args.output.is_table() {
        let options = "--sensitivity, --cross-validate and --choices print text";
        return Err(usage(format!("{options}: leave --format out")));
    }
    let has_rows = !matches!(args.output.format(), Format::Csv | Format::Html);
    if args.wrong && !has_rows {
        return Err(usage("--wrong has no rows: use --format json"));
    }
    if args.without.is_some() && args.output.has_page() {
        return Err(usage("--without has no page: leave --format html out"));
    }
    // What cannot be read is said before minutes of work.
    let measured = args.measured.as_deref().map(measured).transpose()?;
    let page = args.output.html.as_deref().map(|path| Page::open(path, interrupts)).transpose()?;
    let threads = std::thread::available_parallelism().map_or(1, |n| n.get());
    let bar = Progress::share("the claims' runs");
    let told = bar.told();
    let for_page = args.output.has_page();
    let result = reproduce::reproduce(&claims, for_page, variation, threads, &told);
    let (judged, results) = result.map_err(|e| e.to_string())?;
    let sensitivity = match args.sensitivity {
        true => Some(choices::sensitivity(threads, &told).map_err(|e| e.to_string())?),
        false => None,
    };
    if args.choices {
        let worths = worth::worths(&claims, &results, threads, &told);
        bar.finish();
        say(worth::text(&worths).trim_end())?;
        return Ok(ExitCode::SUCCESS);
    }
    let found = match args.wrong {
        true => {
            bar.finish();
            let bar = Progress::share("runs of wrong models");
            let found = wrong::plant(&claims, &results, threads, &bar.told());
            Some(found.map_err(|e| e.to_string())?)
        }
        false => None,
    };
    bar.finish();
    say_results(args, &judged, &results, found.as_deref())?;
    let of_logging = |claim: &&Claim| matches!(claim.paper(), Paper::Clc | Paper::Lvc);
    let ran_present = for_page && claims.iter().any(of_logging);
    if ran_present && !args.cells && args.output.is_table() {
        say(reproduce::present::text(&results).trim_end())?;
    }
    for (fitted, scores) in sensitivity.iter().flatten() {
        say_sensitivity(fitted, scores)?;
    }
    if args.cross_validate {
        cross_validate(threads)?;
    }
    if for_page {
        let text = reproduce::html(&judged, &results, measured.as_ref());
        page.map_or(Ok(()), |page| page.write(&text))?;
        if args.output.format() == Format::Html {
            say(text.trim_end())?;
        }
    }
    let missed = found.iter().flatten().any(|found| found.missed().next().is_some());
    Ok(if missed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// The claim whose cells can be printed.
const TABLE: &str = "efs-table";

/// Prints the results, or with wrong models the checks that find them.
fn say_results(
    args: &Reproduce,
    judged: &[Judged],
    results: &Results,
    found: Option<&[Found]>,
) -> Result<(), String> {
    let mut object = reproduce::json(judged);
    let printed = |report: &Report| say(report.write(form(args.output.format())).trim_end());
    match (found, args.cells) {
        (Some(found), _) if args.output.is_table() => say(wrong::text(found).trim_end()),
        (Some(found), _) => {
            object["wrong"] = wrong::json(found);
            say(object.to_string())
        }
        // The page is made of more than these.
        (None, _) if args.output.format() == Format::Html => Ok(()),
        (None, true) => printed(&Report::plain("", clc::csv(results), cells(results))),
        (None, false) => {
            let checks = object["checks"].as_array().cloned().unwrap_or_default();
            printed(&Report::plain("", reproduce::text(judged), checks))
        }
    }
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

fn say_sensitivity(fitted: &Fitted, [less, more]: &[clc::Score; 2]) -> Result<(), String> {
    let part = |score: &clc::Score| {
        format!("{:.1}% median, {} within 10%", score.median * 100.0, score.within_10)
    };
    say(format!("{}: 5% less gives {}; 5% more {}", fitted.key, part(less), part(more)))
}

fn choice(name: &str) -> Result<&'static Choice, Failure> {
    let shown = || choices::all().filter(|choice| choice.has_run());
    shown().find(|choice| choice.name == name).ok_or_else(|| {
        usage(SettingsError::unknown("choice", name, shown().map(|choice| choice.name)))
    })
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

/// Fits the constants to all cells, then to each half and scores them on the other; says whether they
/// are those that are declared.
fn cross_validate(threads: usize) -> Result<(), String> {
    let halves = [
        (Half::All, "fitted to all cells, scored on them"),
        (Half::EvenSizes, "fitted to every second size, scored on the others"),
        (Half::OddSizes, "the other way round"),
        (Half::Efs, "fitted to EFS, scored on LFS"),
        (Half::Lfs, "fitted to LFS, scored on EFS"),
    ];
    for (half, what) in halves {
        let bar = Progress::share("runs of a fit");
        let told = bar.told();
        let settings = fit::fit(half, threads, &told).map_err(|e| e.to_string())?;
        let score = fit::score(half.other(), &settings, threads).map_err(|e| e.to_string())?;
        bar.finish();
        let clc::Score { cells, median, within_10, .. } = score;
        let median = median * 100.0;
        say(format!("{what}: median error {median:.1}%, {within_10} of {cells} within 10%"))?;
        say(format!("    with {settings}"))?;
        let declared = fit::declared(half);
        if settings != declared {
            let score = fit::score(half.other(), &declared, threads).map_err(|e| e.to_string())?;
            let (median, within_10) = (score.median * 100.0, score.within_10);
            say(format!("    declared: {declared}: {median:.1}%, {within_10} within 10%"))?;
        }
    }
    Ok(())
}

/// The claims of these names; without names those of the papers, or all.
fn chosen(
    all: &'static [Claim],
    names: &[String],
    papers: Option<&[Paper]>,
) -> Result<Vec<&'static Claim>, Failure> {
    if names.is_empty() {
        let has = |claim: &&Claim| papers.is_none_or(|papers| papers.contains(&claim.paper()));
        return Ok(all.iter().filter(has).collect());
    }
    let find = |name: &String| {
        all.iter().find(|c| c.id == name).ok_or_else(|| {
            usage(SettingsError::unknown("claim", name, all.iter().map(|claim| claim.id)))
        })
    };
    names.iter().map(find).collect()
}
