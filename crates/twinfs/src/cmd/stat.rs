//! `twinfs stat`: of an image, or of a mount.

use std::path::Path;
use std::process::ExitCode;

use twin_fs::{Layout as _, Settings};
use twin_host::ImageOptions;

use super::image::layout_of;
use super::mount::{OpenOptions, Opened, open_volume};
use super::{Outcome, say};
use crate::cli::{Layout, Stat};
use crate::size::Size;

pub(crate) fn run(args: &Stat) -> Outcome {
    if args.image.is_dir() {
        return of_mount(&args.image);
    }
    if layout_of(&args.image)? == Layout::Ffs {
        return super::ffs::stat(args);
    }
    let options = OpenOptions {
        image: ImageOptions { read_only: true, ..ImageOptions::default() },
        settings: Settings { read_only: true, ..Settings::default() },
        ..OpenOptions::default()
    };
    let Opened { volume, recovered, .. } = open_volume(&args.image, options)?;
    let lfs = &volume.layout;
    let sb = lfs.superblock();
    let hex: String = sb.uuid.iter().map(|b| format!("{b:02x}")).collect();
    let (used, limit) = lfs.space();
    let stat = lfs.stat(&volume.core);
    let (clean, total) = lfs.with_segments(|s| (s.clean_count(), s.count()));
    let percent = used as f64 * 100.0 / limit as f64;
    say(format!("uuid             {hex}"))?;
    say(format!("layout           LFS, {:?} profile", sb.profile))?;
    say(format!("size             {}", Size(sb.size)))?;
    say(format!(
        "block, fragment  {}, {}",
        Size(sb.shape.block_size.into()),
        Size(sb.shape.frag_size.into())
    ))?;
    say(format!("segments         {total} of {}, {clean} clean", Size(sb.segment_size.into())))?;
    say(format!("used             {} of {} ({percent:.1}%)", Size(used), Size(limit)))?;
    say(format!("inodes           {} used", stat.inodes - stat.free_inodes))?;
    let state = if recovered.groups > 0 {
        format!("not unmounted: {} log writes to recover", recovered.groups)
    } else {
        "unmounted properly, or nothing to recover".into()
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
