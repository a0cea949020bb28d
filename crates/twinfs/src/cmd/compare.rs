//! `twinfs compare`: a workload on several configurations, side by side.

use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use indicatif::ProgressBar;
use twin_lab::{
    Config, EventLog, Figures, MEASURES, MachineFile, MeasureEntry, Question, Run, SeedRuns,
    Seeded, SimulateError, Trust, Workload, compare_seeds, defaults, measurable, page, rank,
    settings, settings_help, summary, table, verdict, workload_help,
};
use twin_rt::Categories;
use twin_trace::readers;

use super::files::Page;
use super::on;
use super::time::progress_bar;
use super::{Outcome, say};
use crate::cli::{Compare, Pace};

/// The trace that comes with the program: see traces/README.md.
const SHIPPED_TRACE: &[u8] = include_bytes!("../../../../traces/libgit2-build.tw");

pub(crate) fn run(args: &Compare) -> Outcome {
    if args.list {
        say(settings_help().trim_end())?;
        say(format!("\n{}", workload_help().trim_end()))?;
        return Ok(ExitCode::SUCCESS);
    }
    // Before any thread is started: what is made for --on is removed after an interrupt too.
    let stop = match args.on.is_empty() {
        true => None,
        false => Some(twin_host::note_interrupts().map_err(|e| format!("signals: {e}"))?),
    };
    let workload = workload(
        args.trace.as_deref(),
        args.trace_format.as_deref(),
        args.workload.as_deref(),
        args.seed.unwrap_or(1),
    )?;
    // A damaged trace is told once, before the runs.
    workload.population().map_err(|e| in_trace(args.trace.as_deref(), &e))?;
    let pace = Pace::of(args.pace, &workload, args.speed)?;
    let page_file = args.html.as_deref().map(Page::open).transpose()?;
    let (mut configs, mut not_run) = configs(args)?;
    let measure = MEASURES.get(&args.by).map_err(|e| e.to_string())?;
    measurable(measure, &configs)?;
    let trust = Trust::of(&configs);
    let bar = match args.log {
        Some(categories) => {
            tell_of_events(&mut configs, categories);
            ProgressBar::hidden()
        }
        None => progress_bar(configs.len() as u64 * args.seeds),
    };
    let threads = std::thread::available_parallelism().map_or(1, |n| n.get());
    let progress = |ended: usize, _: usize| bar.set_position(ended as u64);
    let runs = SeedRuns { workload: &workload, pace, seeds: args.seeds, measure };
    let results = compare_seeds(&configs, runs, threads, &progress);
    bar.finish_and_clear();
    let mut ran = those_that_ran(configs, results, &mut not_run);
    let mut ranked: Vec<&mut Figures> = ran.iter_mut().map(|(_, run)| &mut run.figures).collect();
    rank(&mut ranked, measure, &trust);
    let figures: Vec<Figures> = ran.iter().map(|(_, run)| run.figures.clone()).collect();
    let verdict = verdict(&figures, measure, &trust);
    warn_of_seeds(args, &ran);
    if let Some(cut) = figures.first().and_then(|figures| figures.cut.as_ref()) {
        warn_of_cut(args.trace.as_deref(), cut);
    }
    if args.json {
        say(json(&ran, &not_run)?)?;
    } else {
        let configs: Vec<&Config> = ran.iter().map(|(config, _)| config).collect();
        print(args, verdict.as_deref(), measure, (&configs, &figures), &not_run)?;
    }
    if let Some(file) = page_file {
        let title = title(args);
        let question = Question { workload: &title, verdict: verdict.as_deref(), measure };
        let run = |(config, Seeded { figures, history, .. })| Run { config, figures, history };
        let runs: Vec<Run> = ran.into_iter().map(run).collect();
        file.write(&page(&question, &runs, &not_run))?;
    }
    let mut ended = ending(&figures, &not_run);
    if let Some(stop) = stop
        && !on::beside(&args.on, &workload, pace, &figures, &stop)?
    {
        ended = ExitCode::FAILURE;
    }
    Ok(ended)
}

/// Prints the verdict, the summary and, if asked for, all figures and settings.
fn print(
    args: &Compare,
    verdict: Option<&str>,
    measure: &MeasureEntry,
    (configs, figures): (&[&Config], &[Figures]),
    not_run: &NotRun,
) -> Result<(), String> {
    if let Some(words) = verdict {
        say(words)?;
    }
    let width = terminal_width();
    say(summary(figures, not_run, measure, width))?;
    if args.details && !figures.is_empty() {
        say(table(figures, width))?;
        say(settings(configs, width))?;
    }
    Ok(())
}

/// The valid configurations, on the machine that was asked for, and each invalid one with the
/// reason.
///
/// # Errors
/// If the machine file cannot be used.
fn configs(args: &Compare) -> Result<(Vec<Config>, NotRun), String> {
    let machine = args.machine.as_deref().map(machine_file).transpose()?.map(Arc::new);
    let on_machine = |config: Config| match &machine {
        Some(machine) => config.on_machine(Arc::clone(machine)),
        None => config,
    };
    let (mut configs, mut not_run) = (Vec::new(), Vec::new());
    if args.configs.is_empty() {
        configs = defaults().into_iter().map(on_machine).collect();
    }
    for text in &args.configs {
        match Config::parse(text) {
            Ok(config) => configs.push(on_machine(config)),
            Err(error) => not_run.push((text.clone(), error.to_string())),
        }
    }
    Ok((configs, not_run))
}

/// Reads a machine file.
pub(crate) fn machine_file(path: &Path) -> Result<MachineFile, String> {
    let text = std::fs::read_to_string(path).map_err(|e| format!("{}: {e}", path.display()))?;
    MachineFile::parse(&text).map_err(|e| {
        format!(
            "{}: {e}\nThis is to be a machine file, as `twinfs calibrate` makes it",
            path.display()
        )
    })
}

/// Reports the events of all runs on standard error, with the configuration if there are several.
fn tell_of_events(configs: &mut [Config], categories: Categories) {
    let several = configs.len() > 1;
    for config in configs {
        let name = if several { format!("{}: ", config.name) } else { String::new() };
        let tell = Arc::new(move |line: &str| eprintln!("{name}{line}"));
        config.log = Some(EventLog { categories, tell });
    }
}

/// Configurations that could not run, each with the reason.
type NotRun = Vec<(String, String)>;

/// The configurations that ran, with their results; the others go to `not_run`. A failed run does
/// not affect the others.
fn those_that_ran(
    configs: Vec<Config>,
    results: Vec<Result<Seeded, SimulateError>>,
    not_run: &mut NotRun,
) -> Vec<(Config, Seeded)> {
    let mut ran = Vec::new();
    for (config, result) in configs.into_iter().zip(results) {
        match result {
            Ok(run) => ran.push((config, run)),
            Err(error) => not_run.push((config.name, error.to_string())),
        }
    }
    ran
}

/// Tells if several seeds were run in vain.
fn warn_of_seeds(args: &Compare, ran: &[(Config, Seeded)]) {
    if args.seeds > 1 && ran.iter().all(|(_, run)| makes_no_difference(run)) {
        eprintln!(
            "twinfs: the seeds make no difference: neither the workload nor the volumes and disks \
             draw random numbers"
        );
    }
}

/// True if all seeds of a configuration took the same times.
fn makes_no_difference(run: &Seeded) -> bool {
    let same = |figures: &Figures| {
        let first = &run.all[0];
        (figures.finish_s, figures.latency) == (first.finish_s, first.latency)
    };
    run.all.iter().all(same)
}

/// An array with one object for each configuration, with several seeds also the figures of each.
/// One that could not run has its name and the reason.
fn json(ran: &[(Config, Seeded)], not_run: &NotRun) -> Result<String, String> {
    let object = |(_, run): &(Config, Seeded)| {
        let mut object = serde_json::to_value(&run.figures)?;
        if !run.all.is_empty() {
            object["seeds"] = serde_json::to_value(&run.all)?;
        }
        Ok(object)
    };
    let objects: Result<Vec<_>, serde_json::Error> = ran.iter().map(object).collect();
    let mut objects = objects.map_err(|e| e.to_string())?;
    let failed = |(config, error): &(String, String)| serde_json::json!({ "config": config, "error": error });
    objects.extend(not_run.iter().map(failed));
    serde_json::to_string_pretty(&objects).map_err(|e| e.to_string())
}

/// Success only if every configuration did all of the workload; prints what failed.
fn ending(figures: &[Figures], not_run: &NotRun) -> ExitCode {
    for (config, why) in not_run {
        let named = why.starts_with(config.as_str());
        let name = if named { String::new() } else { format!("{config}: ") };
        eprintln!("twinfs: cannot run {name}{why}");
    }
    let failed = figures.iter().filter(|figures| figures.failed > 0);
    let mut all_done = not_run.is_empty();
    for Figures { config, failed, ops, .. } in failed {
        all_done = false;
        eprintln!(
            "twinfs: {config}: {failed} of {} operations failed that succeed in the workload, or \
             lacked what failed before: its figures are of less work, and it has no rank. If the \
             volume was full, set a larger size",
            ops + failed
        );
    }
    if all_done { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// The title of the page.
fn title(args: &Compare) -> String {
    match (&args.trace, &args.workload) {
        (Some(path), _) => path.file_name().unwrap_or_default().to_string_lossy().into_owned(),
        (None, Some(generated)) => generated.clone(),
        (None, None) => "A recorded software build".into(),
    }
}

/// An error in a trace, with the trace's name.
fn in_trace(trace: Option<&Path>, error: &dyn std::fmt::Display) -> String {
    match trace {
        Some(path) => format!("{}: {error}", path.display()),
        None => error.to_string(),
    }
}

/// Reports that a trace is incomplete; its readable part was used.
pub(crate) fn warn_of_cut(trace: Option<&Path>, cut: &str) {
    eprintln!("twinfs: {}", in_trace(trace, &cut));
}

/// The workload that the arguments name.
pub(crate) fn workload(
    trace: Option<&Path>,
    format: Option<&str>,
    generator: Option<&str>,
    seed: u64,
) -> Result<Workload, String> {
    if let Some(path) = trace {
        let bytes = std::fs::read(path).map_err(|e| format!("{}: {e}", path.display()))?;
        return Ok(match format {
            Some(name) => {
                let format = readers::REGISTRY.get(name).map_err(|e| e.to_string())?;
                Workload::Foreign(format.name, Arc::from(bytes))
            }
            None => Workload::Trace(Arc::from(bytes)),
        });
    }
    Ok(match generator {
        Some(text) => Workload::Generated(text.into(), seed),
        None => Workload::Trace(Arc::from(SHIPPED_TRACE)),
    })
}

/// Characters of a line of the terminal; none if standard output is no terminal.
pub(crate) fn terminal_width() -> Option<u16> {
    terminal_size::terminal_size_of(std::io::stdout()).map(|(width, _)| width.0)
}
