//! `twinfs compare`: a workload on several configurations, side by side.

use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use twin_lab::{
    Config, EventLog, Figures, SimulateError, Workload, compare, compare_with_histories, defaults,
    page, rank, settings_help, table,
};
use twin_rt::Categories;

use super::files::Page;
use super::{Outcome, say};
use crate::cli::Compare;

/// The trace that comes with the program: see traces/README.md.
const SHIPPED_TRACE: &[u8] = include_bytes!("../../../../traces/libgit2-build.tw");

pub(crate) fn run(args: &Compare) -> Outcome {
    if args.list {
        say(settings_help().trim_end())?;
        return Ok(ExitCode::SUCCESS);
    }
    let workload =
        workload(args.trace.as_deref(), args.workload.as_deref(), args.seed.unwrap_or(1))?;
    // A damaged trace is told once, before the runs.
    workload.population().map_err(|e| in_trace(args.trace.as_deref(), &e))?;
    let pace = args.pace.at(args.speed)?;
    let page_file = args.html.as_deref().map(Page::open).transpose()?;
    let (mut configs, mut not_run) = configs(&args.configs);
    let bar = match args.log {
        Some(categories) => {
            tell_of_events(&mut configs, categories);
            ProgressBar::hidden()
        }
        None => progress_bar(configs.len() as u64),
    };
    let threads = std::thread::available_parallelism().map_or(1, |n| n.get());
    let progress = |ended: usize, _: usize| bar.set_position(ended as u64);
    let clock = real_clock();
    let figures = if let Some(file) = page_file {
        let results = compare_with_histories(&configs, &workload, pace, threads, &clock, &progress);
        bar.finish_and_clear();
        let mut runs = those_that_ran(&configs, results, &mut not_run);
        rank(&mut runs.iter_mut().map(|(figures, _)| figures).collect::<Vec<_>>());
        file.write(&page(&title(args), &runs, &not_run))?;
        runs.into_iter().map(|(figures, _)| figures).collect()
    } else {
        let results = compare(&configs, &workload, pace, threads, &clock, &progress);
        bar.finish_and_clear();
        let mut runs = those_that_ran(&configs, results, &mut not_run);
        rank(&mut runs.iter_mut().collect::<Vec<_>>());
        runs
    };
    if let Some(cut) = figures.first().and_then(|figures| figures.cut.as_ref()) {
        warn_of_cut(args.trace.as_deref(), cut);
    }
    if args.json {
        say(json(&figures, &not_run)?)?;
    } else if !figures.is_empty() {
        say(table(&figures))?;
    }
    Ok(verdict(&figures, &not_run))
}

/// The configurations, and of those that cannot be: what was asked for and why not.
fn configs(texts: &[String]) -> (Vec<Config>, NotRun) {
    if texts.is_empty() {
        return (defaults(), Vec::new());
    }
    let (mut configs, mut not_run) = (Vec::new(), Vec::new());
    for text in texts {
        match Config::parse(text) {
            Ok(config) => configs.push(config),
            Err(error) => not_run.push((text.clone(), error.to_string())),
        }
    }
    (configs, not_run)
}

/// Has the events of all runs told on standard error, with the configuration where there are several.
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

/// The results that there are; the others go to `not_run`. One that fails takes nothing from the
/// others.
fn those_that_ran<T>(
    configs: &[Config],
    results: Vec<Result<T, SimulateError>>,
    not_run: &mut NotRun,
) -> Vec<T> {
    let mut ran = Vec::new();
    for (config, result) in configs.iter().zip(results) {
        match result {
            Ok(run) => ran.push(run),
            Err(error) => not_run.push((config.name.clone(), error.to_string())),
        }
    }
    ran
}

/// An array with one object a configuration; of one that could not run, its name and the reason.
fn json(figures: &[Figures], not_run: &NotRun) -> Result<String, String> {
    let objects: Result<Vec<_>, _> = figures.iter().map(serde_json::to_value).collect();
    let mut objects = objects.map_err(|e| e.to_string())?;
    let failed = |(config, error): &(String, String)| serde_json::json!({ "config": config, "error": error });
    objects.extend(not_run.iter().map(failed));
    serde_json::to_string_pretty(&objects).map_err(|e| e.to_string())
}

/// Success only if every configuration did all of the workload; says what did not.
fn verdict(figures: &[Figures], not_run: &NotRun) -> ExitCode {
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

/// What the runs are of, as a page is called.
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

/// Says that a trace is not whole; what is there was used.
pub(crate) fn warn_of_cut(trace: Option<&Path>, cut: &str) {
    eprintln!("twinfs: {}", in_trace(trace, &cut));
}

/// The workload that the arguments name.
pub(crate) fn workload(
    trace: Option<&Path>,
    generator: Option<&str>,
    seed: u64,
) -> Result<Workload, String> {
    if let Some(path) = trace {
        let bytes = std::fs::read(path).map_err(|e| format!("{}: {e}", path.display()))?;
        return Ok(Workload::Trace(Arc::from(bytes)));
    }
    Ok(match generator {
        Some(text) => Workload::Generated(text.into(), seed),
        None => Workload::Trace(Arc::from(SHIPPED_TRACE)),
    })
}

/// Seconds since some instant.
pub(crate) fn real_clock() -> impl Fn() -> f64 + Sync {
    // A program may look at the clock; only the core may not.
    #[allow(clippy::disallowed_types)]
    let start = std::time::Instant::now();
    move || start.elapsed().as_secs_f64()
}

/// A bar on standard error, hidden when that is no terminal.
pub(crate) fn progress_bar(len: u64) -> ProgressBar {
    let bar = ProgressBar::new(len);
    let style = ProgressStyle::with_template("{spinner} {wide_bar} {pos} of {len} ({elapsed})");
    if let Ok(style) = style {
        bar.set_style(style);
    }
    bar.enable_steady_tick(Duration::from_millis(100));
    bar
}
