//! `twinfs validate`: how far simulations of this machine are from it.
//!
//! Contract: real workloads are recorded on one configuration, then run for real on each of several and
//! simulated from the recording, several times each, in turn. The report has the error of each pair, of the
//! means of operations, and whether the order of configurations is right where real runs can tell them
//! apart. Everything happens in a directory of its own, which is removed at the end, also after an interrupt.

mod loads;
mod report;
mod run;

use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use twin_lab::MachineFile;
use twin_settings::SettingsError;

use super::compare::machine_file;
use super::interrupt::ScratchDir;
use super::progress::Progress;
use super::{Failure, Interrupts, Outcome, say, usage};
use crate::cli::Validate;
use crate::rows;
use loads::{LOADS, Load};
use report::Report;
use run::{Pair, Place, SETUPS, SIZE};

pub(crate) fn run(args: &Validate, interrupts: &Interrupts) -> Outcome {
    if let Some(name) = &args.load {
        return Ok(loads::run_own(name).map(|()| ExitCode::SUCCESS)?);
    }
    let loads = chosen(&args.workloads)?;
    if args.list {
        for load in loads {
            say(format!("{:<12} {}", load.name, load.about))?;
        }
        return Ok(ExitCode::SUCCESS);
    }
    if !args.dir.is_dir() {
        return Err(format!("{} is no directory", args.dir.display()).into());
    }
    // Now, not after the first workload.
    if let Some(dir) = &args.keep {
        std::fs::create_dir_all(dir).map_err(|e| format!("{}: {e}", dir.display()))?;
    }
    let machine = match &args.machine {
        Some(path) => machine_file(path)?,
        None => super::calibrate::calibrate(&args.dir, interrupts)?,
    };
    let report = validate(args, &loads, machine, interrupts)?;
    rows::print(&args.output, &report.rows(), || Ok(report.text()))?;
    if let Some(path) = &args.machine {
        note_error(&report, path)?;
    }
    if let Some(path) = &args.markdown {
        std::fs::write(path, report.markdown()).map_err(|e| format!("{}: {e}", path.display()))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Writes the error into the machine file, from which `twinfs compare --machine` takes it.
fn note_error(report: &Report, path: &Path) -> Result<(), String> {
    let Some(validated) = report.validated(super::calibrate::today()) else {
        let few = "too few pairs of configurations for an error that compare could use";
        eprintln!("twinfs: {few}: {} is left as it was", path.display());
        return Ok(());
    };
    let machine = MachineFile { validated: Some(validated), ..machine_file(path)? };
    let text = machine.to_text().map_err(|e| format!("{}: {e}", path.display()))?;
    std::fs::write(path, text).map_err(|e| format!("{}: {e}", path.display()))?;
    eprintln!("twinfs: the error is noted in {}", path.display());
    Ok(())
}

fn chosen(names: &[String]) -> Result<Vec<&'static Load>, Failure> {
    if names.is_empty() {
        return Ok(LOADS.iter().collect());
    }
    let find = |name: &String| {
        let known = LOADS.iter().map(|load| load.name);
        let found = LOADS.iter().find(|load| load.name == name);
        found.ok_or_else(|| usage(SettingsError::unknown("workload", name, known)))
    };
    names.iter().map(find).collect()
}

fn validate(
    args: &Validate,
    loads: &[&'static Load],
    machine: MachineFile,
    interrupts: &Interrupts,
) -> Result<Report, String> {
    let name = format!("twinfs-validate-{}", std::process::id());
    let scratch = ScratchDir::make(args.dir.join(name), interrupts)?;
    let dir = scratch.path().to_owned();
    let material = dir.join("material");
    loads::prepare(&material).map_err(|e| format!("{}: {e}", material.display()))?;
    let image = dir.join("image");
    let filled = Progress::of_bytes("of the image written", SIZE);
    let made = std::fs::File::create_new(&image).and_then(|mut file| {
        super::peers::write_whole(&mut file, SIZE, &interrupts.stop(), &filled)
    });
    filled.finish();
    made.map_err(|e| format!("{}: {e}", image.display()))?;
    let machine = Arc::new(machine);
    let place = Place { dir, material, machine: Arc::clone(&machine) };
    let steps = loads.len() as u64
        * (u64::from(args.runs) * (SETUPS.len() as u64 + 1) + SETUPS.len() as u64);
    let bar = Progress::of("runs", steps);
    let mut report = Report::new(machine, args.runs);
    for load in loads {
        if let Some(why) = load.missing() {
            report.left_out(load, why);
            continue;
        }
        let pairs = one_load(&place, load, args, &bar, interrupts)?;
        report.add(load, pairs);
    }
    bar.finish();
    Ok(report)
}

/// Records a workload, runs it on each configuration in turn, and simulates it.
fn one_load(
    place: &Place,
    load: &Load,
    args: &Validate,
    bar: &Progress,
    interrupts: &Interrupts,
) -> Result<Vec<Pair>, String> {
    let done = || {
        bar.inc(1);
        interrupts.check()
    };
    let mut recordings = Vec::new();
    let mut real = vec![Vec::new(); SETUPS.len()];
    for turn in 0..args.runs {
        let path = place.dir.join(format!("{}-{turn}.tw", load.name));
        recordings.push((place.real(load, &SETUPS[0], Some(&path))?, path));
        done()?;
        for (setup, times) in SETUPS.iter().zip(&mut real) {
            times.push(place.real(load, setup, None)?);
            done()?;
        }
    }
    // The recording of the run that took neither long nor short stands for the workload.
    recordings.sort_by(|a, b| a.0.total_cmp(&b.0));
    let recording = &recordings[recordings.len() / 2].1;
    let workload = run::between_marks(recording)?;
    keep(args.keep.as_deref(), load, &workload)?;
    for (_, path) in &recordings {
        std::fs::remove_file(path).map_err(|e| format!("{}: {e}", path.display()))?;
    }
    let mut pairs = Vec::new();
    for (setup, real) in SETUPS.iter().zip(real) {
        let (simulated, figures) = place.simulated(&workload, setup, args.runs.into())?;
        pairs.push(Pair { setup: setup.name, real, simulated, figures });
        done()?;
    }
    Ok(pairs)
}

/// Leaves the recording in the directory that was asked for.
fn keep(dir: Option<&Path>, load: &Load, workload: &twin_lab::Workload) -> Result<(), String> {
    let (Some(dir), twin_lab::Workload::Trace(bytes)) = (dir, workload) else { return Ok(()) };
    let path = dir.join(format!("{}.tw", load.name));
    std::fs::write(&path, bytes).map_err(|e| format!("{}: {e}", path.display()))
}
