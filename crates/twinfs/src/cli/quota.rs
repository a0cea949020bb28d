//! The arguments of `twinfs quota`.

use std::path::PathBuf;

use clap::Args;

use super::Output;
use crate::size::Size;

/// Limit what a directory of a mounted volume may take.
///
/// Without options, shows the quota of DIR; where the volume is mounted, all quotas. With --size or
/// --files, everything below DIR may take no more than that together, what is there already included. A
/// limit that is lower than the use stops growth only. `df` in the directory shows what the quota leaves.
///
/// Files do not move from one quota into another by a rename: `mv` copies them. Who exceeds a quota gets
/// the error EDQUOT, in a write that the kernel collects at the latest from close or fsync. Only root may
/// change quotas. Volumes of the layouts lfs and ffs have them, in the modern profile.
#[derive(Args)]
pub(crate) struct Quota {
    #[command(flatten)]
    pub(crate) output: Output,
    /// The most bytes that files and directories may take, such as 10G, as `du` counts them.
    #[arg(long)]
    pub(crate) size: Option<Size>,
    /// The most files and directories, with DIR itself; devices do not count.
    #[arg(long)]
    pub(crate) files: Option<u64>,
    /// End the quota.
    #[arg(long, conflicts_with_all = ["size", "files"])]
    pub(crate) remove: bool,
    /// A directory of a mounted volume.
    pub(crate) dir: PathBuf,
}
