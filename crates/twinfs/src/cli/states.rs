//! The arguments of `twinfs snapshot create` and its kind.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::Output;

/// What is done with the states of a volume.
#[derive(Subcommand)]
pub(crate) enum StatesCommand {
    Create(CreateState),
    Branch(BranchState),
    List(ListStates),
    Delete(DeleteStates),
    Rollback(RollBack),
    Switch(SwitchState),
    Diff(DiffStates),
}

/// Keep the present state as a snapshot.
///
/// Of a mount, what programs have written until now is in it. If garbage in the log would be held by the snapshot and
/// leave too little room, the log is cleaned first, which takes time; if that does not help, the snapshot is refused.
#[derive(Args)]
pub(crate) struct CreateState {
    #[command(flatten)]
    pub(crate) output: Output,
    /// The image file or block device, or the directory where it is mounted.
    pub(crate) volume: PathBuf,
    /// The snapshot's name.
    pub(crate) name: String,
}

/// Keep a state as a branch, which can become the head and go on.
#[derive(Args)]
pub(crate) struct BranchState {
    #[command(flatten)]
    pub(crate) output: Output,
    /// The image file or block device, or the directory where it is mounted.
    pub(crate) volume: PathBuf,
    /// The branch's name.
    pub(crate) name: String,
    /// The snapshot or branch that it begins with. Default: the present state.
    pub(crate) from: Option<String>,
}

/// List the head, snapshots and branches.
#[derive(Args)]
pub(crate) struct ListStates {
    #[command(flatten)]
    pub(crate) output: Output,
    /// The image file or block device, or the directory where it is mounted.
    pub(crate) volume: PathBuf,
}

/// Delete snapshots and branches; what only they needed is free afterwards.
#[derive(Args)]
pub(crate) struct DeleteStates {
    #[command(flatten)]
    pub(crate) output: Output,
    /// The image file or block device, or the directory where it is mounted.
    pub(crate) volume: PathBuf,
    /// Their names.
    #[arg(required = true)]
    pub(crate) names: Vec<String>,
}

/// Bring the head back to a snapshot or branch; what the head had since is gone.
///
/// The volume must not be mounted. The snapshot stays.
#[derive(Args)]
pub(crate) struct RollBack {
    #[command(flatten)]
    pub(crate) output: Output,
    /// The image file or block device.
    pub(crate) volume: PathBuf,
    /// The snapshot or branch.
    pub(crate) name: String,
}

/// Make a branch the head; the present head becomes a branch under its name, the first one `main`.
///
/// The volume must not be mounted.
#[derive(Args)]
pub(crate) struct SwitchState {
    #[command(flatten)]
    pub(crate) output: Output,
    /// The image file or block device.
    pub(crate) volume: PathBuf,
    /// The branch.
    pub(crate) name: String,
}

/// List the paths that differ between two states.
///
/// What both states share is not read. A directory has changed if its own attributes have.
#[derive(Args)]
pub(crate) struct DiffStates {
    #[command(flatten)]
    pub(crate) output: Output,
    /// The image file or block device, or the directory where it is mounted.
    pub(crate) volume: PathBuf,
    /// A snapshot, a branch, or the name of the head.
    pub(crate) from: String,
    /// The state to compare with it. Default: the head.
    pub(crate) to: Option<String>,
}
