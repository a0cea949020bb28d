//! `twinfs validate`: how far simulations of this machine are from it.
//!
//! Contract: real workloads are recorded on one configuration and run for real on each of several, in
//! rounds, and simulated from the recording. Unless a machine file is given, the machine is measured between
//! the rounds. The report has the error of each pair, of the
//! means of operations, and whether the order of configurations is right where real runs can tell them
//! apart. Everything happens in a directory of its own, which is removed at the end, also after an interrupt.

mod loads;
mod picture;
mod report;
mod run;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use twin_host::{Bar, Count};
use twin_lab::{MachineFile, Workload};
use twin_settings::SettingsError;

use crate::calibrate::Calibration;
use crate::marked::between_marks;
use crate::runner::Runner;
use loads::LOADS;
use run::{Pair, SETUPS, SIZE, Site};

pub use loads::{Load, run_own};
pub use report::Report;

/// What is validated, and how.
pub struct Validation<'a> {
    /// A directory on the device.
    pub dir: &'a Path,
    /// The workloads.
    pub loads: &'a [&'static Load],
    /// How often each workload runs on each configuration.
    pub runs: u32,
    /// Where recordings stay.
    pub keep: Option<&'a Path>,
    /// The machine; `None`: it is measured between the runs.
    pub machine: Option<MachineFile>,
}

/// The workloads of these names; all, if there is none.
///
/// # Errors
/// If there is no workload of a name; the message lists those that there are.
pub fn loads(names: &[String]) -> Result<Vec<&'static Load>, SettingsError> {
    if names.is_empty() {
        return Ok(LOADS.iter().collect());
    }
    let find = |name: &String| {
        let known = LOADS.iter().map(|load| load.name);
        let found = LOADS.iter().find(|load| load.name == name);
        found.ok_or_else(|| SettingsError::unknown("workload", name, known))
    };
    names.iter().map(find).collect()
}

/// Where the figures of the machine come from.
enum Machine<'a> {
    Given(Box<MachineFile>),
    Measured(Box<Calibration<'a>>),
}

/// What the runs of a workload left.
struct Runs {
    load: &'static Load,
    /// Seconds of each recorded run, and where the recording is.
    recordings: Vec<(f64, PathBuf)>,
    /// Seconds of each run, by configuration.
    real: Vec<Vec<f64>>,
}

/// Runs the workloads for real, and simulates them.
///
/// # Errors
/// If nothing can be made or mounted there, a workload fails, or the user interrupts.
pub fn validate(runner: &Runner<'_>, validation: Validation<'_>) -> Result<Report, String> {
    let Validation { dir, loads, runs, keep, machine } = validation;
    let site = prepare(runner, dir, loads)?;
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
        all.len() as u64 * (u64::from(runs) * (SETUPS.len() as u64 + 1) + SETUPS.len() as u64);
    let bar = runner.progress.begin("runs", Count::Steps(steps));
    // The speed of a machine that others share drifts within minutes. So the rounds of everything
    // alternate: the machine is measured between the runs that its figures are held against.
    let mut machine = match machine {
        Some(file) => Machine::Given(Box::new(file)),
        None => {
            let calibration = Calibration::begin(runner, site.scratch.path(), Bar::hidden())?;
            Machine::Measured(Box::new(calibration))
        }
    };
    for turn in 0..runs {
        if let Machine::Measured(calibration) = &mut machine {
            calibration.round()?;
        }
        for of_load in &mut all {
            run_once(&site, of_load, turn, &bar)?;
        }
    }
    let machine = match machine {
        Machine::Given(file) => *file,
        Machine::Measured(calibration) => calibration.end(),
    };
    let mut report = Report::new(Arc::new(machine), runs, left_out);
    for of_load in all {
        let load = of_load.load;
        let workload = of_load.workload()?;
        keep_recording(keep, load, &workload)?;
        let pairs =
            simulate(&report.machine, &workload, of_load.real, runs, &|| step(runner, &bar))?;
        report.add(load, pairs);
    }
    bar.finish();
    Ok(report)
}

impl Runs {
    /// The recording that stands for the workload: that of the run that took neither long nor short.
    fn workload(&self) -> Result<Workload, String> {
        let mut recordings: Vec<&(f64, PathBuf)> = self.recordings.iter().collect();
        recordings.sort_by(|a, b| a.0.total_cmp(&b.0));
        between_marks(&recordings[recordings.len() / 2].1)
    }
}

/// Makes the directory to work in, with the image and what the workloads read.
fn prepare<'a>(
    runner: &Runner<'a>,
    dir: &Path,
    loads: &[&'static Load],
) -> Result<Site<'a>, String> {
    let scratch = runner.scratch(dir, "validate")?;
    let material = scratch.path().join("material");
    loads::prepare(&material, loads).map_err(|e| format!("{}: {e}", material.display()))?;
    let site = Site { runner: runner.clone(), material, scratch };
    runner.full_file(&site.image(), SIZE, Some("of the image written"))?;
    Ok(site)
}

/// Records a workload, and runs it on each configuration in turn.
fn run_once(site: &Site<'_>, runs: &mut Runs, turn: u32, bar: &Bar) -> Result<(), String> {
    let path = site.scratch.path().join(format!("{}-{turn}.tw", runs.load.name));
    let took = site.real(runs.load, &SETUPS[0], Some(&path))?;
    runs.recordings.push((took, path));
    step(&site.runner, bar)?;
    for (setup, times) in SETUPS.iter().zip(&mut runs.real) {
        times.push(site.real(runs.load, setup, None)?);
        step(&site.runner, bar)?;
    }
    Ok(())
}

/// Simulates a workload on each configuration, beside the seconds of its real runs.
fn simulate(
    machine: &Arc<MachineFile>,
    workload: &Workload,
    real: Vec<Vec<f64>>,
    runs: u32,
    step: &dyn Fn() -> Result<(), String>,
) -> Result<Vec<Pair>, String> {
    let mut pairs = Vec::new();
    for (setup, real) in SETUPS.iter().zip(real) {
        let (simulated, figures) = run::simulated(machine, workload, setup, runs.into())?;
        pairs.push(Pair { setup: setup.name, real, simulated, figures });
        step()?;
    }
    Ok(pairs)
}

/// A run has been done.
fn step(runner: &Runner<'_>, bar: &Bar) -> Result<(), String> {
    bar.add(1);
    runner.check()
}

/// Leaves the recording in the directory that was asked for.
fn keep_recording(dir: Option<&Path>, load: &Load, workload: &Workload) -> Result<(), String> {
    let (Some(dir), Workload::Trace(bytes)) = (dir, workload) else { return Ok(()) };
    let path = dir.join(format!("{}.tw", load.name));
    std::fs::write(&path, bytes).map_err(|e| format!("{}: {e}", path.display()))
}
