//! The arguments of `twinfs send` and `twinfs receive`.

use std::path::PathBuf;

use clap::Args;

/// Write a snapshot as a stream: all of it, or what changed.
///
/// `twinfs receive` applies the stream to a directory of any file system, on this machine or another. With --since it
/// has only what an older snapshot has not, and the directory must have that one. The volume may be in use: the
/// snapshot stays as it is (docs/snapshots.md).
#[derive(Args)]
pub(crate) struct Send {
    /// The image file or block device, or the directory where it is mounted.
    pub(crate) volume: PathBuf,
    /// The snapshot.
    pub(crate) snapshot: String,
    /// An older snapshot of the volume: send what is not there.
    #[arg(long, value_name = "OLDER")]
    pub(crate) since: Option<String>,
    /// Write to this file, which must not exist, instead of to standard output.
    #[arg(long, short = 'o', value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
}

/// Apply a stream of `twinfs send` to a directory.
///
/// The stream comes from standard input. A whole stream needs an empty directory, or makes a new one; an increment needs one that has the snapshot it
/// was made against. The directory has the new snapshot when the command returns, durably. If it was cut off, the
/// same stream can be applied again. What others changed in the directory meanwhile is not looked at.
#[derive(Args)]
pub(crate) struct Receive {
    /// The directory, on any file system.
    pub(crate) dir: PathBuf,
}
