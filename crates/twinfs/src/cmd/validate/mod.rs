//! `twinfs validate`: how far simulations of this machine are from it.
//!
//! Contract: real workloads are recorded on one configuration and run for real on each of several, in
//! rounds, and simulated from the recording. Unless a machine file is given, the machine is measured between
//! the rounds. The report has the error of each pair, of the
//! means of operations, and whether the order of configurations is right where real runs can tell them
//! apart. Everything happens in a directory of its own, which is removed at the end, also after an interrupt.

mod loads;
mod report;
mod run;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use twin_lab::MachineFile;
use twin_settings::SettingsError;

use super::calibrate::Calibration;
use super::compare::machine_file;
use super::files::NewFile;
use super::interrupt::ScratchDir;
use super::marked::between_marks;
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
    let given = args.machine.as_deref().map(machine_file).transpose()?;
    let new = args.save_machine.as_ref().map(|path| NewFile::make(path, interrupts)).transpose()?;
    let report = validate(args, &loads, given, interrupts)?;
    rows::print(&args.output, &report.rows(), || Ok(report.text()))?;
    if let Some((new, path)) = new.zip(args.save_machine.as_ref()) {
        super::calibrate::write(new, &report.machine, path)?;
    }
    if let Some(path) = args.machine.as_ref().or(args.save_machine.as_ref()) {
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
    let text = super::calibrate::text_of(&machine)?;
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

/// Where the figures of the machine come from.
enum Machine {
    Given(MachineFile),
    Measured(Calibration),
}

/// What the runs of a workload left.
struct Runs {
    load: &'static Load,
    /// Seconds of each recorded run, and where the recording is.
    recordings: Vec<(f64, PathBuf)>,
    /// Seconds of each run, by configuration.
    real: Vec<Vec<f64>>,
}

fn validate(
    args: &Validate,
    loads: &[&'static Load],
    given: Option<MachineFile>,
    interrupts: &Interrupts,
) -> Result<Report, String> {
    let place = prepare(args, interrupts)?;
    let (mut left_out, mut all) = (Vec::new(), Vec::new());
    for &load in loads {
        match load.missing() {
            Some(why) => left_out.push((load.name, why)),
            None => all.push(Runs {
                load,
                recordings: Vec::new(),
                real: vec![Vec::new(); SETUPS.len()],
            }),
        }
    }
    let steps =
        all.len() as u64 * (u64::from(args.runs) * (SETUPS.len() as u64 + 1) + SETUPS.len() as u64);
    let bar = Progress::of("runs", steps);
    // The speed of a machine that others share drifts within minutes. So the rounds of everything
    // alternate: the machine is measured between the runs that its figures are held against.
    let mut machine = match given {
        Some(file) => Machine::Given(file),
        None => Machine::Measured(Calibration::begin(&place.dir, interrupts, Progress::hidden())?),
    };
    for turn in 0..args.runs {
        if let Machine::Measured(calibration) = &mut machine {
            calibration.round()?;
        }
        for runs in &mut all {
            run_once(&place, runs, turn, &bar, interrupts)?;
        }
    }
    let machine = match machine {
        Machine::Given(file) => file,
        Machine::Measured(calibration) => calibration.end(),
    };
    let mut report = Report::new(Arc::new(machine), args.runs, left_out);
    for runs in all {
        let load = runs.load;
        let pairs = simulate(&report.machine, runs, args, &bar, interrupts)?;
        report.add(load, pairs);
    }
    bar.finish();
    Ok(report)
}

/// Makes the directory to work in, with the image and what the workloads read.
fn prepare(args: &Validate, interrupts: &Interrupts) -> Result<Place, String> {
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
    Ok(Place { dir, material, _scratch: scratch })
}

/// Records a workload, and runs it on each configuration in turn.
fn run_once(
    place: &Place,
    runs: &mut Runs,
    turn: u32,
    bar: &Progress,
    interrupts: &Interrupts,
) -> Result<(), String> {
    let path = place.dir.join(format!("{}-{turn}.tw", runs.load.name));
    let took = place.real(runs.load, &SETUPS[0], Some(&path))?;
    runs.recordings.push((took, path));
    step(bar, interrupts)?;
    for (setup, times) in SETUPS.iter().zip(&mut runs.real) {
        times.push(place.real(runs.load, setup, None)?);
        step(bar, interrupts)?;
    }
    Ok(())
}

/// Simulates a workload on each configuration.
fn simulate(
    machine: &Arc<MachineFile>,
    mut runs: Runs,
    args: &Validate,
    bar: &Progress,
    interrupts: &Interrupts,
) -> Result<Vec<Pair>, String> {
    // The recording of the run that took neither long nor short stands for the workload.
    runs.recordings.sort_by(|a, b| a.0.total_cmp(&b.0));
    let recording = &runs.recordings[runs.recordings.len() / 2].1;
    let workload = between_marks(recording)?;
    keep(args.keep.as_deref(), runs.load, &workload)?;
    let mut pairs = Vec::new();
    for (setup, real) in SETUPS.iter().zip(runs.real) {
        let (simulated, figures) = run::simulated(machine, &workload, setup, args.runs.into())?;
        pairs.push(Pair { setup: setup.name, real, simulated, figures });
        step(bar, interrupts)?;
    }
    Ok(pairs)
}

/// A run has been done.
fn step(bar: &Progress, interrupts: &Interrupts) -> Result<(), String> {
    bar.inc(1);
    interrupts.check()
}

/// Leaves the recording in the directory that was asked for.
fn keep(dir: Option<&Path>, load: &Load, workload: &twin_lab::Workload) -> Result<(), String> {
    let (Some(dir), twin_lab::Workload::Trace(bytes)) = (dir, workload) else { return Ok(()) };
    let path = dir.join(format!("{}.tw", load.name));
    std::fs::write(&path, bytes).map_err(|e| format!("{}: {e}", path.display()))
}
