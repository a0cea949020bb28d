//! `twinfs bench`: benchmarks on simulated volumes, mounts and any directories, side by side.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use twin_bench::{self as bench, Target, directory};
use twin_cli::progress::Progress;
use twin_cli::{Ended, Failure, Outcome, Printer, SoFar, say, usage};
use twin_host::fuse::sync_file_system;
use twin_host::{Interrupts, Undoing, absolute, real_clock, remove_by_force};
use twin_lab::{Config, Run};
use twin_real::device_times;
use twin_report::units::duration;
use twin_report::{Part, Report};

use super::compare::tell_of_events;
use super::start::Start;
use crate::cli::Bench;
use crate::measuring::runner;

/// The default benchmarks: they take about a minute on a disk.
const DEFAULT: &[&str] = &["small:files=2000", "large:mb=32", "sizes:size=64K,total=16M", "andrew"];

pub(crate) fn run(args: &Bench, interrupts: &Interrupts) -> Outcome {
    if args.list {
        say(bench::help().trim_end())?;
        return Ok(ExitCode::SUCCESS);
    }
    check_options(args)?;
    if let Some(dir) = &args.device {
        return device(dir, Printer::of(&args.output, interrupts)?, interrupts);
    }
    if args.peers {
        return super::peers::run(args, interrupts);
    }
    if args.sim.is_empty() && args.dir.is_empty() {
        let why = "nothing to run on: name targets with --config CONFIG, --dir DIR or --peers";
        return Err(usage(why));
    }
    let texts: Vec<&str> = match &args.benches[..] {
        [] => DEFAULT.to_vec(),
        texts => texts.iter().map(String::as_str).collect(),
    };
    let mut benches = Vec::new();
    for text in texts {
        benches.extend(bench::parse(text).map_err(usage)?);
    }
    let printer = Printer::of(&args.output, interrupts)?;
    // All that can be wrong with the command line is known before a volume is aged.
    let targets = targets(args, &interrupts.stop())?;
    let _undoing: Vec<_> = args.dir.iter().map(|dir| undoes_runs(dir, interrupts)).collect();
    let bar = match args.log {
        Some(_) => Progress::hidden(),
        None => Progress::of("benchmarks", 1),
    };
    let names: Vec<String> = targets.iter().map(Target::name).collect();
    let runs = args.runs.map_or(1, usize::from);
    let (all, of_names) = (bench::count(&benches, &targets, runs), names.clone());
    let kept =
        SoFar::new((printer, &bar), interrupts, (BTreeMap::new(), all), None, move |ended| {
            let rows = ended
                .values()
                .next_back()
                .map_or(&[][..], |Ended(rows): &Ended<Vec<bench::Row>>| &rows[..]);
            bench::report(rows, &of_names, &[])
        });
    let progress = |rows: &[bench::Row], ended: usize, all: usize| {
        bar.set(ended as u64, all as u64);
        kept.add(ended, Ended(rows.to_vec()));
    };
    let result = bench::run(&benches, &targets, runs, &real_clock(), &progress);
    bar.finish();
    // Whatever an interrupt has printed is printed.
    let Some(mut printer) = kept.end() else { return Ok(ExitCode::FAILURE) };
    let rows = result.map_err(|e| e.to_string())?;
    let simulated = targets.iter().filter_map(|target| match target {
        Target::Simulated(run) => Some(&run.config),
        _ => None,
    });
    let report = bench::report(&rows, &names, &simulated.collect::<Vec<_>>());
    printer.print(&report)?;
    Ok(ExitCode::SUCCESS)
}

/// Measures the device under a directory.
fn device(dir: &Path, mut printer: Printer, interrupts: &Interrupts) -> Outcome {
    let times = device_times::measure(&runner(interrupts)?, dir)?;
    let setting = times.setting();
    let row = serde_json::json!({
        "read_us": times.read_ns / 1000, "write_us": times.write_ns / 1000,
        "flush_us": times.flush_ns / 1000, "bytes_per_s": times.bytes_per_s,
        "ssd": setting,
    });
    let mut report = Report::answer("bench", format!("The device under {}", dir.display()));
    let us = |ns: u64| duration(ns as f64 / 1e3);
    let verdict = format!(
        "A read takes {}, a write {}, a flush {}. Simulations have this device as the disk below.",
        us(times.read_ns),
        us(times.write_ns),
        us(times.flush_ns)
    );
    report.set_verdict(verdict, "Medians, measured one request after the other.");
    report.add(Part::Lines(format!("disk=ssd-sata,ssd={setting}")));
    report.add_rows([row]);
    printer.print(&report)?;
    Ok(ExitCode::SUCCESS)
}

/// Removes the directories of runs below `dir` after an interrupt.
fn undoes_runs(dir: &Path, interrupts: &Interrupts) -> Undoing {
    let (dir, ours) = (dir.to_owned(), format!("twinfs-bench-{}-", std::process::id()));
    interrupts.undo(move || {
        for entry in std::fs::read_dir(&dir).into_iter().flatten().flatten() {
            if entry.file_name().to_string_lossy().starts_with(&ours) {
                remove_by_force(&entry.path());
            }
        }
    })
}

/// Options that are for directories need one.
fn check_options(args: &Bench) -> Result<(), Failure> {
    if args.start.is_given() && args.sim.is_empty() {
        return Err(usage(
            "--aged, --fill and --from are for simulations: give --config CONFIG too",
        ));
    }
    if args.log.is_some() && args.sim.is_empty() {
        return Err(usage("--log is for simulations: give --config CONFIG too"));
    }
    match args.cold {
        Some(_) if args.dir.is_empty() => {
            Err(usage("--cold is for directories: give --dir DIR too"))
        }
        _ if args.runs.is_some() && args.dir.is_empty() && !args.peers => {
            Err(usage("--runs is for --dir and --peers: simulated runs are all the same"))
        }
        _ => Ok(()),
    }
}

/// The runs: on new volumes, and where others are asked for on these, too.
fn simulated(args: &Bench) -> Result<Vec<Run>, Failure> {
    let runs = args.sim.iter().map(|text| Config::parse(text).map(Run::of).map_err(usage));
    let runs = runs.collect::<Result<Vec<_>, _>>()?;
    let Some(start) = Start::of(&args.start)? else { return Ok(runs) };
    let mut old = start.apply_all(runs.clone())?;
    old.iter_mut().for_each(|run| run.config.name += " (old)");
    Ok(match start.has_fresh() {
        true => runs.into_iter().chain(old).collect(),
        false => old,
    })
}

fn targets(args: &Bench, stop: &Arc<AtomicBool>) -> Result<Vec<Target>, Failure> {
    let mut targets = Vec::new();
    let mut runs = simulated(args)?;
    if let Some(categories) = args.log {
        tell_of_events(&mut runs, categories);
    }
    for run in runs {
        let run = Box::new(run);
        targets.push(match args.warm {
            true => Target::SimulatedWarm(run),
            false => Target::Simulated(run),
        });
    }
    for path in &args.dir {
        let cold = match (&args.cold, args.warm) {
            (_, true) => directory::Cold::Never,
            (Some(command), _) => directory::Cold::Command(command.clone()),
            (None, _) => directory::Cold::DropCaches,
        };
        let dir = directory::Directory {
            path: absolute(path)?,
            cold,
            stop: Arc::clone(stop),
            sync: sync_file_system,
        };
        if !args.warm && !dir.can_be_cold() {
            twin_host::note!("twinfs: not root: caches stay warm in {}", path.display());
        }
        targets.push(Target::Directory(dir));
    }
    Ok(targets)
}
