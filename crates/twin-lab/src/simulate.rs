//! One run: a workload on a configuration under virtual time.

use std::fmt;
use std::rc::Rc;

use twin_fs::{FsError, Volume};
use twin_lfs::Lfs;
use twin_rt::{ClockOnly, Rt, Stalled};
use twin_sim::DiskStats;
use twin_trace::Verb;
use twin_trace::replay::{Options, Pace, ReplayError, Replayer, Report};

use crate::config::Config;
use crate::figures::{DiskFigures, Figures, Latency, LogFigures, VerbFigures};
use crate::machine::Machine;
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
    let result = rt.block_on(run(&rt, config, workload, pace));
    rt.crash();
    result.map_err(SimulateError::Stalled)?
}

async fn run(
    rt: &Rt,
    config: &Config,
    workload: &Workload,
    pace: Pace,
) -> Result<Figures, SimulateError> {
    let Machine { disk, device, cpu } = Machine::build(rt, config)?;
    Lfs::mkfs(rt, Rc::clone(&device), &config.mkfs).await?;
    let (settings, lfs) = (config.settings.clone(), config.lfs.clone());
    let (volume, _) = Lfs::open(rt, device, cpu, settings, lfs).await?;
    let mut replayer = Replayer::new(rt, &*volume, Options { pace, ..Options::default() });
    let population = workload.population().map_err(SimulateError::Workload)?;
    replayer.populate(&population).await.map_err(SimulateError::Replay)?;
    volume
        .core
        .device
        .submit(twin_disk::Io::flush(twin_disk::Origin::User))
        .await
        .map_err(FsError::Io)?;
    if !population.is_empty() {
        twin_fs::FileSystem::execute(&*volume, sync_request()).await?;
        volume.core.drop_caches();
    }
    disk.reset_stats();
    let before = volume.layout.stats();
    let mut source = workload.start().map_err(SimulateError::Workload)?;
    let report = replayer.run(&mut source).await.map_err(SimulateError::Replay)?;
    let _ = replayer.let_go().await;
    // What is still dirty is part of the work.
    twin_fs::FileSystem::execute(&*volume, sync_request()).await?;
    let figures = figures(rt, config, &volume, &report, &disk.stats(), before);
    volume.close().await?;
    Ok(figures)
}

fn sync_request() -> twin_fs::Request {
    twin_fs::Request::root(u64::MAX, twin_fs::Op::Sync)
}

fn figures(
    rt: &Rt,
    config: &Config,
    volume: &Volume<Lfs>,
    report: &Report,
    disk: &DiskStats,
    before: twin_lfs::LfsStats,
) -> Figures {
    let span_s = report.span_ns as f64 / 1e9;
    let cache = volume.core.cache.stats();
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
        latency: Latency::of(&report.latency_ns()),
        verbs: verbs.collect(),
        cache_hit_share: cache.hits as f64 / (cache.hits + cache.misses).max(1) as f64,
        cpu_s: volume.core.cpu.busy_ns() as f64 / 1e9,
        log: log_figures(volume.layout.stats(), before),
        disk_use: disk_figures(disk),
        digest: format!("{:016x}", rt.digest().value()),
        real_s: 0.0,
    }
}

fn log_figures(after: twin_lfs::LfsStats, before: twin_lfs::LfsStats) -> LogFigures {
    let since = after.since(&before);
    LogFigures {
        write_cost: since.write_cost(),
        log_bytes: since.log_bytes,
        data_bytes: since.data_bytes,
        meta_bytes: since.meta_bytes,
        moved_bytes: since.moved_bytes,
        cleaned_segments: since.cleaned_segments,
        checkpoints: since.checkpoints,
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
