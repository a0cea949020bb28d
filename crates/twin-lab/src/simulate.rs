//! One run: a workload on a configuration under virtual time.

use std::cell::RefCell;
use std::fmt;
use std::rc::Rc;

use twin_fs::{FsError, OpenVolume};
use twin_rt::{ClockOnly, Rt, Stalled};
use twin_sim::{DiskStats, SimDisk};
use twin_trace::replay::{Options, Pace, ReplayError, Replayer, Report};
use twin_trace::{Ending, Source, Verb};

use crate::config::Config;
use crate::figures::{DiskFigures, Figures, Latency, LogFigures, VerbFigures};
use crate::history::{History, Sampler};
use crate::machine::{OnVolume, on_volume};
use crate::watch::{Seat, Watcher};
use crate::workload::{Workload, WorkloadError};

/// Why a run could not be finished.
#[derive(Debug)]
pub enum SimulateError {
    /// The workload.
    Workload(WorkloadError),
    /// The disk or processor model.
    Model(String),
    /// The file system.
    Fs(FsError),
    /// The replay.
    Replay(ReplayError),
    /// Nothing could go on.
    Stalled(Stalled),
}

impl fmt::Display for SimulateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SimulateError::Workload(error) => write!(f, "{error}"),
            SimulateError::Model(error) => f.write_str(error),
            SimulateError::Fs(error) => write!(f, "{error}"),
            SimulateError::Replay(error) => write!(f, "{error}"),
            SimulateError::Stalled(error) => write!(f, "{error}"),
        }
    }
}

impl std::error::Error for SimulateError {}

impl From<FsError> for SimulateError {
    fn from(error: FsError) -> Self {
        SimulateError::Fs(error)
    }
}

pub(crate) fn model_error(error: impl fmt::Display) -> SimulateError {
    SimulateError::Model(error.to_string())
}

/// Simulates a workload on a configuration.
///
/// # Errors
/// If the workload is damaged, the configuration impossible, or the volume full beforehand.
pub fn simulate(
    config: &Config,
    workload: &Workload,
    pace: Pace,
) -> Result<Figures, SimulateError> {
    let rt = Rt::new(ClockOnly::default(), 1);
    let replay = Replay { config, workload, pace, seat: None };
    let result = rt.block_on(on_volume(&rt, config, replay));
    rt.crash();
    result.map_err(SimulateError::Stalled)?
}

/// The same with someone who looks at it, from the first operation to the last byte written. None
/// if the watcher has ended the run.
///
/// # Errors
/// As [`simulate`].
pub fn simulate_watched(
    config: &Config,
    workload: &Workload,
    pace: Pace,
    watcher: Rc<RefCell<dyn Watcher>>,
) -> Result<Option<Figures>, SimulateError> {
    let seat = Seat::new(watcher);
    let rt = seat.runtime();
    let replay = Replay { config, workload, pace, seat: Some(&seat) };
    let result = rt.block_on(on_volume(&rt, config, replay));
    let _ = seat.leave();
    rt.crash();
    match result {
        Err(_) if seat.is_stopped() => Ok(None),
        result => result.map_err(SimulateError::Stalled)?.map(Some),
    }
}

/// The same with the course of the run.
///
/// # Errors
/// As [`simulate`].
pub fn simulate_with_history(
    config: &Config,
    workload: &Workload,
    pace: Pace,
) -> Result<(Figures, History), SimulateError> {
    let sampler = Rc::new(RefCell::new(Sampler::default()));
    let watcher: Rc<RefCell<dyn Watcher>> = sampler.clone();
    let figures = simulate_watched(config, workload, pace, watcher)?;
    let figures = figures.ok_or_else(|| model_error("the run was ended"))?;
    let history = sampler.borrow_mut().history();
    Ok((figures, history))
}

struct Replay<'a> {
    config: &'a Config,
    workload: &'a Workload,
    pace: Pace,
    seat: Option<&'a Seat>,
}

impl OnVolume for Replay<'_> {
    type Output = Figures;

    async fn run(
        self,
        rt: &Rt,
        disk: &SimDisk,
        volume: &OpenVolume,
    ) -> Result<Figures, SimulateError> {
        let Replay { config, workload, pace, seat } = self;
        let mut replayer = Replayer::new(rt, volume, Options { pace, ..Options::default() });
        let population = workload.population().map_err(SimulateError::Workload)?;
        replayer.populate(&population).await.map_err(SimulateError::Replay)?;
        let flush = twin_disk::Io::flush(twin_disk::Origin::User);
        volume.core().device.submit(flush).await.map_err(FsError::Io)?;
        if !population.is_empty() {
            volume.execute(sync_request()).await?;
            volume.core().drop_caches();
        }
        disk.reset_stats();
        let before = LogFigures::of(volume);
        if let Some(seat) = seat {
            seat.begin(disk, volume);
        }
        let mut source = workload.start().map_err(SimulateError::Workload)?;
        let report = replayer.run(&mut source).await.map_err(SimulateError::Replay)?;
        let _ = replayer.let_go().await;
        // What is still dirty is part of the work.
        volume.execute(sync_request()).await?;
        if let Some(seat) = seat {
            seat.end();
        }
        let figures = figures(rt, config, volume, &report, &disk.stats(), before);
        Ok(Figures { cut: cut(&*source), ..figures })
    }
}

/// What a workload that has ended lacks, if it was cut off.
pub fn cut(source: &dyn Source) -> Option<String> {
    match source.ending() {
        Some(cut @ Ending::Cut { .. }) => Some(cut.to_string()),
        Some(Ending::Closed) | None => None,
    }
}

fn sync_request() -> twin_fs::Request {
    twin_fs::Request::root(u64::MAX, twin_fs::Op::Sync)
}

fn figures(
    rt: &Rt,
    config: &Config,
    volume: &OpenVolume,
    report: &Report,
    disk: &DiskStats,
    before: LogFigures,
) -> Figures {
    let span_s = report.span_ns as f64 / 1e9;
    let cache = volume.core().cache.stats();
    let verbs = Verb::ALL.iter().filter(|&&verb| report.verb(verb).done > 0).map(|&verb| {
        let stats = report.verb(verb);
        let latency = Latency::of(&stats.latency_ns);
        VerbFigures { verb: verb.name(), errors: stats.errors, latency }
    });
    Figures {
        config: config.name.clone(),
        disk: config.disk.clone(),
        ops: report.ops,
        span_s,
        ops_per_s: if span_s > 0.0 { report.ops as f64 / span_s } else { 0.0 },
        read_bytes: report.read_bytes,
        written_bytes: report.written_bytes,
        diverged: report.diverged_ops(),
        failed: report.failed_ops(),
        rank: None,
        latency: Latency::of(&report.latency_ns()),
        verbs: verbs.collect(),
        cache_hit_share: cache.hits as f64 / (cache.hits + cache.misses).max(1) as f64,
        cpu_s: volume.core().cpu.busy_ns() as f64 / 1e9,
        log: LogFigures::of(volume).since(&before),
        disk_use: disk_figures(disk),
        digest: format!("{:016x}", rt.digest().value()),
        real_s: 0.0,
        cut: None,
    }
}

fn disk_figures(stats: &DiskStats) -> DiskFigures {
    DiskFigures {
        reads: stats.reads.requests,
        read_bytes: stats.reads.bytes,
        writes: stats.writes.requests,
        written_bytes: stats.writes.bytes,
        flushes: stats.flushes.requests,
        busy_s: stats.busy_ns as f64 / 1e9,
        time_s: stats.parts.named().iter().map(|&(name, ns)| (name, ns as f64 / 1e9)).collect(),
    }
}
