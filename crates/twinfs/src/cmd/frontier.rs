//! `twinfs frontier`: what flush policies lose in a power failure, against what they write.

use std::path::Path;
use std::process::ExitCode;

use twin_lab::Config;
use twin_lab::frontier::{FrontierPoint, Study, choices, frontier, report};
use twin_settings::value::nanos;

use super::progress::Progress;
use super::start::Start;
use super::workload::{Chosen, chosen};
use super::{Failure, Interrupts, Outcome, Printer, usage};
use crate::cli::{Frontier, Pace};

pub(crate) fn run(args: &Frontier, interrupts: &Interrupts) -> Outcome {
    let config = Config::parse(&args.config).map_err(usage)?;
    let config = match Start::of(&args.start)? {
        Some(start) => start.apply_all(vec![config])?.remove(0),
        None => config,
    };
    let ages: Result<Vec<u64>, _> =
        args.ages.iter().map(|text| nanos(text, twin_rt::SECS)).collect();
    let ages = ages.map_err(|error| usage(format!("--ages: {error}")))?;
    let choices = choices(&args.policies, &ages).map_err(usage)?;
    let workloads = workloads(args)?;
    let mut printer = Printer::of(&args.output, interrupts)?;
    let operations: u64 = workloads.iter().map(|(_, chosen)| chosen.operations).sum();
    let bar = Progress::of("operations simulated", choices.len() as u64 * operations);
    let config = Config { steps: Some(bar.steps()), ..config };
    let threads = std::thread::available_parallelism().map_or(1, |n| n.get());
    let (mut points, mut all_done) = (Vec::new(), true);
    for (name, chosen) in &workloads {
        let Chosen { workload, is_cut, .. } = chosen;
        let pace = Pace::of(Some(args.pace), workload, args.speed).map_err(usage)?;
        let instants = args.instants as usize;
        let study = Study { workload, name, pace, instants };
        all_done &= !is_cut;
        for (choice, point) in choices.iter().zip(frontier(&config, &choices, study, threads)) {
            match point {
                Ok(point) => points.push(point),
                Err(error) => {
                    all_done = false;
                    eprintln!("twinfs: {name}, {}: {error}", choice.flush);
                }
            }
        }
    }
    bar.finish();
    all_done &= points.iter().all(is_whole);
    printer.print(&report(&points))?;
    Ok(if all_done { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// True if all operations of a run were done; says so if not.
fn is_whole(point: &FrontierPoint) -> bool {
    if point.failed > 0 {
        let FrontierPoint { workload, flush, failed, .. } = point;
        eprintln!(
            "twinfs: {workload}, {flush}: {failed} operations failed that succeed in the workload, so \
             its figures are of less work. If the volume was full, set a larger size"
        );
    }
    point.failed == 0
}

/// The workloads with their names.
fn workloads(args: &Frontier) -> Result<Vec<(String, Chosen)>, Failure> {
    let mut all = Vec::new();
    for path in &args.traces {
        all.push((stem(path), chosen(Some(path), None, None, 1)?));
    }
    for text in &args.workload {
        all.push((text.clone(), chosen(None, None, Some(text), 1)?));
    }
    if all.is_empty() {
        all.push(("server".into(), chosen(None, None, None, 1)?));
    }
    Ok(all)
}

/// The name of a file without its extension.
fn stem(path: &Path) -> String {
    path.file_stem().unwrap_or_default().to_string_lossy().into_owned()
}
