//! The arguments of `twinfs crashlab` and `twinfs ack`.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::Args;
use clap::builder::PossibleValuesParser;
use twin_crashlab::model::MODELS;
use twin_lab::layouts::LAYOUTS;

use super::{Output, choices, layouts};
use crate::size::Size;

/// Find out whether a program survives power failures.
///
/// Runs COMMAND on a volume that keeps every write, name and sync, builds the states that a power failure
/// could have left of its files, and runs CHECK in each of them. Both run with the directory of the volume
/// as working directory, which is also in CRASHLAB_DIR. COMMAND says what it has promised with
/// `twinfs ack LABEL`, or by adding a line to the file that CRASHLAB_ACK names; CHECK finds the labels that
/// were acknowledged before the failure in the file that CRASHLAB_ACKED names, and fails if something of
/// them is missing or broken. If nothing is acknowledged, the labels are `fsync N PATH` after each sync, and
/// `exit 0` at the end (docs/crashlab.md).
///
/// Exit status: 0 if all states that were tried pass; 1 if one does not; 3 if COMMAND failed, CHECK fails
/// although no power failed, or the lab does not find the loss that it plants itself in each run.
#[derive(Args)]
pub(crate) struct Crashlab {
    /// The layout of the volume on which COMMAND runs.
    #[arg(long, value_parser = layouts(), default_value = LAYOUTS[0].name())]
    pub(crate) layout: String,
    /// The file system whose power failures are meant.
    #[arg(long, value_name = "MODEL", value_parser = models(), default_value = MODELS[0].name)]
    pub(crate) like: String,
    /// With 2, the power fails again while CHECK recovers.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=2))]
    pub(crate) depth: u32,
    /// The seed of the states that are chosen at random.
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
    /// The most states of different content that are tried.
    #[arg(long, value_name = "N", default_value_t = 2000)]
    pub(crate) states: u64,
    /// How long states are tried, in seconds.
    #[arg(long, value_name = "SECONDS", default_value_t = 120.0)]
    pub(crate) time: f64,
    /// How long a check may take, in seconds; one that takes longer has failed.
    #[arg(long, value_name = "SECONDS", default_value_t = 20.0)]
    pub(crate) check_time: f64,
    /// The number of checks at a time. Default: one on each processor.
    #[arg(long, value_name = "N")]
    pub(crate) jobs: Option<usize>,
    /// A command of the shell that runs before COMMAND; what it does is certain.
    #[arg(long, value_name = "SETUP")]
    pub(crate) setup: Option<String>,
    /// The size of the volume, which lies in memory.
    #[arg(long, default_value = "1G")]
    pub(crate) size: Size,
    /// Keep what COMMAND did in this file, which must not exist, for --from.
    #[arg(long, value_name = "FILE", conflicts_with = "from")]
    pub(crate) keep: Option<PathBuf>,
    /// Take what an earlier COMMAND did from this file of --keep, and run none.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["command", "setup"])]
    pub(crate) from: Option<PathBuf>,
    /// Let the power fail at this moment alone: after N operations (`12`), before the Nth sync (`fsync 12`), or at
    /// the `end`.
    #[arg(long, value_name = "MOMENT", conflicts_with = "state")]
    pub(crate) at: Option<String>,
    /// Check only this state, as a report names it.
    #[arg(long, value_name = "STATE")]
    pub(crate) state: Option<String>,
    #[command(flatten)]
    pub(crate) output: Output,
    /// Run no command: serve the volume and its states to a test suite over a socket, whose path is printed,
    /// until standard input ends (docs/crashlab.md).
    #[arg(long, conflicts_with_all = ["command", "check", "setup", "from", "keep", "at", "state", "json", "format"])]
    pub(crate) session: bool,
    /// A command of the shell that succeeds in a state in which nothing is lost.
    #[arg(long, value_name = "CHECK", required_unless_present = "session")]
    pub(crate) check: Option<String>,
    /// The program with its arguments.
    #[arg(last = true, required_unless_present_any = ["from", "session"], value_name = "COMMAND")]
    pub(crate) command: Vec<OsString>,
}

/// The models, with a line each for the help.
fn models() -> PossibleValuesParser {
    choices(MODELS.iter().map(|model| (model.name, model.about)))
}

/// Say what a program has promised, within `twinfs crashlab`.
///
/// From now on LABEL is acknowledged: a check finds it in the file that CRASHLAB_ACKED names. This adds a
/// line to the file that CRASHLAB_ACK names, which a program can also do by itself.
#[derive(Args)]
pub(crate) struct Ack {
    /// What is promised, in a line of one's own words.
    pub(crate) label: String,
    /// Plant a loss first; used by the lab to test itself.
    #[arg(long, hide = true)]
    pub(crate) probe: bool,
}
