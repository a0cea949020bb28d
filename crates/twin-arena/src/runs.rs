//! Runs: a policy on one input of a stage, and what it measured.
//!
//! Contract: a run is on one thread from beginning to end and equal to any other of the same policy and input. A run
//! with a fault of the policy has no values. Inputs are read once; those that are not there are reported, not guessed.

use std::sync::Arc;

use twin_cache::Rules;
use twin_clean::placement;
use twin_clean::volume::VolumeGeometry;
use twin_clean::volume::study::{Source, StudyRun};
use twin_clean::volume::trace::Trace;
use twin_clean::volume::workload;
use twin_host::{resident_bytes, thread_cpu_ns};
use twin_lab::{Config, Figures, Run, Workload, simulate_with_history};
use twin_observe::{AT_RISK, Observing};
use twin_settings::outside;
use twin_sim::model;
use twin_studies::caches::{self, Accesses};
use twin_trace::replay::Pace;

use crate::contender::Contender;
use crate::guard::{self, Seen, Watch};
use crate::score::Values;
use crate::task::{Input, Study, Task};

/// Bytes of a block in studies of caches.
const BLOCK: u64 = 4096;
/// The share of garbage at which a bare volume is cleaned, and its open segments: those of SepBIT's experiments.
const GARBAGE: f64 = 0.15;
const OPEN_SEGMENTS: u8 = 6;

/// Opens recordings; this crate knows no formats.
pub trait Traces: Send + Sync {
    /// Why a recording is left out; `None` if it is there.
    fn missing(&self, path: &str) -> Option<String>;
    /// Its accesses to blocks.
    ///
    /// # Errors
    /// If it is no trace.
    fn accesses(&self, path: &str) -> Result<caches::Input, String>;
    /// Its writes to blocks.
    ///
    /// # Errors
    /// If it is no block trace, or writes nothing.
    fn writes(&self, path: &str) -> Result<Trace, String>;
    /// Its operations.
    ///
    /// # Errors
    /// If it is no trace of operations.
    fn workload(&self, path: &str) -> Result<Workload, String>;
}

/// An input that was read.
pub(crate) enum Ready {
    /// Accesses to a cache of this many bytes before this disk.
    Cache(Arc<Accesses>, u64, &'static caches::DiskEntry),
    /// Writes to a bare volume.
    Volume(VolumeGeometry, Source, &'static placement::PlacementEntry, u64),
    /// Operations on a configuration.
    Run { config: String, pace: Pace, workload: Workload, seed: u64 },
}

/// An input with its name.
pub(crate) struct Case {
    pub(crate) name: String,
    pub(crate) ready: Ready,
}

/// What a run took beside what it measured.
#[derive(Clone, Debug)]
pub(crate) struct Ran {
    pub(crate) values: Values,
    /// A fingerprint of what was decided.
    pub(crate) digest: String,
    pub(crate) cpu_s: f64,
    pub(crate) more_memory_bytes: u64,
}

/// What is to be read, and what was left out with the reason.
pub(crate) type Read = (Vec<Case>, Vec<String>);

/// The cases of the cheap study.
pub(crate) fn study_cases(
    task: &Task,
    inputs: &[Input],
    traces: &dyn Traces,
) -> Result<Read, String> {
    let (mut cases, mut left_out) = (Vec::new(), Vec::new());
    for input in present(inputs, traces, &mut left_out) {
        let within = |why: String| format!("{}: {why}", input.name());
        match &task.study {
            Study::Cache { disk, sizes } => {
                let disk = model::REGISTRY.get(disk).map_err(|error| error.to_string())?;
                let accesses = Arc::new(accesses(input, traces).map_err(within)?);
                for share in sizes {
                    let blocks = (f64::from(accesses.blocks()) * share) as u64;
                    let size = blocks.max(8) * accesses.block_bytes();
                    let name = format!("{}, cache {:.0}%", input.name(), share * 100.0);
                    cases.push(Case {
                        name,
                        ready: Ready::Cache(Arc::clone(&accesses), size, disk),
                    });
                }
            }
            Study::Volume { placement, blocks, volumes } => {
                let ready =
                    volume(input, traces, (placement, *blocks, *volumes)).map_err(within)?;
                cases.push(Case { name: input.name(), ready });
            }
            Study::Runs { config, pace } => {
                cases.push(run_case(input, traces, config, *pace).map_err(within)?);
            }
        }
    }
    Ok((cases, left_out))
}

/// The cases of the full simulation.
pub(crate) fn run_cases(
    task: &Task,
    inputs: &[Input],
    traces: &dyn Traces,
) -> Result<Read, String> {
    let mut left_out = Vec::new();
    let cases = present(inputs, traces, &mut left_out).into_iter().map(|input| {
        let case = run_case(input, traces, &task.config, task.pace);
        case.map_err(|why| format!("{}: {why}", input.name()))
    });
    Ok((cases.collect::<Result<Vec<_>, _>>()?, left_out))
}

fn present<'a>(
    inputs: &'a [Input],
    traces: &dyn Traces,
    left_out: &mut Vec<String>,
) -> Vec<&'a Input> {
    let is_there = |input: &&Input| match input {
        Input::Generated(..) => true,
        Input::Recorded(path) => match traces.missing(path) {
            None => true,
            Some(why) => {
                left_out.push(format!("{path}: {why}"));
                false
            }
        },
    };
    inputs.iter().filter(is_there).collect()
}

fn accesses(input: &Input, traces: &dyn Traces) -> Result<Accesses, String> {
    let opened = match input {
        Input::Generated(text, seed) => {
            let source = twin_generate::start(text, *seed).map_err(|error| error.to_string())?;
            caches::Input::Operations(source)
        }
        Input::Recorded(path) => traces.accesses(path)?,
    };
    let loaded = caches::load(opened, BLOCK, false, &mut |_| {});
    match loaded.damage {
        Some(damage) => Err(damage.to_string()),
        None if loaded.accesses.is_empty() => Err("it reads and writes nothing".into()),
        None => Ok(loaded.accesses),
    }
}

fn volume(
    input: &Input,
    traces: &dyn Traces,
    (placement, blocks, volumes): (&str, u32, f64),
) -> Result<Ready, String> {
    let placement = placement::REGISTRY.get(placement).map_err(|error| error.to_string())?;
    let (blocks, source, seed) = match input {
        Input::Generated(text, seed) => {
            let workload = workload::parse(text).map_err(|error| error.to_string())?;
            let writes = (f64::from(blocks) * volumes) as u64;
            (blocks, Source::Generated(workload, writes), *seed)
        }
        Input::Recorded(path) => {
            let trace = traces.writes(path)?;
            (trace.blocks(), Source::Trace(Arc::new(trace)), 1)
        }
    };
    let segment_blocks = (blocks / 100).max(2);
    let geometry = VolumeGeometry {
        blocks,
        segment_blocks,
        garbage_share: GARBAGE,
        open_segments: OPEN_SEGMENTS,
    };
    let geometry = geometry.check_for(placement).map_err(|error| error.to_string())?;
    Ok(Ready::Volume(geometry, source, placement, seed))
}

fn run_case(input: &Input, traces: &dyn Traces, config: &str, pace: Pace) -> Result<Case, String> {
    let (workload, seed) = match input {
        Input::Generated(text, seed) => {
            twin_generate::start(text, *seed).map_err(|error| error.to_string())?;
            (Workload::Generated(text.clone(), *seed), *seed)
        }
        Input::Recorded(path) => (traces.workload(path)?, 1),
    };
    let ready = Ready::Run { config: config.into(), pace, workload, seed };
    Ok(Case { name: input.name(), ready })
}

/// The configuration with this policy.
pub(crate) fn with_policy(config: &str, contender: Contender) -> String {
    let key = match contender {
        Contender::Replacement(_) => "replacement",
        Contender::Flush(_) => "flush",
        Contender::Victim(_) => "victim",
    };
    let joint = if config.contains(':') { ',' } else { ':' };
    format!("{config}{joint}{key}={}", contender.name())
}

/// A policy with the guards that its runs have, which are made once.
#[derive(Clone)]
pub(crate) struct Guarded {
    pub(crate) contender: Contender,
    /// What studies run.
    inner: Contender,
    seen: Seen,
}

impl Guarded {
    pub(crate) fn new(contender: Contender, watch: Watch) -> Guarded {
        let seen = Seen::default();
        let inner = match contender {
            Contender::Replacement(entry) => {
                Contender::Replacement(guard::replacement(entry, watch, &seen))
            }
            Contender::Victim(entry) => Contender::Victim(guard::victim(entry, watch, &seen)),
            Contender::Flush(_) => contender,
        };
        Guarded { contender, inner, seen }
    }

    /// A policy of the program, of which only values are wanted.
    pub(crate) fn trusted(contender: Contender) -> Guarded {
        Guarded { contender, inner: contender, seen: Seen::default() }
    }

    /// Runs it on a case.
    ///
    /// # Errors
    /// If the policy is at fault, or operations failed.
    pub(crate) fn run(&self, case: &Case) -> Result<Ran, String> {
        let _ = outside::take_fault_of_run();
        let (memory, cpu) = (resident_bytes(), thread_cpu_ns());
        let (values, digest) = match &case.ready {
            Ready::Cache(accesses, size, disk) => (self.cache(accesses, *size, disk)?, None),
            Ready::Volume(geometry, source, placement, seed) => {
                (self.volume(*geometry, source, placement, *seed)?, None)
            }
            Ready::Run { config, pace, workload, seed } => {
                let figures = self.simulated(config, *pace, workload, *seed)?;
                (values_of(&figures), Some(figures.digest))
            }
        };
        let cpu_s = thread_cpu_ns().saturating_sub(cpu) as f64 / 1e9;
        let more_memory_bytes = resident_bytes().saturating_sub(memory);
        let notes = self.seen.take();
        if let Some(words) = outside::take_fault_of_run() {
            return Err(words);
        }
        let digest = digest.unwrap_or_else(|| format!("{:016x}", notes.digest));
        Ok(Ran { values, digest, cpu_s, more_memory_bytes })
    }

    fn cache(
        &self,
        accesses: &Arc<Accesses>,
        size: u64,
        disk: &'static caches::DiskEntry,
    ) -> Result<Values, String> {
        let Contender::Replacement(entry) = self.inner else { return Err(wrong()) };
        let study = caches::Study {
            accesses: Arc::clone(accesses),
            policies: vec![entry],
            sizes: vec![size],
            rules: Rules::Paper,
            disk: Some(disk),
        };
        let rows = study.run(1, &|_| {}, &|_, _| {})?;
        let row = rows.first().ok_or_else(wrong)?;
        let device_s = row.device.as_ref().map(|device| device.device_ms / 1e3);
        Ok(Values { device_s, misses: Some(row.misses), ..Values::default() })
    }

    fn volume(
        &self,
        geometry: VolumeGeometry,
        source: &Source,
        placement: &'static placement::PlacementEntry,
        seed: u64,
    ) -> Result<Values, String> {
        let Contender::Victim(victim) = self.inner else { return Err(wrong()) };
        let run = StudyRun { geometry, source: source.clone(), placement, victim, seed };
        let totals = run.run(&|_| {});
        Ok(Values { write_cost: Some(totals.write_amplification()), ..Values::default() })
    }

    fn simulated(
        &self,
        config: &str,
        pace: Pace,
        workload: &Workload,
        seed: u64,
    ) -> Result<Figures, String> {
        let run = run_of(self.contender, config, seed)?;
        let (figures, _) =
            simulate_with_history(run, workload, pace).map_err(|error| error.to_string())?;
        match figures.failed {
            0 => Ok(figures),
            failed => Err(format!("{failed} operations failed in the simulation")),
        }
    }
}

/// The run of a configuration with this policy.
pub(crate) fn run_of(contender: Contender, config: &str, seed: u64) -> Result<Run, String> {
    let text = with_policy(config, contender);
    let config = Config::parse(&text).map_err(|error| error.to_string())?;
    let observe = Observing::of([AT_RISK], None).map_err(|error| error.to_string())?;
    Ok(Run { seed, observe: Some(observe), ..Run::of(config) })
}

fn wrong() -> String {
    "this stage has no policies of this kind".into()
}

fn values_of(figures: &Figures) -> Values {
    let at_risk = figures.observed.iter().find(|one| one.observer == AT_RISK);
    Values {
        device_s: Some(figures.disk_use.busy_s),
        write_cost: figures.log.write_cost,
        at_risk_bytes: at_risk.and_then(|one| one.whole.mean),
        misses: None,
    }
}
