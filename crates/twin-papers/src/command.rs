//! The command `twinfs reproduce`: the papers' measurements on the papers' hardware, modelled.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::{Value, json};
use twin_bench::Phase;
use twin_cli::progress::Progress;
use twin_cli::{Failure, Format, Keep, Outcome, Place, Printer, Reproduce, SoFar, say, usage};
use twin_host::Interrupts;
use twin_report::{Part, Report};
use twin_settings::SettingsError;

use crate::choices::{self, Choice, Fitted};
use crate::experiments::{EXPERIMENTS, Experiment};
use crate::explain;
use crate::fit::{self, Half};
use crate::loads::{self, Load};
use crate::wrong::Found;
use crate::{self as reproduce, Claim, Judged, Need, Paper, Results, Variation, clc, worth, wrong};

/// What is asked for can be printed in the form that is asked for.
fn has_form(args: &Reproduce) -> Result<(), &'static str> {
    let prints_text = args.sensitivity || args.cross_validate || args.choices;
    if prints_text && !args.output.is_table() {
        return Err("--sensitivity, --cross-validate and --choices print text: leave --format out");
    }
    if args.wrong && !matches!(args.output.format(), Format::Table | Format::Json) {
        return Err("--wrong has no rows: use --format json");
    }
    if (args.without.is_some() || args.with.is_some()) && args.output.has_page() {
        return Err("--without and --with have no page: leave --format html out");
    }
    Ok(())
}

/// Carries the command out.
///
/// # Errors
/// If an argument does not fit, a run fails or the answer cannot be written.
pub fn run(args: &Reproduce, interrupts: &Interrupts) -> Outcome {
    let all = reproduce::claims();
    if args.list {
        return listed(all);
    }
    if !args.of.is_empty() {
        return failures_in(&args.of);
    }
    if args.loads.is_some() || args.fit.is_some() {
        return of_loads(args, interrupts);
    }
    let without = args.without.as_deref().map(choice).transpose()?;
    let with = args.with.as_deref().map(experiment).transpose()?;
    let varied = without.map(|choice| &choice.without).or(with.map(|one| &one.runs));
    let variation = varied.unwrap_or(&Variation::NONE);
    let claims = claims_of(all, args, (without, with))?;
    // What cannot be read is said before minutes of work.
    let measured = args.measured.as_deref().map(measured).transpose()?;
    let threads = std::thread::available_parallelism().map_or(1, |n| n.get());
    let bar = Progress::share("the claims' runs");
    let shown = bar.told();
    let for_page = args.output.has_page();
    let base = Base { claims: &claims, variation, threads, bar: &bar };
    let Some((mut printer, judged, results)) = base.run(args, interrupts)? else {
        return Ok(ExitCode::FAILURE);
    };
    if let Some(text) = &args.explain {
        return explained((&claims, text), &results, threads, (&bar, printer));
    }
    let sensitivity = match args.sensitivity {
        true => Some(choices::sensitivity(threads, &shown).map_err(|e| e.to_string())?),
        false => None,
    };
    if args.choices {
        return worths_of((&claims, &results), threads, &bar);
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
    let mut report = report(args, &judged, &results, found.as_deref());
    if args.quick {
        tell_left_out(&mut report, &judged);
    }
    if for_page {
        report.set_page(reproduce::html(&judged, &results, measured.as_ref()));
        let of_logging = |claim: &&Claim| matches!(claim.paper(), Paper::Clc | Paper::Lvc);
        if claims.iter().any(of_logging) && !args.cells {
            report.on_terminal(Part::Lines(reproduce::present::text(&results)));
        }
    }
    printer.print(&report)?;
    for (fitted, scores) in sensitivity.iter().flatten() {
        say_sensitivity(fitted, scores)?;
    }
    if args.cross_validate {
        cross_validate(threads)?;
    }
    let missed = found.iter().flatten().any(|found| found.missed().next().is_some());
    Ok(if missed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// Prints what there is to reproduce.
fn listed(all: &[Claim]) -> Outcome {
    for claim in all {
        say(format!("{:<18} {} [{}]", claim.id, claim.says, claim.source))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Prints loads beside the published tables, or the parameters of one, searched again.
fn of_loads(args: &Reproduce, interrupts: &Interrupts) -> Outcome {
    let name = args.fit.as_deref().or(args.loads.as_deref()).unwrap_or_default();
    let chosen: Vec<&Load> = match name {
        ALL_LOADS => loads::LOADS.iter().collect(),
        name => vec![loads::load(name).map_err(usage)?],
    };
    let mut printer = Printer::of(&args.output, interrupts)?;
    let threads = std::thread::available_parallelism().map_or(1, |n| n.get());
    let bar = Progress::share("runs of loads");
    let report = match (&args.fit, chosen.as_slice()) {
        (Some(_), [load]) => loads::fit_report(load, &bar.told()),
        (Some(_), _) => return Err(usage("--fit takes the name of one load")),
        (None, all) => loads::report(all, threads, &bar.told()),
    };
    bar.finish();
    printer.print(&report?)?;
    Ok(ExitCode::SUCCESS)
}

/// What `--loads` without a name means.
const ALL_LOADS: &str = "all";

/// Prints the table of what does not hold in kept answers.
fn failures_in(paths: &[PathBuf]) -> Outcome {
    let answers: Result<Vec<Value>, String> = paths.iter().map(|path| answer_in(path)).collect();
    say(reproduce::failures_of(&answers?).trim_end())?;
    Ok(ExitCode::SUCCESS)
}

/// Prints what each choice is worth.
fn worths_of(
    (claims, results): (&[&'static Claim], &Results),
    threads: usize,
    bar: &Progress,
) -> Outcome {
    let worths = worth::worths(claims, results, threads, &bar.told());
    bar.finish();
    say(worth::text(&worths).trim_end())?;
    Ok(ExitCode::SUCCESS)
}

/// Prints what is behind one check.
fn explained(
    (claims, text): (&[&'static Claim], &str),
    results: &Results,
    threads: usize,
    (bar, mut printer): (&Progress, Printer),
) -> Outcome {
    let which = explain::find(claims, results, text).map_err(usage)?;
    let report = explain::explain(which, results, threads, &bar.told());
    bar.finish();
    printer.print(&report)?;
    Ok(ExitCode::SUCCESS)
}

/// The claims that the arguments name, if the arguments fit together.
fn claims_of(
    all: &'static [Claim],
    args: &Reproduce,
    (without, with): (Option<&Choice>, Option<&Experiment>),
) -> Result<Vec<&'static Claim>, Failure> {
    let mut claims = chosen(all, &args.claims, without.map(|choice| choice.papers))?;
    if let Some(experiment) = with.filter(|_| args.claims.is_empty()) {
        claims.retain(|claim| experiment.claims.contains(&claim.id));
    }
    claims.retain(|claim| !args.quick || !takes_long(claim));
    if args.cells && claims.iter().any(|claim| claim.id != TABLE) {
        return Err(usage(format!("--cells is for one claim: twinfs reproduce {TABLE} --cells")));
    }
    has_form(args).map_err(usage)?;
    match &args.explain {
        Some(text) => explain::narrowed(claims, text).map_err(usage),
        None => Ok(claims),
    }
}

/// The runs of claims, which an interrupt ends with what there is.
struct Base<'a> {
    claims: &'a [&'static Claim],
    variation: &'a Variation,
    threads: usize,
    bar: &'a Progress,
}

impl Base<'_> {
    /// Runs and judges the claims; nothing if an interrupt has printed what there was.
    fn run(
        &self,
        args: &Reproduce,
        interrupts: &Interrupts,
    ) -> Result<Option<(Printer, Vec<Judged>, Results)>, Failure> {
        let for_page = args.output.has_page();
        let place = Place::of_this("reproduce", &[]);
        let known: BTreeMap<usize, Ran> = match args.resume {
            true => place.parts()?,
            false => BTreeMap::new(),
        };
        let printer = Printer::of(&args.output, interrupts)?;
        let before = results_of(&known);
        let next = AtomicUsize::new(known.keys().next_back().map_or(0, |last| last + 1));
        let (claims, all) = (self.claims.to_vec(), reproduce::count(self.claims, for_page));
        let kept =
            SoFar::new((printer, self.bar), interrupts, (known, all), Some(place), move |ran| {
                let judged = reproduce::judge_some(&claims, &results_of(ran));
                let mut report = answer(&judged, reproduce::text(&judged));
                report.add_rows(reproduce::rows(&judged));
                report.set_json(reproduce::json(&judged));
                report
            });
        let ended = |need: &Need, phases: &[Phase]| {
            let ran = Ran(need.clone(), phases.to_vec());
            kept.add(next.fetch_add(1, Ordering::Relaxed), ran);
        };
        let show = self.bar.told();
        let (base, progress) = ((for_page, &before), (&show, &ended as reproduce::OnEnd<'_>));
        let result =
            reproduce::reproduce(self.claims, base, self.variation, self.threads, progress);
        let (judged, results) = result.map_err(|error| error.to_string())?;
        Ok(kept.end().map(|printer| (printer, judged, results)))
    }
}

/// A run with its phases.
struct Ran(Need, Vec<Phase>);

fn results_of(ran: &BTreeMap<usize, Ran>) -> Results {
    Results::of(ran.values().map(|Ran(need, phases)| (need.clone(), phases.clone())).collect())
}

impl Keep for Ran {
    fn keep(&self) -> Option<Value> {
        let phase = |phase: &Phase| {
            // As bits: read again, a number is the same.
            let numbers = phase.numbers().map(|number| number.map(f64::to_bits));
            json!([phase.phase, phase.unit, numbers])
        };
        let phases: Vec<Value> = self.1.iter().map(phase).collect();
        Some(json!([self.0.config, self.0.bench, phases]))
    }

    fn of(value: &Value) -> Option<Ran> {
        let text = |value: &Value| value.as_str().map(str::to_owned);
        let phase = |value: &Value| {
            let bits = |at: usize| value[2][at].as_u64().map(f64::from_bits);
            // Names of phases live as long as the program; a kept run brings its own.
            let [phase, unit]: [&'static str; 2] =
                [text(&value[0])?, text(&value[1])?].map(|name| &*name.leak());
            Phase::of_numbers(phase, unit, std::array::from_fn(bits))
        };
        let phases = value[2].as_array()?.iter().map(phase).collect::<Option<Vec<Phase>>>()?;
        Some(Ran(Need::new(text(&value[0])?, text(&value[1])?), phases))
    }
}

/// The claim whose cells can be printed.
const TABLE: &str = "efs-table";

/// The results, or with wrong models the checks that find them.
fn report(
    args: &Reproduce,
    judged: &[Judged],
    results: &Results,
    found: Option<&[Found]>,
) -> Report {
    let mut object = reproduce::json(judged);
    match (found, args.cells) {
        (Some(found), _) => {
            object["wrong"] = wrong::json(found);
            let mut report = answer(judged, wrong::text(found));
            report.add_rows(reproduce::rows(judged));
            report.set_json(object);
            report
        }
        (None, true) => {
            let mut report = answer(judged, clc::csv(results));
            report.add_rows(cells(results));
            report
        }
        (None, false) => {
            let lines = match args.failures {
                true => reproduce::failures(judged),
                false => reproduce::text(judged),
            };
            let mut report = answer(judged, lines);
            report.add_rows(reproduce::rows(judged));
            report.set_json(object);
            report
        }
    }
}

/// Names the claims that `--quick` leaves out.
fn tell_left_out(report: &mut Report, judged: &[Judged]) {
    let long = reproduce::claims().iter().filter(|claim| takes_long(claim));
    let left_out: Vec<&str> = long.map(|claim| claim.id).collect();
    let verdict = reproduce::verdict(judged);
    let text = format!("{verdict}\nLeft out, as they take long: {}.", left_out.join(", "));
    report.set_verdict(text, JUDGED_BY);
}

/// True if a claim takes much longer than others.
fn takes_long(claim: &Claim) -> bool {
    let is = |other: &&Claim| other.id == claim.id;
    reproduce::STUDIES.iter().any(is) || LONG.contains(&claim.id)
}

/// Claims of benchmarks that take long.
const LONG: [&str; 1] = ["tpcb-cleaner"];

/// An answer with its verdict and these lines.
fn answer(judged: &[Judged], lines: String) -> Report {
    let mut report = Report::answer("reproduce", "Measurements of papers, again");
    report.set_verdict(reproduce::verdict(judged), JUDGED_BY);
    report.add(Part::Lines(lines));
    report
}

const JUDGED_BY: &str = "Only independent checks, those of the kinds paper and order, count.";

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

fn experiment(name: &str) -> Result<&'static Experiment, Failure> {
    EXPERIMENTS.iter().find(|one| one.name == name).ok_or_else(|| {
        usage(SettingsError::unknown("experiment", name, EXPERIMENTS.iter().map(|one| one.name)))
    })
}

/// A kept answer of this command.
fn answer_in(path: &Path) -> Result<Value, String> {
    let text = twin_host::text_of_file(path)?;
    let value = serde_json::from_str::<Value>(&text).map_err(|error| error.to_string());
    match value {
        Ok(answer) if answer["command"] == "reproduce" => Ok(answer),
        Ok(_) => Err("it is not what twinfs reproduce --format json prints".into()),
        Err(error) => Err(error),
    }
    .map_err(|error| format!("{}: {error}", path.display()))
}

/// Rows of `twinfs bench --format json`.
fn measured(path: &Path) -> Result<serde_json::Value, String> {
    let text = twin_host::text_of_file(path)?;
    let value = serde_json::from_str::<Value>(&text).map_err(|error| error.to_string());
    match value {
        // Before answers had verdicts, they were arrays with all targets in a row.
        Ok(rows) if rows.is_array() => Ok(rows),
        Ok(answer) if answer["command"] == "bench" => Ok(reproduce::by_phase(&answer["rows"])),
        Ok(_) => Err("it is not what twinfs bench --format json prints".into()),
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
