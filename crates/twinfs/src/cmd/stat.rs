//! `twinfs stat`: of an image, or of a mount.

use std::path::Path;
use std::process::ExitCode;

use twin_fs::Settings;
use twin_host::ImageOptions;

use super::image::layout_of;
use super::opening::{OpenOptions, Opened, open_volume};
use super::{Outcome, say};
use crate::cli::Stat;
use crate::size::Size;

pub(crate) fn run(args: &Stat) -> Outcome {
    if args.image.is_dir() {
        return of_mount(&args.image);
    }
    let kind = layout_of(&args.image)?;
    let options = OpenOptions {
        image: ImageOptions { read_only: true, ..ImageOptions::default() },
        settings: Settings { read_only: true, ..Settings::default() },
        ..OpenOptions::of(kind)
    };
    let Opened { volume, recovery, .. } = open_volume(&args.image, options)?;
    for property in kind.properties(&volume) {
        say(format!("{:<17}{}", property.name, property.value))?;
    }
    let state = match recovery {
        Some(words) => format!("not unmounted: {words}"),
        None => "unmounted properly, or nothing to recover".into(),
    };
    say(format!("state            {state}"))?;
    Ok(ExitCode::SUCCESS)
}

/// What is known of a mount without asking its daemon for more than its process number.
fn of_mount(dir: &Path) -> Outcome {
    let usage = twin_host::fuse::daemon_usage(dir).map_err(|e| e.to_string())?;
    let space = rustix::fs::statvfs(dir).map_err(|e| format!("{}: {e}", dir.display()))?;
    let size = space.f_blocks * space.f_frsize;
    let used = size.saturating_sub(space.f_bfree * space.f_frsize);
    let percent = used as f64 * 100.0 / size.max(1) as f64;
    say(format!("mounted by       process {}: {}", usage.pid, usage.command.join(" ")))?;
    say(format!("used             {} of {} ({percent:.1}%)", Size(used), Size(size)))?;
    say(format!("inodes           {} used", space.f_files.saturating_sub(space.f_ffree)))?;
    let (now, most) = (Size(usage.resident_bytes), Size(usage.most_bytes));
    say(format!("memory           {now} now, {most} at most (`mount --memory` bounds it)"))?;
    Ok(ExitCode::SUCCESS)
}
