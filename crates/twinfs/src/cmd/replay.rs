//! `twinfs replay`: a trace again, simulated or for real.

use std::path::Path;
use std::process::ExitCode;
use std::rc::Rc;

use twin_fs::{FileSystem, Op, Request};
use twin_lab::{Config, Figures, Latency, Workload, simulate, table, verify_flight};
use twin_rt::Time;
use twin_trace::replay::{Options, Replayer, Report};

use super::compare::{terminal_width, warn_of_cut, workload};
use super::image::layout_of;
use super::opening::{OpenOptions, Opened, open_volume};
use super::time::real_clock;
use super::{Outcome, say};
use crate::cli::{Pace, Replay};

pub(crate) fn run(args: &Replay) -> Outcome {
    if args.verify {
        return verify(args);
    }
    let workload = workload(Some(&args.file), None, None, 0)?;
    if let Some(image) = &args.image {
        return for_real(args, &workload, image);
    }
    let config = Config::parse(&args.config).map_err(|e| e.to_string())?;
    let figures = simulate(&config, &workload, Pace::of(args.pace, &workload, args.speed)?);
    let figures = figures.map_err(|e| format!("{}: {e}", args.file.display()))?;
    if let Some(cut) = &figures.cut {
        warn_of_cut(Some(&args.file), cut);
    }
    let failed = figures.failed;
    print(args, &[figures])?;
    Ok(verdict(args, failed))
}

/// Success only if all of the trace was done.
fn verdict(args: &Replay, failed: u64) -> ExitCode {
    if failed == 0 {
        return ExitCode::SUCCESS;
    }
    eprintln!(
        "twinfs: {}: {failed} operations failed that succeed in the trace, or lacked what failed \
         before: the figures are of less work",
        args.file.display()
    );
    ExitCode::FAILURE
}

/// Repeats a flight and compares the digests.
fn verify(args: &Replay) -> Outcome {
    let in_file = |e: &dyn std::fmt::Display| format!("{}: {e}", args.file.display());
    let file = std::fs::File::open(&args.file).map_err(|e| in_file(&e))?;
    let verified = verify_flight(std::io::BufReader::new(file)).map_err(|e| in_file(&e))?;
    let (value, events) = verified.replayed;
    match verified.recorded {
        Some(_) if verified.is_same() => {
            let operations = verified.operations;
            say(format!(
                "same digest {value:016x}: {operations} operations, {events} device requests"
            ))?;
            Ok(ExitCode::SUCCESS)
        }
        Some((recorded, of)) => Err(in_file(&format!(
            "the digests differ: {recorded:016x} after {of} device requests on the mount, \
             {value:016x} after {events} in the replay"
        ))),
        None => Err(in_file(&"the log was cut off before the mount ended: no digest to compare")),
    }
}

fn print(args: &Replay, figures: &[Figures]) -> Result<(), String> {
    if args.json {
        let text = serde_json::to_string_pretty(figures).map_err(|e| e.to_string())?;
        say(text)?;
    } else {
        say(table(figures, terminal_width()))?;
    }
    Ok(())
}

/// Replays on the volume in an image, in real time and without FUSE.
fn for_real(args: &Replay, workload: &Workload, image: &Path) -> Outcome {
    let options = OpenOptions::of(layout_of(image)?);
    let Opened { host, volume, .. } = open_volume(image, options)?;
    let clock = real_clock();
    let now: Rc<dyn Fn() -> Time> = Rc::new(move || Time((clock() * 1e9) as u64));
    let pace = Pace::of(args.pace, workload, args.speed)?;
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
        let mut source = workload.start().map_err(|e| e.to_string())?;
        let report = replayer.run(&mut source).await.map_err(|e| e.to_string())?;
        if let Some(cut) = twin_lab::cut(&*source) {
            warn_of_cut(Some(&args.file), &cut);
        }
        let _ = replayer.release_all().await;
        volume.close().await.map_err(|e| e.to_string())?;
        Ok::<Report, String>(report)
    };
    let report = host.rt().block_on(work).map_err(|e| e.to_string())??;
    let latency = Latency::of(&report.latency_ns());
    let span_s = report.span_ns as f64 / 1e9;
    if args.json {
        let text = serde_json::json!([{
            "config": image.display().to_string(),
            "ops": report.ops,
            "span_s": span_s,
            "ops_per_s": report.ops as f64 / span_s,
            "read_bytes": report.read_bytes,
            "written_bytes": report.written_bytes,
            "diverged": report.diverged_ops(),
            "latency": latency,
        }]);
        say(format_args!("{text:#}"))?;
    } else {
        say(format!(
            "{} operations in {span_s:.2} s, {:.0} a second",
            report.ops,
            report.ops as f64 / span_s
        ))?;
        say(format!(
            "latency: mean {:.1} us, median {:.1} us, 99 of 100 {:.1} us",
            latency.mean_us, latency.p50_us, latency.p99_us
        ))?;
        if report.diverged_ops() > 0 {
            say(format!("{} operations ended otherwise than in the trace", report.diverged_ops()))?;
        }
    }
    Ok(verdict(args, report.failed_ops()))
}
