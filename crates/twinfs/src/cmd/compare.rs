//! `twinfs compare`: a workload on several configurations, side by side.

use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use twin_lab::{
    Config, SimulateError, Workload, compare, compare_with_histories, defaults, page,
    settings_help, table,
};

use super::{Outcome, say};
use crate::cli::Compare;

/// The trace that comes with the program: see traces/README.md.
const SHIPPED_TRACE: &[u8] = include_bytes!("../../../../traces/libgit2-build.tw");

pub(crate) fn run(args: &Compare) -> Outcome {
    if args.list {
        say(settings_help().trim_end())?;
        return Ok(ExitCode::SUCCESS);
    }
    let configs = match &args.configs[..] {
        [] => defaults(),
        texts => {
            let parsed = texts.iter().map(|text| Config::parse(text));
            parsed.collect::<Result<_, _>>().map_err(|e| e.to_string())?
        }
    };
    let workload = workload(args.trace.as_deref(), args.workload.as_deref(), args.seed)?;
    // A damaged trace is told once, before the runs.
    workload.population().map_err(|e| in_trace(args.trace.as_deref(), &e))?;
    let pace = args.pace.at(args.speed)?;
    let bar = progress_bar(configs.len() as u64);
    let threads = std::thread::available_parallelism().map_or(1, |n| n.get());
    let progress = |ended: usize, _: usize| bar.set_position(ended as u64);
    let clock = real_clock();
    let figures = match &args.html {
        None => {
            let results = compare(&configs, &workload, pace, threads, &clock, &progress);
            bar.finish_and_clear();
            all(&configs, results)?
        }
        Some(path) => {
            let results =
                compare_with_histories(&configs, &workload, pace, threads, &clock, &progress);
            bar.finish_and_clear();
            let runs = all(&configs, results)?;
            std::fs::write(path, page(&title(args), &runs))
                .map_err(|e| format!("{}: {e}", path.display()))?;
            runs.into_iter().map(|(figures, _)| figures).collect()
        }
    };
    if let Some(cut) = figures.first().and_then(|figures| figures.cut.as_ref()) {
        warn_of_cut(args.trace.as_deref(), cut);
    }
    if args.json {
        let text = serde_json::to_string_pretty(&figures).map_err(|e| e.to_string())?;
        say(text)?;
    } else {
        say(table(&figures))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// The results if there are all.
fn all<T>(configs: &[Config], results: Vec<Result<T, SimulateError>>) -> Result<Vec<T>, String> {
    let named = configs.iter().zip(results);
    named.map(|(config, result)| result.map_err(|e| format!("{}: {e}", config.name))).collect()
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
