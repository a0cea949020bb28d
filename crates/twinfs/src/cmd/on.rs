//! `twinfs compare --on`: the workload measured on file systems of this machine, beside its simulations.

use std::collections::BTreeMap;
use std::path::Path;

use twin_cli::{Failure, usage};
use twin_host::Interrupts;
use twin_lab::{Config, Workload};
use twin_real::Wrong;
use twin_real::experiment::{By, Experiment, Plan, experiment};
use twin_real::replay::Target;
use twin_trace::replay::Pace;

use super::machine_file::machine_file;
use crate::cli::Compare;
use crate::measuring::runner;

/// Measures at the places of `--on`; `None` without any.
///
/// # Errors
/// If a place is none, none can take part, or the machine cannot be measured.
pub(super) fn measured(
    args: &Compare,
    configs: &[Config],
    (workload, operations, pace): (&Workload, u64, Pace),
    measure: &str,
    interrupts: &Interrupts,
) -> Result<Option<Experiment>, Failure> {
    let targets = targets(&args.on)?;
    if targets.is_empty() {
        return Ok(None);
    }
    let machine = args.machine.as_deref().map(machine_file).transpose()?;
    // Mounts have the caches of the first configuration of their layout that says which.
    let mut caches = BTreeMap::new();
    for config in configs.iter().filter(|config| config.name.contains("cache=")) {
        caches.entry(config.layout.name()).or_insert(config.settings.cache_bytes);
    }
    let by = By::named(measure).unwrap_or_else(|| {
        twin_host::note!(
            "twinfs: --by {measure} is a measure of simulations: real file systems are judged by the time \
             until everything was durable"
        );
        By::Finish
    });
    let (targets, runs) = (&targets[..], args.runs);
    let base = args.at.as_deref().unwrap_or(Path::new("/var/tmp"));
    let plan = Plan { targets, workload, operations, pace, by, base, runs, caches, machine };
    Ok(Some(experiment(&runner(interrupts)?, plan)?))
}

/// Where the workload is replayed.
///
/// # Errors
/// The first name that is neither a directory nor a file system that can be made, with the nearest one.
pub(super) fn targets(places: &[String]) -> Result<Vec<Target>, Failure> {
    let target = |place: &String| {
        Target::parse(place).map_err(|wrong| match wrong {
            Wrong::Name(_) => usage(wrong),
            wrong => wrong.to_string().into(),
        })
    };
    places.iter().map(target).collect()
}
