//! The arguments of the commands that compare simulations with a machine, and those that all runs of a
//! workload share: the pace of a replay, and settings of several configurations.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::Output;

/// When operations are issued.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Pace {
    /// As soon as the operations before them have ended.
    Asap,
    /// At the times at which they were recorded.
    Recorded,
    /// With the pauses between them that were recorded.
    Think,
}

impl Pace {
    /// The chosen pace, or else the one that suits the workload, with its speed.
    ///
    /// # Errors
    /// If the speed is not positive, or the pace has no times that it could change.
    pub(crate) fn of(
        chosen: Option<Pace>,
        workload: &twin_lab::Workload,
        speed: Option<f64>,
    ) -> Result<twin_trace::replay::Pace, String> {
        let pace = match chosen {
            Some(pace) => pace,
            // Its pauses are those of real clients.
            None if workload.is_of_mount().map_err(|e| e.to_string())? => Pace::Think,
            // Deadlines are times of the workload.
            None if workload.has_deadlines().map_err(|e| e.to_string())? => Pace::Recorded,
            None => Pace::Asap,
        };
        if pace == Pace::Asap && speed.is_some() {
            return Err("--speed is for --pace recorded and --pace think".into());
        }
        let speed = speed.unwrap_or(1.0);
        if !(speed.is_finite() && speed > 0.0) {
            return Err(format!("--speed {speed}: must be more than 0"));
        }
        Ok(match pace {
            Pace::Asap => twin_trace::replay::Pace::Asap,
            Pace::Recorded => twin_trace::replay::Pace::Recorded { speed },
            Pace::Think => twin_trace::replay::Pace::Think { speed },
        })
    }
}

/// Measure this machine, so that it can be simulated.
///
/// Measures the device under a directory (times by kind, size and number of requests in flight), the
/// cost of passing a request to a mount, and the processor's costs of each layout, all several times
/// in under 20 seconds. Last, a short real run is held against its own simulation, and the error is
/// noted in the file. `twinfs compare --machine FILE` simulates the machine.
#[derive(Args)]
pub(crate) struct Calibrate {
    /// The machine file to write, which must not exist: TOML, with times in microseconds.
    #[arg(long = "output", short = 'o', value_name = "FILE", default_value = "machine.toml")]
    pub(crate) to: PathBuf,
    #[command(flatten)]
    pub(crate) output: Output,
    /// Measure a block device although it is not blank. Everything on it is lost.
    #[arg(long)]
    pub(crate) force: bool,
    /// A directory on the device to measure, which needs half a gigabyte of free space, or a blank block
    /// device, which is written in random places.
    #[arg(default_value = ".", value_name = "DIR|DEVICE")]
    pub(crate) dir: PathBuf,
}

/// Measure how far simulations are from this machine.
///
/// Records real workloads (builds, git, SQLite, mail and others) on a mount, runs each for real on
/// several configurations, simulates the recordings on the same configurations, and reports the errors
/// of the simulations and whether they rank the configurations correctly. Takes some ten minutes; the
/// machine should be quiet.
#[derive(Args)]
pub(crate) struct Validate {
    /// The machine file of this machine; the error of simulation is written into it. Default: calibrate
    /// between the runs, so that changes in the speed of a shared machine affect both alike.
    #[arg(long, value_name = "FILE")]
    pub(crate) machine: Option<PathBuf>,
    /// Write the machine, as it was measured between the runs, to this file, which must not exist.
    #[arg(long, value_name = "FILE", conflicts_with = "machine")]
    pub(crate) save_machine: Option<PathBuf>,
    /// How often each workload runs on each configuration. More runs help where the speed of the
    /// machine varies; each adds about two minutes.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=100))]
    pub(crate) runs: u32,
    /// Run only these workloads, such as untar,git.
    #[arg(long, value_delimiter = ',', value_name = "NAMES")]
    pub(crate) workloads: Vec<String>,
    /// List the workloads.
    #[arg(long, conflicts_with_all = ["format", "json"])]
    pub(crate) list: bool,
    /// Also write the report to this file, as Markdown, and its picture beside it, as SVG.
    #[arg(long, value_name = "FILE")]
    pub(crate) markdown: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) output: Output,
    /// Keep the recordings in this directory, which is created if it does not exist.
    #[arg(long, value_name = "DIR")]
    pub(crate) keep: Option<PathBuf>,
    /// Do one of the loads here: for this command's own children.
    #[arg(long, hide = true)]
    pub(crate) load: Option<String>,
    /// A directory on the device, which needs a gigabyte and a half of free space.
    #[arg(default_value = ".")]
    pub(crate) dir: PathBuf,
}

/// Settings of several configurations.
#[derive(Args)]
pub(crate) struct SharedSettings {
    /// Settings for all configurations, such as size=256M,cache=16M. Settings of a single configuration
    /// override them. Default for the trace that comes with the program:
    /// size=256M,cache=16M,disk=ssd-tlc, because it nearly fills such a volume; otherwise none.
    #[arg(long, value_name = "SETTINGS")]
    pub(crate) with: Option<String>,
    /// Find out what would change the order of the best two, or that nothing does: run both again with a
    /// smaller and a larger cache, with other block sizes, and on a disk of another kind.
    #[arg(help_heading = "Judgement", long)]
    pub(crate) what_if: bool,
}
