//! The arguments of `twinfs scrub`.

use std::path::PathBuf;

use clap::Args;

use super::Output;
use crate::size::Size;

/// Find what has rotted on the device of a mounted volume.
///
/// Reads everything that is in use from the device, past all caches, while programs go on working: they
/// come first. Each fault is shown with its path, its place in the file and its length. Nothing is
/// changed: what is found stays an error for whoever reads it. Of a log, and of FFS made with
/// --data-checksums, all data is compared with checksums; of other FFS only structures, and what is in
/// memory. For a volume that is not mounted, use `twinfs check --data`.
#[derive(Args)]
pub(crate) struct Scrub {
    #[command(flatten)]
    pub(crate) output: Output,
    /// Go on where the last scrub of this mount was interrupted.
    #[arg(long)]
    pub(crate) resume: bool,
    /// Read at most this much in a second. Default: no limit while no program works.
    #[arg(long, value_name = "SIZE")]
    pub(crate) rate: Option<Size>,
    /// The directory where the volume is mounted.
    pub(crate) dir: PathBuf,
}
