//! `twinfs clean`: cleans the log of a volume that is not mounted.

use std::process::ExitCode;

use twin_fs::Settings;
use twin_lfs::LfsSettings;

use super::image::must_be_log;
use super::mount::{OpenOptions, Opened, open_volume};
use super::{Outcome, say};
use crate::cli::Clean;
use crate::size::Size;

pub(crate) fn run(args: &Clean) -> Outcome {
    must_be_log(&args.image, "it has no log that could be cleaned")?;
    if !(0.0..=1.0).contains(&args.garbage) {
        return Err(format!("--garbage is a share between 0 and 1, not {}", args.garbage));
    }
    for part in args.cleaner.split(',') {
        let key = part.split('=').next().unwrap_or_default().trim();
        if matches!(key, "when" | "clean-step") {
            return Err(format!("--cleaner: {key} is for mounts: here the cleaner works at once"));
        }
    }
    let mut lfs = LfsSettings { background_cleaning: false, ..LfsSettings::default() };
    lfs.set_cleaner_list(&args.cleaner).map_err(|why| format!("--cleaner: {why}"))?;
    let settings = Settings { cache_bytes: args.cache.0, ..Settings::default() };
    let options = OpenOptions { settings, lfs, ..OpenOptions::default() };
    let Opened { host, volume, recovered, .. } = open_volume(&args.image, options)?;
    if recovered.groups > 0 {
        say(format!("recovered {} log writes first", recovered.groups))?;
    }
    let work = async {
        let budget = args.segments.unwrap_or(u64::MAX);
        let cleaned = volume.layout.clean(&volume.core, budget, args.garbage).await;
        // What was done is kept, whatever ended it.
        let closed = volume.close().await;
        closed.and(cleaned)
    };
    let cleaned = host.rt().block_on(work).map_err(|e| e.to_string())?;
    let cleaned = cleaned.map_err(|e| format!("{}: {e}", args.image.display()))?;
    say(format!(
        "{} segments cleaned, {} moved; {} segments were clean, {} are",
        cleaned.segments,
        Size(cleaned.moved_bytes),
        cleaned.clean_before,
        cleaned.clean_after
    ))?;
    Ok(ExitCode::SUCCESS)
}
