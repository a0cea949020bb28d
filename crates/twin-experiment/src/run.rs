//! Running what is missing.
//!
//! Contract: a row is in the store as soon as its run has ended. A run that fails has a row too, with the reason
//! in place of figures, because it would fail again. Rows hold nothing of the machine that ran them, so a row is
//! the same wherever and in whichever order it was made.

use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::{Map, Value, json};
use twin_lab::{Progress, Run, side_by_side, simulate};
use twin_report::value;
use twin_verdict::MEASURES;

use crate::plan::{Job, Plan, Shard};
use crate::store::{KEY, Store, StoreError};

/// What a call of [`execute`] did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ended {
    /// Jobs that ran.
    pub ran: usize,
    /// Jobs whose rows were there.
    pub there: usize,
}

/// Runs the jobs of a part whose rows are not in the store, on up to `threads` threads. `progress` is called when
/// a job has ended.
///
/// # Errors
/// If the store cannot be read or written; the jobs under way end first.
pub fn execute(
    plan: &Plan,
    shard: Shard,
    store: &Store,
    threads: usize,
    progress: Progress<'_>,
) -> Result<Ended, StoreError> {
    let jobs: Vec<&Job> = plan.part(shard).collect();
    let stop = AtomicBool::new(false);
    let run = |at: usize| {
        // What fails for one job, as a full disk, fails for all.
        if stop.load(Ordering::Relaxed) {
            return Ok(false);
        }
        let ran = run_if_missing(plan, jobs[at], store);
        stop.fetch_or(ran.is_err(), Ordering::Relaxed);
        ran
    };
    let all = side_by_side(jobs.len(), threads, &run, progress);
    let all = all.into_iter().collect::<Result<Vec<bool>, _>>()?;
    let ran = all.into_iter().filter(|ran| *ran).count();
    Ok(Ended { ran, there: jobs.len() - ran })
}

/// Returns whether the job ran.
fn run_if_missing(plan: &Plan, job: &Job, store: &Store) -> Result<bool, StoreError> {
    if store.brief(&job.key)?.is_some() {
        return Ok(false);
    }
    store.put(&job.key, &row(plan, job))?;
    Ok(true)
}

/// Runs a job.
fn row(plan: &Plan, job: &Job) -> Value {
    let ready = &plan.prepared[job.workload];
    let run = Run { seed: job.seed, ..Run::of(plan.configs[job.config].clone()) };
    let mut row = named(plan, job);
    match simulate(run, &ready.workload.with_seed(job.seed), ready.pace) {
        Ok(figures) => {
            let values = MEASURES.iter().map(|entry| {
                let value = entry.value_of(&figures).filter(|_| figures.failed == 0);
                (entry.name.to_string(), json!(value))
            });
            row.insert(MEASURED.into(), Value::Object(values.collect()));
            let Value::Object(figures) = value(&figures) else { return row.into() };
            // A rank is among the runs of one call, and the configuration is named already.
            let figures =
                figures.into_iter().filter(|(name, _)| name != "rank" && name != "config");
            row.extend(figures);
        }
        Err(error) => {
            row.insert(ERROR.into(), error.to_string().into());
        }
    }
    row.into()
}

/// The member with a value for each measure; nothing for a run in which operations failed.
pub(crate) const MEASURED: &str = "measured";
/// The member that says why a run has no figures.
pub(crate) const ERROR: &str = "error";

/// The members that name a job.
pub(crate) fn named(plan: &Plan, job: &Job) -> Map<String, Value> {
    let (workload, config) =
        (&plan.experiment.workloads[job.workload], &plan.experiment.configs[job.config]);
    let varied = |all: &[(String, String)]| {
        let members = all.iter().map(|(key, value)| (key.clone(), value.clone().into()));
        Value::Object(members.collect())
    };
    let members = [
        ("workload", workload.text.clone().into()),
        ("config", config.text.clone().into()),
        ("seed", job.seed.into()),
        ("set", varied(&config.varied)),
        ("of_workload", varied(&workload.varied)),
        (KEY, job.key.as_str().into()),
        ("program", plan.build.as_str().into()),
    ];
    members.into_iter().map(|(name, value)| (name.to_string(), value)).collect()
}
