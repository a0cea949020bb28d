//! The arguments of `twinfs grow`.

use std::path::PathBuf;

use clap::Args;

use super::Output;
use crate::size::Size;

/// Make a volume larger, also while it is mounted.
///
/// The volume then has all of its image file or block device. With --size an image file is made longer
/// first; a block device is made larger beforehand, with the tool that made it. Programs go on working
/// on a mounted volume. After a power failure at any moment it has the old or the new size and all that
/// was synced.
///
/// Only logs grow. A volume of another layout is copied to a larger one, and a volume never becomes
/// smaller.
#[derive(Args)]
pub(crate) struct Grow {
    #[command(flatten)]
    pub(crate) output: Output,
    /// The size that an image file is to have, such as 8G. Default: the present one.
    #[arg(long)]
    pub(crate) size: Option<Size>,
    /// The image file, the block device, or the directory where the volume is mounted.
    #[arg(value_name = "IMAGE|DIR")]
    pub(crate) volume: PathBuf,
}
