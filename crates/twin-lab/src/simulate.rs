//! One run: a workload on a configuration under virtual time.

use std::cell::RefCell;
use std::rc::Rc;

use twin_fs::{FileSystem, FsError, OpenVolume};
use twin_rt::{ClockOnly, Nanos, Rt};
use twin_sim::fuse::{Fuse, FuseCosts};
use twin_sim::{DiskStats, SimDisk};
use twin_trace::replay::{Options, Pace, Replayer, Report};
use twin_trace::{Ending, Source, Verb};

use crate::config::{Config, Front};
use crate::error::{SimulateError, model_error};
use crate::figures::{DiskFigures, Figures, Latency, Lateness, LogFigures, VerbFigures};
use crate::history::{History, Sampler};
use crate::machine::{OnVolume, on_volume};
use crate::watch::{Seat, Watcher};
use crate::workload::Workload;

/// Simulates a workload on a configuration.
///
/// # Errors
/// If the workload is damaged, the configuration impossible, or the volume full before the workload
/// starts.
pub fn simulate(
    config: &Config,
    workload: &Workload,
    pace: Pace,
) -> Result<Figures, SimulateError> {
    let (config, fuse) = &behind_front_end(config, workload, pace)?;
    let rt = Rt::new(ClockOnly::default(), config.run_seed());
    let replay = Replay { config, workload, pace, seat: None, fuse: *fuse };
    let result = rt.block_on(on_volume(&rt, config, replay));
    rt.crash();
    result.map_err(SimulateError::Stalled)?
}

/// As [`simulate`], with a watcher from the first operation to the last byte written. Returns
/// `None` if the watcher has ended the run.
///
/// # Errors
/// As [`simulate`].
pub fn simulate_watched(
    config: &Config,
    workload: &Workload,
    pace: Pace,
    watcher: Rc<RefCell<dyn Watcher>>,
) -> Result<Option<Figures>, SimulateError> {
    let (config, fuse) = &behind_front_end(config, workload, pace)?;
    let seat = Seat::new(watcher);
    let rt = seat.runtime(config.run_seed());
    let replay = Replay { config, workload, pace, seat: Some(&seat), fuse: *fuse };
    let result = rt.block_on(on_volume(&rt, config, replay));
    let _ = seat.leave();
    rt.crash();
    match result {
        Err(_) if seat.is_stopped() => Ok(None),
        result => result.map_err(SimulateError::Stalled)?.map(Some),
    }
}

/// As [`simulate`], and returns the history of the run.
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
    /// The cost of the kernel before the core, where the workload's own pauses do not contain it.
    fuse: Option<FuseCosts>,
}

/// A configuration with the settings that its front end demands of the volume, and the cost of that
/// front end.
fn behind_front_end(
    config: &Config,
    workload: &Workload,
    pace: Pace,
) -> Result<(Config, Option<FuseCosts>), SimulateError> {
    let of_mount = workload.is_of_mount().map_err(SimulateError::Workload)?;
    let behind_kernel = match config.front {
        Front::AsRecorded => of_mount,
        Front::Nothing => false,
        Front::Fuse => true,
    };
    if !behind_kernel {
        return Ok((config.clone(), None));
    }
    let settings = config.settings.clone().mounted();
    let costs = config.machine.as_ref().map_or(FuseCosts::default(), |machine| machine.fuse());
    // Recorded pauses contain what the kernel took between an answer and the next request.
    let in_pauses = of_mount && pace != Pace::Asap;
    Ok((Config { settings, ..config.clone() }, (!in_pauses).then_some(costs)))
}

impl OnVolume for Replay<'_> {
    type Output = Figures;

    async fn run(
        self,
        rt: &Rt,
        disk: &SimDisk,
        volume: &OpenVolume,
    ) -> Result<Figures, SimulateError> {
        match self.fuse {
            None => self.play(rt, disk, volume, volume).await,
            Some(costs) => {
                let cpu = volume.core().cpu.clone();
                let fs = Fuse::new(rt, volume.clone(), cpu, costs);
                self.play(rt, disk, volume, &fs).await
            }
        }
    }
}

impl Replay<'_> {
    /// Plays the workload on `fs`, behind which `volume` is.
    async fn play(
        self,
        rt: &Rt,
        disk: &SimDisk,
        volume: &OpenVolume,
        fs: &impl FileSystem,
    ) -> Result<Figures, SimulateError> {
        let Replay { config, workload, pace, seat, fuse: _ } = self;
        let mut replayer = Replayer::new(rt, fs, Options { pace, ..Options::default() });
        let population = workload.population().map_err(SimulateError::Workload)?;
        replayer.populate(&population).await.map_err(SimulateError::Replay)?;
        let flush = twin_disk::Io::flush(twin_disk::Origin::User);
        volume.core().device.submit(flush).await.map_err(FsError::Io)?;
        if !population.is_empty() {
            volume.execute(sync_request()).await?;
            volume.core().drop_caches();
        }
        disk.reset_stats();
        let before = Before { log: LogFigures::of(volume), cpu_ns: volume.core().cpu.busy_ns() };
        if let Some(seat) = seat {
            seat.begin(disk, volume);
        }
        let mut source = workload.start().map_err(SimulateError::Workload)?;
        let began = rt.now();
        let report = replayer.run(&mut source).await.map_err(SimulateError::Replay)?;
        let _ = replayer.release_all().await;
        // Writing the remaining dirty data is part of the work, until the disk's own cache has
        // given it to the medium.
        volume.execute(sync_request()).await?;
        let finish_ns = rt.now() - began;
        if let Some(seat) = seat {
            seat.end();
        }
        let figures = figures(rt, config, volume, &report, &disk.stats(), &before);
        Ok(Figures { cut: cut(&*source), finish_s: finish_ns as f64 / 1e9, ..figures })
    }
}

/// What had been done before the workload began: making the volume and populating it.
struct Before {
    log: LogFigures,
    cpu_ns: Nanos,
}

/// The missing part of a workload that has ended, if it was cut off.
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
    before: &Before,
) -> Figures {
    let span_s = report.span_ns as f64 / 1e9;
    let cache = volume.core().cache.stats();
    let verbs = Verb::ALL.iter().filter(|&&verb| report.verb(verb).done > 0).map(|&verb| {
        let stats = report.verb(verb);
        VerbFigures::of(verb.name(), stats.errors, &stats.latency_ns, &stats.recorded_ns)
    });
    Figures {
        config: config.name.clone(),
        disk: config.disk.clone(),
        ops: report.ops,
        span_s,
        finish_s: span_s,
        ops_per_s: if span_s > 0.0 { report.ops as f64 / span_s } else { 0.0 },
        read_bytes: report.read_bytes,
        written_bytes: report.written_bytes,
        write_amplification: (report.written_bytes > 0)
            .then(|| disk.writes.bytes as f64 / report.written_bytes as f64),
        diverged: report.diverged_ops(),
        failed: report.failed_ops(),
        rank: None,
        lateness: Lateness::of(&report.clients),
        latency: Latency::of(&report.latency_ns()),
        verbs: verbs.collect(),
        cache_hit_share: cache.hits as f64 / (cache.hits + cache.misses).max(1) as f64,
        cpu_s: (volume.core().cpu.busy_ns() - before.cpu_ns) as f64 / 1e9,
        log: LogFigures::of(volume).since(&before.log),
        disk_use: disk_figures(disk),
        spreads: Vec::new(),
        digest: format!("{:016x}", rt.digest().value()),
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
