//! The arguments of `twinfs run`, `merge` and `diff`.

use std::path::PathBuf;

use clap::Args;
use twin_experiment::Shard;

use super::Output;
use crate::choices::measures;

/// Run an experiment that a file describes.
///
/// The file (TOML, docs/experiments.md) names workloads and configurations, and grids or lists of
/// settings to vary in them. Every run is kept in a store under a key of its settings, its workload,
/// its seed and the build of this program, so a second call runs what is new, and one that was
/// interrupted or killed goes on where it was. Prints a verdict over all runs, and a table.
#[derive(Args)]
pub(crate) struct RunExperiment {
    /// The file of the experiment. Traces are named from its directory.
    pub(crate) file: PathBuf,
    /// The store. Default: a directory beside the file, with the file's name and `.runs`.
    #[arg(long, value_name = "DIR")]
    pub(crate) store: Option<PathBuf>,
    /// Run this part of the runs alone, such as 2/8, for job arrays and other machines; `twinfs merge`
    /// puts the stores together.
    #[arg(long, value_name = "PART")]
    pub(crate) shard: Option<Shard>,
    /// List the runs with their keys, and whether they are done; run nothing.
    #[arg(long)]
    pub(crate) list: bool,
    /// The machine to simulate, as `twinfs calibrate` has measured it.
    #[arg(long, value_name = "FILE")]
    pub(crate) machine: Option<PathBuf>,
    /// Runs at once. Default: one for each processor.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=4096))]
    pub(crate) jobs: Option<u64>,
    #[command(flatten)]
    pub(crate) output: Output,
}

/// Put the results of several stores together.
///
/// Copies the results that `twinfs run --shard` has written on other machines into one store. What is
/// there already stays.
#[derive(Args)]
pub(crate) struct Merge {
    /// The stores to read.
    #[arg(required = true)]
    pub(crate) from: Vec<PathBuf>,
    /// The store to write, which is made if there is none.
    #[arg(long = "output", short = 'o', value_name = "DIR")]
    pub(crate) into: PathBuf,
}

/// Compare the results of two stores.
///
/// Pairs the runs of `twinfs run` by workload, configuration and seed, and compares their medians.
/// Exits with 1 if a run of the second is worse by more than the threshold, or if it lacks one of the
/// first.
#[derive(Args)]
pub(crate) struct Diff {
    /// The store to compare with.
    pub(crate) first: PathBuf,
    /// The store that is compared.
    pub(crate) second: PathBuf,
    /// What is compared.
    #[arg(long, value_parser = measures(), default_value = twin_verdict::MEASURES.default_entry().name)]
    pub(crate) by: String,
    /// How many percent more are worse.
    #[arg(long, value_name = "PERCENT", default_value_t = 2.0)]
    pub(crate) threshold: f64,
    #[command(flatten)]
    pub(crate) output: Output,
}
