//! `twinfs compare --on`: a workload on several file systems of this machine, measured, and simulations held
//! against that.
//!
//! Contract: every file system is new for each run, caches are empty at its beginning, mounts of ours have equal
//! caches, and runs of all file systems take turns, each round beginning with the next one, so that what changes
//! on the machine meanwhile meets all. Ours are simulated as they were mounted: of the same size, with the same
//! cache and a kernel before them, on the device that they were on, which is measured first; the rest of the machine
//! is that of the machine file, or is measured too. What the same calls take on a file system in memory, in the same
//! turns, is the time of the kernel and of the replay itself, which simulations know nothing of: it is added to each
//! simulated call. The verdict is on what was measured. Figures have the names
//! that simulated ones have.

mod report;
mod values;
mod verdict;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use twin_host::{Bar, Count};
use twin_lab::{
    Config, DiskFigures, Figures, Latency, MachineFile, Run, VerbFigures, Workload, simulate,
};
use twin_trace::replay::{Pace, Report as Replayed};
use twin_trace::{Record, Source, Verb};

use crate::calibrate;
use crate::loop_device::LoopDevice;
use crate::replay::{Done, Replay, Target, most_common};
use crate::runner::Runner;
use crate::systems::{CACHE_OPTION, System};
use values::middle;

pub use values::By;

/// Bytes of the loop device on which file systems are made.
const DEVICE: u64 = 2 << 30;
/// A file system in memory: what calls take there is the kernel's own time and that of the replay.
const MEMORY: &str = "/dev/shm";
/// The cache of mounts of ours, unless a configuration has another.
const CACHE: u64 = 64 << 20;

/// What is to be measured.
pub struct Plan<'a> {
    /// Where.
    pub targets: &'a [Target],
    /// The workload.
    pub workload: &'a Workload,
    /// How many operations it has, as far as that is known.
    pub operations: u64,
    /// When they are issued.
    pub pace: Pace,
    /// What the places are judged by.
    pub by: By,
    /// Below which directory the loop device's file is made.
    pub base: &'a Path,
    /// How often each target has its turn.
    pub runs: u32,
    /// The cache of each layout's mounts in bytes, where it is not the usual one.
    pub caches: BTreeMap<&'static str, u64>,
    /// The machine; `None`: it is measured first.
    pub machine: Option<MachineFile>,
}

/// What was measured at a place.
#[derive(Clone, Debug)]
pub struct Measured {
    /// The place as it was given.
    pub name: String,
    /// The figures of each run, in the order of the runs.
    pub runs: Vec<Figures>,
    /// How most of the operations failed that did, as a part of a sentence.
    pub most_common: String,
    /// The same simulated, once for each run, if the file system is one of ours.
    pub simulated: Vec<Figures>,
    /// Why it was not simulated, if it is one of ours.
    pub not_simulated: Option<String>,
}

/// A place that could not take part, and why.
type Absent = (String, String);

/// What an experiment found.
pub struct Experiment {
    measured: Vec<Measured>,
    absent: Vec<Absent>,
    machine: Option<Arc<MachineFile>>,
    runs: u32,
    by: By,
    /// The most clients that had operations in flight at a time.
    clients: usize,
    /// Seconds of the kernel and of the replay itself, which simulated times contain.
    own_s: Option<f64>,
}

/// Replays on all targets in turn, again and again, and simulates what is ours.
///
/// # Errors
/// If no target can be used at all, the machine cannot be measured, or the user interrupts.
pub fn experiment(runner: &Runner<'_>, plan: Plan<'_>) -> Result<Experiment, String> {
    let systems = plan.targets.iter().filter_map(|target| match target {
        Target::System(system) => Some(system),
        Target::Directory(_) => None,
    });
    let systems: Vec<&System> = systems.collect();
    if !systems.is_empty() && !rustix::process::geteuid().is_root() {
        return Err("--on with file systems makes loop devices and mounts: run it as root".into());
    }
    systems.iter().try_for_each(|system| system.must_be_installed()).map_err(|w| w.to_string())?;
    let device = match systems.is_empty() {
        true => None,
        false => Some(runner.loop_device(plan.base, DEVICE)?),
    };
    let has_ours = systems.iter().any(|system| system.ours().is_some());
    let machine = match &device {
        Some(device) if has_ours => {
            Some(Arc::new(calibrate::of_loop_device(runner, device.path(), plan.machine.clone())?))
        }
        _ => None,
    };
    let mut turns = Turns::of(runner, &plan)?;
    turns.take(device.as_ref())?;
    let Turns { done, memory, absent, clients, .. } = turns;
    let memory: Vec<Figures> = memory.iter().map(|done| figures(MEMORY, done)).collect();
    let own = middle(&memory);
    let mut measured = Vec::new();
    for (target, runs) in plan.targets.iter().zip(done) {
        if absent.iter().any(|(name, _)| *name == target.name()) {
            continue;
        }
        measured.push(of_runs(target, &plan, runs, (machine.as_ref(), own)));
        runner.check()?;
    }
    Ok(Experiment {
        measured,
        absent,
        machine,
        runs: plan.runs,
        by: plan.by,
        clients,
        own_s: own.map(|run| run.waiting_s),
    })
}

impl Experiment {
    /// The values of a place in seconds, by run, if it did all of the workload; or why there are none.
    ///
    /// # Errors
    /// If it could not take part, or operations failed.
    pub fn values_of(&self, name: &str) -> Result<Vec<f64>, String> {
        if let Some((_, why)) = self.absent.iter().find(|(absent, _)| absent == name) {
            return Err(why.clone());
        }
        let of = self.measured.iter().find(|one| one.name == name);
        let of = of.ok_or_else(|| "it was not measured".to_owned())?;
        match of.runs.iter().map(|run| run.failed).max() {
            Some(0) => Ok(of.runs.iter().map(|run| self.by.of(run)).collect()),
            Some(failed) => Err(format!("{failed} operations failed{}", of.most_common)),
            None => Err("it did not run".into()),
        }
    }
}

/// The runs of all targets.
struct Turns<'a> {
    runner: &'a Runner<'a>,
    plan: &'a Plan<'a>,
    population: Arc<twin_trace::replay::Population>,
    clients: usize,
    /// By target.
    done: Vec<Vec<Done>>,
    /// In memory.
    memory: Vec<Done>,
    absent: Vec<Absent>,
}

impl<'a> Turns<'a> {
    fn of(runner: &'a Runner<'a>, plan: &'a Plan<'a>) -> Result<Turns<'a>, String> {
        let population = plan.workload.population().map_err(|e| e.to_string())?;
        let clients = clients_at_a_time(&mut plan.workload.start().map_err(|e| e.to_string())?)?;
        let done = plan.targets.iter().map(|_| Vec::new()).collect();
        Ok(Turns {
            runner,
            plan,
            population,
            clients,
            done,
            memory: Vec::new(),
            absent: Vec::new(),
        })
    }

    /// Takes all turns. A target that cannot take part has its reason, and no more turns.
    fn take(&mut self, device: Option<&LoopDevice>) -> Result<(), String> {
        let Plan { targets, operations, runs, .. } = self.plan;
        let count = Count::Steps(targets.len() as u64 * operations * u64::from(*runs));
        let bar = self.runner.progress.begin("operations replayed", count);
        let memory = device.is_some().then(|| Target::Directory(MEMORY.into()));
        let memory = memory.filter(|_| Path::new(MEMORY).is_dir());
        for round in 0..*runs as usize {
            if let Some(target) = &memory {
                let replay = self.replay(target, Bar::hidden());
                self.memory.extend(replay.at(target, None));
                self.runner.check()?;
            }
            for nth in 0..targets.len() {
                // Each round begins with another, so that none always follows the same one.
                let at = (nth + round) % targets.len();
                let target = &targets[at];
                if self.absent.iter().any(|(name, _)| *name == target.name()) {
                    continue;
                }
                let replay = self.replay(target, bar.clone());
                match replay.at(target, device) {
                    Ok(done) => self.done[at].push(done),
                    Err(why) => {
                        self.runner.check()?;
                        self.absent.push((target.name(), why));
                    }
                }
                self.runner.check()?;
            }
        }
        Ok(())
    }
}

impl<'a> Turns<'a> {
    fn replay(&'a self, target: &Target, bar: Bar) -> Replay<'a> {
        Replay {
            runner: self.runner,
            workload: self.plan.workload,
            population: &self.population,
            pace: self.plan.pace,
            several: self.clients > 1,
            options: match self.plan.cache_of(target) {
                Some(bytes) => vec![CACHE_OPTION.into(), bytes.to_string()],
                None => Vec::new(),
            },
            bar,
        }
    }
}

impl Plan<'_> {
    /// Bytes of the cache of mounts of ours; `None` if the file system itself says which.
    fn cache_of(&self, target: &Target) -> Option<u64> {
        let layout = match target {
            Target::System(system) if system.has_cache() => return None,
            Target::System(system) => system.ours().map(|ours| ours.layout.name()),
            Target::Directory(_) => None,
        };
        Some(layout.and_then(|layout| self.caches.get(layout).copied()).unwrap_or(CACHE))
    }
}

/// The figures of the runs of a target, and of their simulations.
fn of_runs(
    target: &Target,
    plan: &Plan<'_>,
    runs: Vec<Done>,
    (machine, own): (Option<&Arc<MachineFile>>, Option<&Figures>),
) -> Measured {
    let name = target.name();
    let most_common = runs.first().map(|done| most_common(&done.report)).unwrap_or_default();
    let runs: Vec<Figures> = runs.iter().map(|done| figures(&name, done)).collect();
    let (mut simulated, mut not_simulated) = (Vec::new(), None);
    if let (Target::System(system), Some(machine)) = (target, machine)
        && system.ours().is_some()
    {
        match simulations(system, plan, machine, plan.cache_of(target)) {
            Ok(all) => simulated = all.into_iter().map(|run| with_own(run, own)).collect(),
            Err(why) => not_simulated = Some(why),
        }
    }
    Measured { name, runs, most_common, simulated, not_simulated }
}

/// Simulates a file system of ours as it was mounted, once for each run.
fn simulations(
    system: &System,
    plan: &Plan<'_>,
    machine: &Arc<MachineFile>,
    cache: Option<u64>,
) -> Result<Vec<Figures>, String> {
    let name = system.name();
    let joint = if name.contains(':') { "," } else { ":" };
    let cache = cache.map_or(String::new(), |bytes| format!("cache={bytes},"));
    // What `mount --flush` chooses is all that makes data durable.
    let flush = if name.contains("flush") { ",mount-flush=yes" } else { "" };
    let text = format!("{name}{joint}{cache}size={DEVICE},front-end=kernel{flush}");
    let config = Config::parse(&text).map_err(|e| e.to_string())?;
    let config = config.on_machine(Arc::clone(machine));
    let mut all = Vec::new();
    for seed in 0..u64::from(plan.runs) {
        let run = Run { seed, ..Run::from(&config) };
        let figures = simulate(run, plan.workload, plan.pace).map_err(|e| e.to_string())?;
        all.push(Figures { config: name.clone(), ..figures });
    }
    Ok(all)
}

/// A simulated run with the time of the kernel and of the replay itself, by kind of call.
fn with_own(mut run: Figures, own: Option<&Figures>) -> Figures {
    let Some(own) = own else { return run };
    let mut added_s = 0.0;
    for verb in &mut run.verbs {
        let Some(own) = own.verbs.iter().find(|own| own.verb == verb.verb) else { continue };
        let (of, by) = (&mut verb.latency, &own.latency);
        // Medians of the calls: a stall of one is no part of the others.
        let each = by.mean_us.min(2.0 * by.p50_us);
        for time in [&mut of.mean_us, &mut of.p50_us, &mut of.p90_us, &mut of.p99_us] {
            *time += each;
        }
        if verb.verb != Verb::Forget.name() {
            added_s += each * of.count as f64 / 1e6;
        }
    }
    run.finish_s += added_s;
    run.waiting_s += added_s;
    run.span_s += added_s;
    run
}

/// The figures of a run, in the names of simulated ones. What is not known of a real run stays as it is by
/// default; [`report`] leaves it out.
fn figures(name: &str, done: &Done) -> Figures {
    let Done { finish_s, report, disk } = done;
    let verbs = Verb::ALL.iter().filter(|&&verb| report.verb(verb).done > 0).map(|&verb| {
        let stats = report.verb(verb);
        VerbFigures::of(verb.name(), stats.errors, &stats.latency_ns, &stats.recorded_ns)
    });
    let verbs: Vec<VerbFigures> = verbs.collect();
    let span_s = report.span_ns as f64 / 1e9;
    let disk_use = disk.clone().unwrap_or_default();
    let amplification =
        |disk: &DiskFigures| disk.written_bytes as f64 / report.written_bytes as f64;
    Figures {
        config: name.into(),
        disk: if disk.is_some() { "a loop device".into() } else { "as it is".into() },
        ops: report.ops,
        span_s,
        finish_s: *finish_s,
        ops_per_s: if span_s > 0.0 { report.ops as f64 / span_s } else { 0.0 },
        read_bytes: report.read_bytes,
        written_bytes: report.written_bytes,
        write_amplification: disk.as_ref().filter(|_| report.written_bytes > 0).map(amplification),
        diverged: report.diverged_ops(),
        failed: failed(report),
        latency: Latency::of(&report.latency_ns()),
        waiting_s: VerbFigures::waiting_s(&verbs),
        verbs,
        disk_use,
        ..Figures::default()
    }
}

fn failed(report: &Replayed) -> u64 {
    report.failed_ops()
}

/// The most clients that had operations in flight at a time when the workload was recorded; of one without times
/// the number of its clients, if they are independent of each other. Client 0 is the kernel.
fn clients_at_a_time(source: &mut dyn Source) -> Result<usize, String> {
    let traits = source.header().traits;
    let mut in_flight: BTreeMap<u64, u32> = BTreeMap::new();
    let (mut all, mut most) = (std::collections::BTreeSet::new(), 1);
    while let Some(record) = source.next_record().map_err(|e| e.to_string())? {
        match record {
            Record::Request { request, .. } if request.client != 0 => {
                all.insert(request.client);
                if Verb::of(&request.op) != Verb::Forget {
                    in_flight.insert(request.id, request.client);
                }
                let mut clients: Vec<u32> = in_flight.values().copied().collect();
                clients.sort_unstable();
                clients.dedup();
                most = most.max(clients.len());
            }
            Record::Reply { id, .. } => _ = in_flight.remove(&id),
            Record::Request { .. } | Record::Node(_) => {}
        }
    }
    Ok(if traits.timed || !traits.independent { most } else { all.len().max(1) })
}

#[cfg(test)]
mod tests {
    use super::values::tests::run;
    use super::*;

    #[test]
    fn the_time_of_the_kernel_and_the_replay_is_added_to_each_simulated_call() {
        let with = with_own(run(300.0, 5.0), Some(&run(12.0, 1.0)));
        assert_eq!(with.verbs[0].latency.mean_us, 312.0);
        assert!((with.finish_s - 5.012).abs() < 1e-9 && (with.waiting_s - 0.312).abs() < 1e-9);
        assert_eq!(with_own(run(300.0, 5.0), None), run(300.0, 5.0));
    }

    #[test]
    fn clients_are_counted_that_have_operations_in_flight_at_a_time() {
        let clients = |text: &str| {
            let workload = Workload::Generated(text.into(), 1);
            clients_at_a_time(&mut workload.start().unwrap()).unwrap()
        };
        assert_eq!(clients("zipf:writes=50,file-bytes=1048576"), 1);
    }
}
