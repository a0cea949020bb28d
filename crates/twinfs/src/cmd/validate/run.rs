//! One workload of `twinfs validate`: recorded once, run for real and simulated on each configuration.
//!
//! Contract: a run is measured from a statfs of the mount, just before the workload starts, to the answer of
//! an fsync of the mount's root after the kernel has handed over all that it had collected. Both are in the
//! recording, so that simulations are measured between the same two requests.

use std::fs::File;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use twin_fs::{Op, ROOT_INO};
use twin_lab::{Config, Figures, MachineFile, Workload, simulate};
use twin_trace::replay::Pace;
use twin_trace::{Reader, Record, Source, Verb, Writer};

use super::loads::Load;
use crate::cmd::calibrate::median;
use crate::cmd::interrupt::ScratchDir;
use crate::cmd::mounted::{Mounted, this_program};
use crate::cmd::time::real_clock;

/// A configuration that is mounted and simulated.
pub(super) struct Setup {
    pub(super) name: &'static str,
    /// Arguments of `twinfs mkfs`.
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
    Setup {
        name: "lfs",
        mkfs: &["--layout", "lfs"],
        mount: &["--cache", "64M"],
        config: "lfs:size=1G,cache=64M",
    },
    Setup {
        name: "lfs, 4 MiB of cache",
        mkfs: &["--layout", "lfs"],
        mount: &["--cache", "4M"],
        config: "lfs:size=1G,cache=4M",
    },
    Setup {
        name: "ffs, journal",
        mkfs: &["--layout", "ffs"],
        mount: &["--cache", "64M"],
        config: "ffs:size=1G,cache=64M",
    },
    Setup {
        name: "ffs, synchronous",
        mkfs: &["--layout", "ffs", "--ordering=sync"],
        mount: &["--cache", "64M"],
        config: "ffs:size=1G,cache=64M,ordering=sync",
    },
];

/// Where it all happens.
pub(super) struct Place {
    /// The directory of the command, with the image in it.
    pub(super) dir: PathBuf,
    pub(super) material: PathBuf,
    /// Removes the directory at the end.
    pub(super) _scratch: ScratchDir,
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

impl Place {
    fn image(&self) -> PathBuf {
        self.dir.join("image")
    }

    fn mnt(&self) -> PathBuf {
        self.dir.join("mnt")
    }

    /// Runs the workload for real on a new volume; returns seconds.
    pub(super) fn real(
        &self,
        load: &Load,
        setup: &Setup,
        record: Option<&Path>,
    ) -> Result<f64, String> {
        let mut mkfs = this_program()?;
        let made = mkfs.args(["mkfs", "--force"]).args(setup.mkfs).arg(self.image()).output();
        let made = made.map_err(|e| format!("mkfs: {e}"))?;
        if !made.status.success() {
            return Err(String::from_utf8_lossy(&made.stderr).trim().to_owned());
        }
        let mut options: Vec<&str> = setup.mount.to_vec();
        let text = record.map(|path| path.display().to_string());
        if let Some(path) = &text {
            options.extend(["--record", path]);
        }
        let mounted = Mounted::start(&self.image(), &self.mnt(), &options)?;
        let took = measured(load, &self.mnt(), &self.material)?;
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
    let config = Config::parse(setup.config).map_err(|e| e.to_string())?;
    let config = config.on_machine(Arc::clone(machine));
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

/// Runs the workload between the two marks; returns the seconds between them.
fn measured(load: &Load, mnt: &Path, material: &Path) -> Result<f64, String> {
    let said = |e: std::io::Error| format!("{}: {e}", mnt.display());
    let root = File::open(mnt).map_err(said)?;
    let work = mnt.join("work");
    std::fs::create_dir(&work).map_err(said)?;
    let clock = real_clock();
    rustix::fs::fstatvfs(root.as_fd()).map_err(|e| said(e.into()))?;
    let start = clock();
    load.run(&work, material)?;
    // The kernel hands over what it has collected; it tells nobody of the sync itself.
    rustix::fs::syncfs(root.as_fd()).map_err(|e| said(e.into()))?;
    root.sync_all().map_err(said)?;
    Ok(clock() - start)
}

/// The recording between the two marks, as a workload.
///
/// # Errors
/// If the trace is damaged or has no marks.
pub(super) fn between_marks(path: &Path) -> Result<Workload, String> {
    let said = |e: &dyn std::fmt::Display| format!("{}: {e}", path.display());
    let bytes = std::fs::read(path).map_err(|e| said(&e))?;
    let (mut begin, mut end) = (None, None);
    let mut reader = Reader::new(&bytes[..]).map_err(|e| said(&e))?;
    while let Some(record) = reader.next_record().map_err(|e| said(&e))? {
        let Record::Request { request, .. } = record else { continue };
        match request.op {
            Op::StatFs => _ = begin.get_or_insert(request.id),
            Op::Fsync { ino: ROOT_INO, .. } => end = Some(request.id),
            _ => {}
        }
    }
    let (begin, end) = begin.zip(end).ok_or_else(|| said(&"has no marks of a workload"))?;
    let mut reader = Reader::new(&bytes[..]).map_err(|e| said(&e))?;
    let mut writer = Writer::new(Vec::new(), reader.header()).map_err(|e| said(&e))?;
    let mut base = 0;
    while let Some(mut record) = reader.next_record().map_err(|e| said(&e))? {
        // What comes before the first mark, making a directory, is done at once.
        match &mut record {
            Record::Request { at_ns, request } => {
                if request.id == begin {
                    base = *at_ns;
                }
                *at_ns = at_ns.saturating_sub(base) * u64::from(base > 0);
            }
            Record::Reply { at_ns, .. } => {
                *at_ns = at_ns.saturating_sub(base) * u64::from(base > 0);
            }
            Record::Node(_) => {}
        }
        let is_end = matches!(&record, Record::Reply { id, .. } if *id == end);
        writer.record(&record).map_err(|e| said(&e))?;
        if is_end {
            break;
        }
    }
    let bytes = writer.finish().map_err(|e| said(&e))?;
    Ok(Workload::Trace(Arc::from(bytes)))
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
