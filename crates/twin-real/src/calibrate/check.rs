//! A short real run against its own simulation, when everything has been measured.
//!
//! Contract: small files are made, every fourth of them durable, renamed and removed, on mounts of two layouts,
//! once in each round; then the recording is simulated on both. What comes out is the error of this calibration on a
//! workload that gave it none of its figures. It is noted in the machine file, and no figure is changed by it.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;
use std::sync::Arc;

use twin_lab::layouts::layout;
use twin_lab::{Checked, Config, MachineFile, Workload, simulate};
use twin_trace::replay::Pace;

use super::bench::Bench;
use crate::marked::{between_marks, measured};
use crate::runner::median;
use crate::systems::System;

/// The layouts; the recording of the first is simulated.
const LAYOUTS: [&str; 2] = ["lfs", "ffs"];
/// Files that are made.
const FILES: usize = 120;
/// Of as many of them one is made durable.
const DURABLE: usize = 4;

/// What the runs of all rounds took.
#[derive(Default)]
pub(super) struct Samples {
    /// Seconds on each layout.
    took: [Vec<f64>; 2],
    recordings: Vec<Workload>,
}

impl Samples {
    /// Runs once on each layout, on a volume in `image`, whose contents are lost.
    ///
    /// # Errors
    /// If a volume cannot be made, mounted or used.
    pub(super) fn round(&mut self, bench: &Bench<'_>, image: &Path) -> Result<(), String> {
        for (name, took) in LAYOUTS.into_iter().zip(&mut self.took) {
            let system = System::of_layout(layout(name).map_err(|e| e.to_string())?);
            bench.runner.make(&system, image, &[])?;
            let (mnt, trace) = (bench.dir().join("mnt"), bench.dir().join("check.tw"));
            let options = ["--cache", "64M", "--record", &trace.display().to_string()];
            let mounted = bench.runner.mount(&system, image, &mnt, &options)?;
            let seconds =
                measured(&mnt, |dir| files(dir).map_err(|e| format!("{}: {e}", dir.display())));
            mounted.end()?;
            took.push(seconds?);
            if name == LAYOUTS[0] {
                self.recordings.push(between_marks(&trace)?);
            }
            fs::remove_file(&trace).map_err(|e| format!("{}: {e}", trace.display()))?;
        }
        Ok(())
    }

    /// How far simulations are from the runs. None without runs, or if they cannot be simulated.
    pub(super) fn checked(mut self, machine: &MachineFile, date: String) -> Option<Checked> {
        let machine = Arc::new(machine.clone());
        // The recording of the run that took neither long nor short.
        let mut order: Vec<usize> = (0..self.recordings.len()).collect();
        order.sort_by(|&a, &b| self.took[0][a].total_cmp(&self.took[0][b]));
        let recording = self.recordings.swap_remove(*order.get(order.len() / 2)?);
        let simulated = |name: &str| {
            let config = Config::parse(&format!("{name}:size=256M,cache=64M")).ok()?;
            let config = config.on_machine(Arc::clone(&machine));
            Some(simulate(&config, &recording, Pace::Think { speed: 1.0 }).ok()?.span_s)
        };
        let runs = self.took[0].len();
        let mut all = Vec::new();
        for (name, took) in LAYOUTS.into_iter().zip(self.took) {
            all.push((name, simulated(name)? / median(took)));
        }
        let between = all[0].1 / all[1].1;
        let rounded = |factor: f64| (factor * 1000.0).round() / 1000.0;
        let times = all.into_iter().map(|(name, time)| (name.to_owned(), rounded(time))).collect();
        Some(Checked { date, runs, times, between: rounded(between.max(1.0 / between)) })
    }
}

fn files(dir: &Path) -> io::Result<()> {
    let content = [0x5a; 8192];
    let path = |i: usize| dir.join(format!("file-{i}"));
    for i in 0..FILES {
        let mut file = File::create(path(i))?;
        file.write_all(&content)?;
        if i % DURABLE == DURABLE - 1 {
            file.sync_all()?;
        }
    }
    for i in (0..FILES).step_by(2) {
        fs::rename(path(i), dir.join(format!("renamed-{i}")))?;
    }
    for i in (1..FILES).step_by(4) {
        fs::remove_file(path(i))?;
    }
    Ok(())
}
