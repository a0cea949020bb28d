//! One run: a workload on a configuration under virtual time.

use std::cell::RefCell;
use std::ops::ControlFlow;
use std::rc::Rc;

use twin_bucket::Counts;
use twin_cache::CacheStats;
use twin_fs::{FileSystem, FsError, Volume, write_cost};
use twin_observe::{Observed, Observing, Panel, Parts, Pool};
use twin_remote::Machines;
use twin_rt::{ClockOnly, Nanos, Rt, Time};
use twin_settings::outside;
use twin_sim::bus::{Bus, Span};
use twin_sim::daemon::{Daemon, DaemonCosts};
use twin_sim::fuse::{Fuse, FuseCosts};
use twin_sim::kernel::Kernel;
use twin_sim::model::Wear;
use twin_sim::{Served, SimDisk};
use twin_trace::replay::{Options, Pace, Replayer, Report};
use twin_trace::{Ending, Source, Verb};

use crate::asked::{Asked, Requests};
use crate::below::Below;
use crate::config::{Config, Front};
use crate::error::{SimulateError, check_policies, model_error};
use crate::figures::{
    BusFigures, DeadlineFigures, DiskFigures, Figures, Latency, Lateness, LogFigures,
    NetworkFigures, SpaceFigures, VerbFigures, WearFigures,
};
use crate::history::{History, Sampler};
use crate::machine::{OnVolume, on_volume};
use crate::planted::PlantedFault;
use crate::run::Run;
use crate::steps::Counted;
use crate::watch::{WatchedRun, Watcher, World};
use crate::workload::Workload;

/// Simulates a workload on a configuration.
///
/// # Errors
/// If the workload is damaged, the configuration impossible, or the volume full before the workload
/// starts.
pub fn simulate(
    run: impl Into<Run>,
    workload: &Workload,
    pace: Pace,
) -> Result<Figures, SimulateError> {
    ended(play(run.into(), workload, pace, None)?)
}

/// As [`simulate`], with a watcher from the first operation to the last byte written. Returns
/// `None` if the watcher has ended the run.
///
/// # Errors
/// As [`simulate`].
pub fn simulate_watched(
    run: impl Into<Run>,
    workload: &Workload,
    pace: Pace,
    watcher: Rc<RefCell<dyn Watcher>>,
) -> Result<Option<Figures>, SimulateError> {
    play(run.into(), workload, pace, Some(watcher))
}

/// As [`simulate`], and returns the history of the run; the figures have what the run's
/// observers have seen.
///
/// # Errors
/// As [`simulate`].
pub fn simulate_with_history(
    run: impl Into<Run>,
    workload: &Workload,
    pace: Pace,
) -> Result<(Figures, History), SimulateError> {
    let run = run.into();
    let watching = Rc::new(RefCell::new(Watching::of(run.observe.as_ref())));
    let figures = ended(play(run, workload, pace, Some(watching.clone()))?)?;
    let mut watching = watching.borrow_mut();
    let history = watching.sampler.history();
    Ok((Figures { observed: std::mem::take(&mut watching.observed), ..figures }, history))
}

/// The figures of a run that nobody ends.
fn ended(figures: Option<Figures>) -> Result<Figures, SimulateError> {
    figures.ok_or_else(|| model_error("the run was ended"))
}

/// Simulates a run, all of which is behind this function: the compiler makes code that is generic, or awaits
/// the futures of others, anew in every crate that has it, and this is the whole of the file system. Three
/// functions of two lines are generic instead.
fn play(
    run: Run,
    workload: &Workload,
    pace: Pace,
    watcher: Option<Rc<RefCell<dyn Watcher>>>,
) -> Result<Option<Figures>, SimulateError> {
    let (run, front) = &behind_front_end(run, workload, pace)?;
    let _ = outside::take_fault_of_run();
    let watched_run = watcher.map(WatchedRun::new);
    let (seed, order) = (run.clock_seed(), run.config.order.maker);
    let rt = match &watched_run {
        None => Rt::with_order(ClockOnly::default(), seed, order),
        Some(watched_run) => watched_run.runtime(seed, order),
    };
    let replay =
        Replay { given: run, workload, pace, watched_run: watched_run.as_ref(), front: *front };
    let result = rt.block_on(on_volume(&rt, run, replay));
    let is_stopped = watched_run.as_ref().is_some_and(WatchedRun::is_stopped);
    if let Some(watched_run) = watched_run {
        let _ = watched_run.leave();
    }
    rt.crash();
    check_policies()?;
    match result {
        Err(_) if is_stopped => Ok(None),
        result => result.map_err(SimulateError::Stalled)?.map(Some),
    }
}

/// The watchers of a run: one for its history, and the observers that were asked for.
struct Watching {
    sampler: Sampler,
    panel: Option<Panel>,
    observed: Vec<Observed>,
}

impl Watching {
    fn of(observing: Option<&Observing>) -> Watching {
        let (sampler, observed) = (Sampler::default(), Vec::new());
        Watching { sampler, panel: observing.map(Panel::new), observed }
    }
}

impl Watcher for Watching {
    fn begin(&mut self, world: &dyn World) {
        self.sampler.begin(world);
        if let (Some(panel), Some((volume, below))) = (&mut self.panel, world.inside()) {
            let named = |name: &str| name.to_string();
            let memory = Pool { name: named("memory"), memory: None, volumes: vec![0] };
            let parts = Parts {
                disks: vec![named("disk")],
                buses: below.disk.bus().map(|_| named("bus")).into_iter().collect(),
                volumes: vec![(named("volume"), volume.clone())],
                pools: vec![memory],
            };
            panel.begin(world.now(), parts);
        }
    }

    fn served(&mut self, served: &Served) {
        self.panel.iter_mut().for_each(|panel| panel.served(0, served));
    }

    fn bus_given(&mut self, wait_ns: Nanos, span: Span) {
        self.panel.iter_mut().for_each(|panel| panel.bus_given(0, wait_ns, span));
    }

    fn ended(&mut self, verb: Verb, latency_ns: Nanos) {
        self.panel.iter_mut().for_each(|panel| panel.ended(verb, latency_ns));
    }

    fn look(&mut self, world: &dyn World, next: Time) -> ControlFlow<()> {
        self.panel.iter_mut().for_each(|panel| panel.look(next));
        self.sampler.look(world, next)
    }

    fn end(&mut self, world: &dyn World) {
        if let Some(panel) = &mut self.panel {
            self.observed = panel.end(world.now());
        }
        self.sampler.end(world);
    }
}

struct Replay<'a> {
    given: &'a Run,
    workload: &'a Workload,
    pace: Pace,
    watched_run: Option<&'a WatchedRun>,
    front: FrontCosts,
}

/// What is before the core of a run.
#[derive(Clone, Copy, Default)]
struct FrontCosts {
    /// A daemon serves the volume.
    daemon: bool,
    /// The cost of the kernel before the core, where the workload's own pauses do not contain it.
    fuse: Option<FuseCosts>,
}

/// A run with the settings that its front end demands of the volume, and the cost of that
/// front end.
fn behind_front_end(
    mut run: Run,
    workload: &Workload,
    pace: Pace,
) -> Result<(Run, FrontCosts), SimulateError> {
    let config = &mut run.config;
    if config.remote.is_some() {
        config.settings = config.settings.clone().served();
        return Ok((run, FrontCosts::default()));
    }
    let of_mount = workload.is_of_mount().map_err(SimulateError::Workload)?;
    let behind_kernel = match config.front {
        Front::AsRecorded => of_mount,
        Front::Nothing => false,
        Front::Fuse | Front::Kernel => true,
    };
    if !behind_kernel {
        return Ok((run, FrontCosts::default()));
    }
    config.settings = config.settings.clone().mounted();
    if config.mount_flush {
        config.settings = config.settings.clone().flushed_by_policy();
    }
    let costs = config.machine.as_ref().map_or(FuseCosts::default(), |machine| machine.fuse());
    // Recorded pauses contain what the kernel took between an answer and the next request.
    let in_pauses = of_mount && pace != Pace::Asap;
    Ok((run, FrontCosts { daemon: true, fuse: (!in_pauses).then_some(costs) }))
}

/// What keeps dirty pages between a workload and its volume.
enum Between<'a> {
    Nothing,
    /// The kernel of a mount.
    Kernel(&'a Kernel<Fuse<Asked<Daemon<Volume>>>>, Requests),
    /// Clients of a server.
    Machines(&'a Machines),
}

impl OnVolume for Replay<'_> {
    type Output = Figures;

    async fn run(self, rt: &Rt, below: &Below, volume: &Volume) -> Result<Figures, SimulateError> {
        // Only figures come of the run.
        below.disk.keep_no_dead_blocks();
        let fuse = self.front.fuse.filter(|_| !self.given.planted().is(PlantedFault::FuseLeftOut));
        if let Some(remote) = &self.given.config.remote {
            let machines = Machines::start(rt, remote, volume).await?;
            return self.play(rt, below, volume, &machines, Between::Machines(&machines)).await;
        }
        let cpu = volume.core().cpu.clone();
        let daemon = Daemon::new(rt, volume.clone(), cpu.clone(), self.daemon(volume));
        match fuse {
            None => self.play(rt, below, volume, &daemon, Between::Nothing).await,
            Some(costs) => {
                let requests = Requests::default();
                let counted = Asked::new(daemon, Rc::clone(&requests));
                let fs = Fuse::new(rt, counted, cpu, costs);
                match self.given.config.front {
                    Front::Kernel => {
                        let kernel = Kernel::new(rt, fs);
                        let between = Between::Kernel(&kernel, requests);
                        self.play(rt, below, volume, &kernel, between).await
                    }
                    _ => self.play(rt, below, volume, &fs, Between::Nothing).await,
                }
            }
        }
    }
}

impl Replay<'_> {
    /// What the daemon takes besides that serves the volume: nothing, unless it is one of a measured machine.
    fn daemon(&self, volume: &Volume) -> DaemonCosts {
        let config = &self.given.config;
        let machine = config.machine.as_ref().filter(|_| self.front.daemon);
        let block = u64::from(volume.stat().block_size);
        machine.map(|machine| machine.daemon(config.layout.name(), block)).unwrap_or_default()
    }

    /// Plays the workload on `fs`, behind which `volume` is; `between` is the part of `fs` that keeps
    /// dirty pages.
    async fn play(
        self,
        rt: &Rt,
        below: &Below,
        volume: &Volume,
        fs: &impl FileSystem,
        between: Between<'_>,
    ) -> Result<Figures, SimulateError> {
        let Replay { given, workload, pace, watched_run, front: _ } = self;
        let (config, planted, disk) = (&given.config, given.planted(), &below.disk);
        let opened = rt.now();
        let unused = Before::of(below, volume);
        let listener = watched_run.map(WatchedRun::listener);
        let options = Options { pace, listener, is_alone: true, ..Options::default() };
        let mut replayer = Replayer::new(rt, fs, options);
        let population = workload.population().map_err(SimulateError::Workload)?;
        replayer.populate(&population).await.map_err(SimulateError::Replay)?;
        if let Between::Kernel(kernel, requests) = &between {
            kernel.write_out().await?;
            kernel.drop_caches();
            requests.borrow_mut().clear();
        }
        drain(volume).await?;
        if !population.is_empty() {
            volume.execute(sync_request()).await?;
            volume.core().drop_caches();
        }
        if !planted.is(PlantedFault::MkfsCounted) {
            disk.reset_stats();
            disk.bus().inspect(Bus::reset_stats);
        }
        let before = Before::of(below, volume).with_fault(planted, unused);
        if let Some(watched_run) = watched_run {
            watched_run.begin(below, volume);
        }
        let machines = match &between {
            Between::Machines(machines) => Some(*machines),
            _ => None,
        };
        machines.into_iter().for_each(Machines::begin);
        let source = workload.start().map_err(SimulateError::Workload)?;
        let mut source = Counted::new(source, given.steps.clone());
        below.begin(rt, &config.store);
        let began = if planted.is(PlantedFault::PopulatingTimed) { opened } else { rt.now() };
        let report = replayer.run(&mut source).await.map_err(SimulateError::Replay)?;
        let _ = replayer.release_all().await;
        let all_done = rt.now();
        match &between {
            Between::Nothing => {}
            Between::Kernel(kernel, _) => kernel.write_out().await?,
            Between::Machines(machines) => machines.sync().await?,
        }
        // Writing the remaining dirty data is part of the work, until the disk's own cache has
        // given it to the medium.
        volume.execute(sync_request()).await?;
        let ended = if planted.is(PlantedFault::SyncLeftOut) { all_done } else { rt.now() };
        let finish_ns = ended - began;
        if let Some(watched_run) = watched_run {
            watched_run.end();
        }
        let figures = figures(rt, config, volume, &report, below, &before);
        let network_use = machines.map(NetworkFigures::of);
        let finish_s = finish_ns as f64 / 1e9;
        let requests = match between {
            Between::Kernel(_, requests) => requests.take().into_iter().collect(),
            _ => Vec::new(),
        };
        let figures = Figures { cut: cut(&source), finish_s, network_use, requests, ..figures };
        Ok(with_fault(figures, planted, &report))
    }
}

/// All that was written is on the device.
async fn drain(volume: &Volume) -> Result<(), FsError> {
    let flush = twin_disk::Io::flush(twin_disk::Origin::User);
    volume.core().device.submit(flush).await.map(drop).map_err(FsError::Io)
}

/// What had been done before the workload began: making the volume and populating it.
struct Before {
    log: LogFigures,
    space: SpaceFigures,
    cpu_ns: Nanos,
    cache: CacheStats,
    wear: Option<Wear>,
    mechanics_ns: Option<Nanos>,
    counts: Option<Counts>,
}

impl Before {
    /// What has been done by now.
    fn of(below: &Below, volume: &Volume) -> Before {
        let (core, disk) = (volume.core(), &below.disk);
        Before {
            log: LogFigures::of(volume),
            space: SpaceFigures::of(volume),
            cpu_ns: core.cpu.busy_ns(),
            cache: core.cache.stats(),
            wear: disk.wear(),
            mechanics_ns: disk.mechanics_ns(),
            counts: below.counts(),
        }
    }

    /// With the accounts of an unused volume where a planted fault says so.
    fn with_fault(self, planted: PlantedFault, unused: Before) -> Before {
        match planted {
            _ if planted.is(PlantedFault::PopulatingProcessor) => {
                Before { cpu_ns: unused.cpu_ns, ..self }
            }
            _ if planted.is(PlantedFault::PopulatingWritten) => Before { log: unused.log, ..self },
            _ if planted.is(PlantedFault::PopulatingHits) => Before { cache: unused.cache, ..self },
            _ if planted.is(PlantedFault::PopulatingWear) => Before { wear: unused.wear, ..self },
            _ => self,
        }
    }
}

/// The figures with a planted fault of their own, if there is one.
fn with_fault(mut figures: Figures, planted: PlantedFault, report: &Report) -> Figures {
    let is = |fault| planted.is(fault);
    if is(PlantedFault::FailuresHidden) {
        figures.failed = 0;
    }
    if is(PlantedFault::SkippedCounted) {
        figures.ops += report.skipped;
        figures.ops_per_s = figures.ops as f64 / figures.span_s;
    }
    if is(PlantedFault::WrongKind) {
        let (write, fsync) = (Verb::Write.name(), Verb::Fsync.name());
        for of_kind in &mut figures.verbs {
            of_kind.verb = match of_kind.verb {
                name if name == write => fsync,
                name if name == fsync => write,
                name => name,
            };
        }
    }
    if is(PlantedFault::P99IsP90) {
        let of_kinds = figures.verbs.iter_mut().map(|of_kind| &mut of_kind.latency);
        of_kinds.chain([&mut figures.latency]).for_each(|all| all.p99_us = all.p90_us);
    }
    let log = figures.log;
    if is(PlantedFault::WriteCostOfAllData) {
        figures.log.write_cost = write_cost(log.log_bytes, log.cleaner_read_bytes, log.data_bytes);
    }
    if is(PlantedFault::CleanerReadsAreUsers) {
        figures.read_bytes += log.cleaner_read_bytes;
    }
    if is(PlantedFault::AmplificationOfData) {
        let times = log.data_bytes as f64 / figures.written_bytes as f64;
        figures.write_amplification = figures.write_amplification.map(|_| times);
    }
    figures
}

/// The missing part of a workload that has ended, if it was cut off.
pub fn cut(source: &dyn Source) -> Option<String> {
    match source.ending() {
        Some(cut @ Ending::Cut { .. }) => Some(cut.to_string()),
        Some(Ending::Closed) | None => None,
    }
}

pub(crate) fn sync_request() -> twin_fs::Request {
    twin_fs::Request::root(u64::MAX, twin_fs::Op::Sync)
}

fn figures(
    rt: &Rt,
    config: &Config,
    volume: &Volume,
    report: &Report,
    below: &Below,
    before: &Before,
) -> Figures {
    let span_s = report.span_ns as f64 / 1e9;
    let disk = &below.disk;
    let disk_use = disk_figures(disk, (before.wear, before.mechanics_ns));
    let (bill, journal) = (below.bill(before.counts), below.journal());
    let disk_use = DiskFigures { bill, journal, ..disk_use };
    let cache = volume.core().cache.stats();
    let (hits, misses) = (cache.hits - before.cache.hits, cache.misses - before.cache.misses);
    let verbs = Verb::ALL.iter().filter(|&&verb| report.verb(verb).done > 0).map(|&verb| {
        let stats = report.verb(verb);
        let (name, all) = (verb.name(), &stats.latency_ns);
        VerbFigures {
            elapsed_s: Some(stats.elapsed_ns / 1e9),
            ..VerbFigures::of(name, stats.errors, all, &stats.recorded_ns)
        }
    });
    let verbs: Vec<VerbFigures> = verbs.collect();
    Figures {
        config: config.name.clone(),
        disk: config.disk.name.into(),
        ops: report.ops,
        span_s,
        finish_s: span_s,
        waiting_s: VerbFigures::waiting_s(&verbs),
        pauses_s: report.idle_ns as f64 / 1e9,
        ops_per_s: if span_s > 0.0 { report.ops as f64 / span_s } else { 0.0 },
        read_bytes: report.read_bytes,
        written_bytes: report.written_bytes,
        write_amplification: (report.written_bytes > 0)
            .then(|| disk_use.written_bytes as f64 / report.written_bytes as f64),
        diverged: report.diverged_ops(),
        failed: report.failed_ops(),
        rank: None,
        trusted: None,
        lateness: Lateness::of(&report.clients),
        deadlines: DeadlineFigures::of(&report.deadlines, volume.core().stream_counts()),
        latency: Latency::of(&report.latency_ns()),
        verbs,
        cache_hit_share: hits as f64 / (hits + misses).max(1) as f64,
        cpu_s: (volume.core().cpu.busy_ns() - before.cpu_ns) as f64 / 1e9,
        log: LogFigures::of(volume).since(&before.log),
        space: SpaceFigures {
            used_before_bytes: before.space.used_bytes,
            ..SpaceFigures::of(volume)
        },
        disk_use,
        network_use: None,
        requests: Vec::new(),
        bus_use: disk.bus().map(|bus| BusFigures::of(&bus.stats())),
        spreads: Vec::new(),
        observed: Vec::new(),
        digest: format!("{:016x}", rt.digest().value()),
        cut: None,
    }
}

/// What the disk has done since its statistics were reset.
pub fn disk_figures(
    disk: &SimDisk,
    (wear_before, mechanics_before): (Option<Wear>, Option<Nanos>),
) -> DiskFigures {
    let stats = disk.stats();
    let seconds = |ns: Nanos| ns as f64 / 1e9;
    let wear = disk.wear().zip(wear_before);
    let mechanics = disk.mechanics_ns().zip(mechanics_before);
    let medium_ns = mechanics.map_or(stats.parts.medium_ns(), |(now, before)| now - before);
    DiskFigures {
        reads: stats.reads.requests,
        read_bytes: stats.reads.bytes,
        writes: stats.writes.requests,
        written_bytes: stats.writes.bytes,
        flushes: stats.flushes.requests,
        reads_s: seconds(stats.reads.service_ns),
        writes_s: seconds(stats.writes.service_ns),
        flushes_s: seconds(stats.flushes.service_ns),
        busy_s: seconds(stats.busy_ns),
        service_s: seconds(stats.parts.service_ns()),
        medium_s: seconds(medium_ns),
        waiting_s: seconds(stats.parts.queue_ns),
        time_s: stats.parts.named().iter().map(|&(name, ns)| (name, seconds(ns))).collect(),
        wear: wear.map(|(now, before)| WearFigures::since(&now, &before, stats.writes.bytes)),
        bill: None,
        journal: None,
    }
}
