//! `twinfs umount`.

use std::process::ExitCode;

use super::Outcome;
use crate::cli::Umount;

pub(crate) fn run(args: &Umount) -> Outcome {
    twin_host::fuse::unmount(&args.dir).map_err(|e| e.to_string())?;
    Ok(ExitCode::SUCCESS)
}
