//! The arguments of `twinfs arena`.

use std::path::PathBuf;

use clap::Args;

use super::Output;

/// Judge a policy, for people and programs that search policies.
///
/// TASK is replacement, flush or victim, or a file made from one (`--show`). POLICY is a policy of the
/// program, or the path of a module (docs/policies-outside.md). A cheap study comes first, then the whole
/// file system in simulation, each if the one before was worth it, and with --mount a mount. The score is
/// relative to the best of the program's own policies on the same inputs, which has 1. A policy that
/// cheats is refused. docs/arena.md explains tasks, scores and what cannot be caught.
///
/// A search sees the public inputs; --held-out judges on others too, which only the end of a search
/// should. With --format json the answer has metrics, combined_score and artifacts.
///
/// Exits with 1 if the policy was refused.
#[derive(Args)]
#[command(after_help = "Examples:\n  \
    twinfs arena replacement sieve\n  \
    twinfs arena replacement ./libmine.so --reference known.json --format json\n  \
    twinfs arena replacement ./libmine.so --held-out --mount\n  \
    twinfs arena replacement --show > mine.toml           a task of one's own")]
pub(crate) struct Arena {
    /// The task: replacement, flush, victim, or a file.
    #[arg(required_unless_present = "list")]
    pub(crate) task: Option<String>,
    /// The policy: a name, or the path of a module.
    #[arg(required_unless_present_any = ["list", "show"])]
    pub(crate) policy: Option<String>,
    /// Judge also on what a search must not see.
    #[arg(long)]
    pub(crate) held_out: bool,
    /// Mount and measure the policy and the best of the program's, if the stages before were worth it. Needs
    /// root and /dev/fuse.
    #[arg(long)]
    pub(crate) mount: bool,
    /// With --mount: below which directory the file of the loop device is made. Default: /var/tmp.
    #[arg(long, value_name = "DIR", requires = "mount")]
    pub(crate) at: Option<PathBuf>,
    /// Keep what the program's own policies measured in this file, and take it from there the next time.
    #[arg(long, value_name = "FILE")]
    pub(crate) reference: Option<PathBuf>,
    /// Where the recordings are that a task names.
    #[arg(long, value_name = "DIR", default_value = "../shared/traces")]
    pub(crate) traces: PathBuf,
    /// How many runs of the program's own policies go on at the same time. Default: one for each core.
    #[arg(long)]
    pub(crate) threads: Option<usize>,
    #[command(flatten)]
    pub(crate) output: Output,
    /// Print the file of a task.
    #[arg(long, conflicts_with_all = ["policy", "held_out", "mount"])]
    pub(crate) show: bool,
    /// List the tasks.
    #[arg(long, exclusive = true)]
    pub(crate) list: bool,
}
