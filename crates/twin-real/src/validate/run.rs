//! One workload of `twinfs validate`: recorded once, run for real and simulated on each configuration.
//!
//! Contract: a run is measured between two marks ([`measured`]), and so is its simulation.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use twin_host::ScratchDir;
use twin_lab::{Config, Figures, MachineFile, Workload, simulate};
use twin_trace::Verb;
use twin_trace::replay::Pace;

use super::loads::Load;
use crate::marked::measured;
use crate::runner::{Runner, median};
use crate::systems::System;

/// A configuration that is mounted and simulated.
pub(super) struct Setup {
    pub(super) name: &'static str,
    /// Arguments of `twinfs mkfs` besides the layout.
    mkfs: &'static [&'static str],
    /// Arguments of `twinfs mount`.
    mount: &'static [&'static str],
    /// The same for a simulation.
    config: &'static str,
}

/// Bytes of the volumes.
pub(super) const SIZE: u64 = 1 << 30;

/// All configurations; recordings are made on the first.
pub(super) const SETUPS: &[Setup] = &[
    Setup { name: "lfs", mkfs: &[], mount: &["--cache", "64M"], config: "lfs:size=1G,cache=64M" },
    Setup {
        name: "lfs, 4 MiB of cache",
        mkfs: &[],
        mount: &["--cache", "4M"],
        config: "lfs:size=1G,cache=4M",
    },
    Setup {
        name: "ffs, journal",
        mkfs: &[],
        mount: &["--cache", "64M"],
        config: "ffs:size=1G,cache=64M",
    },
    Setup {
        name: "ffs, synchronous",
        mkfs: &["--ordering=sync"],
        mount: &["--cache", "64M"],
        config: "ffs:size=1G,cache=64M,ordering=sync",
    },
];

impl Setup {
    /// What is simulated.
    fn config(&self) -> Result<Config, String> {
        Config::parse(self.config).map_err(|error| format!("{}: {error}", self.name))
    }
}

/// Where it all happens.
pub(super) struct Site<'a> {
    pub(super) runner: Runner<'a>,
    /// What the workloads read.
    pub(super) material: PathBuf,
    /// The directory of the command, with the image in it; it is removed at the end.
    pub(super) scratch: ScratchDir,
}

/// Times of a configuration under a workload, in seconds.
pub(super) struct Pair {
    pub(super) setup: &'static str,
    pub(super) real: Vec<f64>,
    pub(super) simulated: Vec<f64>,
    /// The figures of one of the simulated runs.
    pub(super) figures: Figures,
}

impl Pair {
    /// The simulated median over the real one.
    pub(super) fn ratio(&self) -> f64 {
        median(self.simulated.clone()) / median(self.real.clone())
    }
}

impl Site<'_> {
    pub(super) fn image(&self) -> PathBuf {
        self.scratch.path().join("image")
    }

    fn mnt(&self) -> PathBuf {
        self.scratch.path().join("mnt")
    }

    /// Runs the workload for real on a new volume; returns seconds.
    pub(super) fn real(
        &self,
        load: &Load,
        setup: &Setup,
        record: Option<&Path>,
    ) -> Result<f64, String> {
        let system = System::of_layout(setup.config()?.layout);
        self.runner.make(&system, &self.image(), setup.mkfs)?;
        let mut options: Vec<&str> = setup.mount.to_vec();
        let text = record.map(|path| path.display().to_string());
        if let Some(path) = &text {
            options.extend(["--record", path]);
        }
        let mounted = self.runner.mount(&system, &self.image(), &self.mnt(), &options)?;
        let took = measured(&self.mnt(), |work| load.run(&self.runner, work, &self.material))?;
        mounted.end()?;
        Ok(took)
    }
}

/// Simulates a recording on a configuration of the machine, once for each seed.
pub(super) fn simulated(
    machine: &Arc<MachineFile>,
    workload: &Workload,
    setup: &Setup,
    seeds: u64,
) -> Result<(Vec<f64>, Figures), String> {
    let config = setup.config()?.on_machine(Arc::clone(machine));
    let mut times = Vec::new();
    let mut last = Figures::default();
    for seed in 1..=seeds {
        let config = Config { seed, ..config.clone() };
        let figures = simulate(&config, workload, Pace::Think { speed: 1.0 });
        last = figures.map_err(|e| format!("{}: {e}", setup.name))?;
        times.push(last.span_s);
    }
    Ok((times, last))
}

/// Mean latencies of the kinds of operations that took most of the time: name, recorded and
/// simulated mean in microseconds, and how many.
pub(super) fn means(figures: &Figures) -> Vec<(&'static str, f64, f64, u64)> {
    let mut all: Vec<_> = figures
        .verbs
        .iter()
        .filter(|verb| verb.verb != Verb::Forget.name())
        .filter_map(|verb| {
            let recorded = verb.recorded?;
            Some((verb.verb, recorded.mean_us, verb.latency.mean_us, verb.latency.count))
        })
        .collect();
    all.sort_by(|a, b| (b.1 * b.3 as f64).total_cmp(&(a.1 * a.3 as f64)));
    all
}
