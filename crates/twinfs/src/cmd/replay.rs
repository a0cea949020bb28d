//! `twinfs replay`: a trace again, simulated or for real.

use std::path::Path;
use std::process::ExitCode;
use std::rc::Rc;

use serde_json::json;
use twin_cli::progress::Progress;
use twin_cli::{Outcome, Printer, usage};
use twin_flight::verify_flight;
use twin_fs::{Op, Request};
use twin_host::{Interrupts, real_clock};
use twin_lab::{Config, Counted, Latency, Run, simulate};
use twin_mount::image::layout_of;
use twin_mount::input::{Wanted, must_be};
use twin_mount::opening::{OpenOptions, Opened, open_volume};
use twin_report::Report;
use twin_rt::Time;
use twin_trace::replay::{self, Options, Replayer};
use twin_verdict::figures_report;

use super::workload::{Chosen, chosen};
use crate::cli::{Pace, Replay};

pub(crate) fn run(args: &Replay, interrupts: &Interrupts) -> Outcome {
    let mut printer = Printer::of(&args.output, interrupts)?;
    if args.verify {
        return verify(args, printer);
    }
    let chosen = chosen(Some(&args.file), None, None, 0)?;
    if let Some(image) = &args.image {
        return for_real(args, &chosen, image, printer);
    }
    let Chosen { workload, is_cut, operations, .. } = chosen;
    let config = Config::parse(&args.config).map_err(usage)?;
    let progress = Progress::of("operations simulated", operations);
    let run = Run { steps: Some(super::steps(&progress)), ..Run::of(config) };
    let figures =
        simulate(run, &workload, Pace::of(args.pace, &workload, args.speed).map_err(usage)?);
    progress.finish();
    let figures = figures.map_err(|e| format!("{}: {e}", args.file.display()))?;
    let failed = figures.failed;
    printer.print(&figures_report(&title(args), &[figures]))?;
    Ok(verdict(args, failed, is_cut))
}

/// Success only if all of the trace was there and was done.
fn verdict(args: &Replay, failed: u64, is_cut: bool) -> ExitCode {
    if failed == 0 {
        return if is_cut { ExitCode::FAILURE } else { ExitCode::SUCCESS };
    }
    twin_host::note!(
        "twinfs: {}: {failed} operations failed that succeed in the trace, or lacked what failed \
         before: the figures are of less work",
        args.file.display()
    );
    ExitCode::FAILURE
}

/// Repeats a flight and compares the digests.
fn verify(args: &Replay, mut printer: Printer) -> Outcome {
    let in_file = |e: &dyn std::fmt::Display| format!("{}: {e}", args.file.display());
    must_be(&args.file, Wanted::Flight)?;
    let file = std::fs::File::open(&args.file).map_err(|e| in_file(&e))?;
    let size = file.metadata().map_or(0, |meta| meta.len());
    let progress = Progress::of_bytes("flight repeated", size);
    let verified = verify_flight(std::io::BufReader::new(progress.reading(file)));
    progress.finish();
    let verified = verified.map_err(|e| in_file(&e))?;
    let (value, events) = verified.replayed;
    match verified.recorded {
        Some(_) if verified.is_same() => {
            let operations = verified.operations;
            let row = json!({
                "flight": args.file.display().to_string(), "same": true,
                "digest": format!("{value:016x}"), "ops": operations, "device_requests": events,
            });
            let words = format!(
                "same digest {value:016x}: {operations} operations, {events} device requests"
            );
            printer.print(&Report::plain("A flight repeated", words, [row]))?;
            Ok(ExitCode::SUCCESS)
        }
        Some((recorded, of)) => Err(in_file(&format!(
            "the digests differ: {recorded:016x} after {of} device requests on the mount, \
             {value:016x} after {events} in the replay"
        ))
        .into()),
        None => {
            Err(in_file(&"the log was cut off before the mount ended: no digest to compare").into())
        }
    }
}

/// Replays on the volume in an image, in real time and without FUSE.
fn for_real(args: &Replay, chosen: &Chosen, image: &Path, mut printer: Printer) -> Outcome {
    let workload = &chosen.workload;
    let options = OpenOptions::of(layout_of(image)?);
    let opening = Progress::waiting("the volume is opened");
    let Opened { host, volume, .. } = open_volume(image, options).map_err(|refused| refused.why)?;
    opening.finish();
    let clock = real_clock();
    let now: Rc<dyn Fn() -> Time> = Rc::new(move || Time((clock() * 1e9) as u64));
    let pace = Pace::of(args.pace, workload, args.speed).map_err(usage)?;
    let progress = Progress::of("operations replayed", chosen.operations);
    let rt = host.rt().clone();
    let work = async {
        let options = Options { pace, clock: Some(now), ..Options::default() };
        let mut replayer = Replayer::new(&rt, &volume, options);
        let population = workload.population().map_err(|e| e.to_string())?;
        replayer.populate(&population).await.map_err(|e| e.to_string())?;
        if !population.is_empty() {
            // As in a simulation: the workload finds nothing in memory.
            let sync = Request::root(u64::MAX, Op::Sync);
            volume.execute(sync).await.map_err(|e| e.to_string())?;
            volume.core().drop_caches();
        }
        let source = workload.start().map_err(|e| e.to_string())?;
        let mut source = Counted::new(source, Some(super::steps(&progress)));
        let report = replayer.run(&mut source).await.map_err(|e| e.to_string())?;
        let _ = replayer.release_all().await;
        volume.close().await.map_err(|e| e.to_string())?;
        Ok::<replay::Report, String>(report)
    };
    let report = host.rt().block_on(work).map_err(|e| e.to_string())??;
    progress.finish();
    let latency = Latency::of(&report.latency_ns());
    printer.print(&of_real(args, image, &report, latency))?;
    Ok(verdict(args, report.failed_ops(), chosen.is_cut))
}

/// The report on a replay on an image.
fn of_real(args: &Replay, image: &Path, report: &replay::Report, latency: Latency) -> Report {
    let span_s = report.span_ns as f64 / 1e9;
    let ops_per_s = if span_s > 0.0 { report.ops as f64 / span_s } else { 0.0 };
    let row = json!({
        "config": image.display().to_string(),
        "ops": report.ops,
        "span_s": span_s,
        "ops_per_s": ops_per_s,
        "read_bytes": report.read_bytes,
        "written_bytes": report.written_bytes,
        "diverged": report.diverged_ops(),
        "failed": report.failed_ops(),
        "latency": latency,
    });
    let Latency { mean_us, p50_us, p90_us, p99_us, .. } = latency;
    let mut words = format!(
        "{} operations in {span_s:.2} s, {ops_per_s:.0} a second\nlatency: mean {mean_us:.1} us, \
         median {p50_us:.1} us, p90 {p90_us:.1} us, p99 {p99_us:.1} us",
        report.ops
    );
    if report.diverged_ops() > 0 {
        let diverged = report.diverged_ops();
        words += &format!("\n{diverged} operations ended otherwise than in the trace");
    }
    Report::plain(title(args), words, [row])
}

/// The title of a report on a trace.
fn title(args: &Replay) -> String {
    format!("Replay of {}", args.file.display())
}
