//! `twinfs stat`: of an image, or of a mount.

use std::process::ExitCode;

use serde_json::json;
use twin_cli::progress::Shown;
use twin_cli::{Outcome, Printer, say, usage};
use twin_fs::{Op, Reply, Request, Settings};
use twin_host::{ImageOptions, Interrupts};
use twin_mount::answers::Question;
use twin_mount::client::MountClient;
use twin_mount::image::layout_of;
use twin_mount::opening::{OpenOptions, Opened, open_with_note};
use twin_report::Report;
use twin_show::{mount, prometheus};

use crate::cli::Stat;

pub(crate) fn run(args: &Stat, interrupts: &Interrupts) -> Outcome {
    if args.times.is_some() && args.watch.is_none() && !args.observe.is_on() {
        return Err(usage("--count is for --watch and --observe"));
    }
    let goes_on = args.watch.is_some() || args.observe.is_on();
    if goes_on && args.times.is_none() && args.output.has_page() {
        return Err(usage("a page is written at the end: it needs --count"));
    }
    if goes_on && args.output.parquet.is_some() {
        return Err(usage("--parquet is for results that end: take --format jsonl"));
    }
    let mut printer = Printer::of(&args.output, interrupts)?;
    if args.observe.is_on() {
        return super::stat_observe::run(args, printer);
    }
    if let Some(seconds) = args.watch {
        return super::stat_watch::run(args, seconds, printer);
    }
    if args.image.is_dir() {
        return of_mount(args, printer);
    }
    if args.prometheus {
        return Err(usage("--prometheus is for mounts: name the directory"));
    }
    let kind = layout_of(&args.image)?;
    let options = OpenOptions {
        image: ImageOptions { read_only: true, ..ImageOptions::default() },
        settings: Settings { read_only: true, ..Settings::default() },
        ..OpenOptions::of(kind)
    };
    let Opened { host, volume, recovery, .. } = open_with_note(&args.image, options, &Shown)?;
    let properties = kind.properties(&volume);
    let asked = volume.execute(Request::root(1, Op::StatFs));
    let stat = match host.rt().block_on(asked).map_err(|e| e.to_string())? {
        Ok(Reply::Stat(stat)) => stat,
        Ok(_) => return Err("the volume does not answer statfs".into()),
        Err(error) => return Err(format!("{}: {error}", args.image.display()).into()),
    };
    let block = u64::from(stat.block_size);
    let uuid = properties.iter().find(|property| property.name == "uuid");
    let row = json!({
        "image": args.image.display().to_string(),
        "layout": kind.name(),
        "uuid": uuid.map(|property| &property.value),
        "device_bytes": volume.core().device.info().size,
        "capacity_bytes": stat.blocks * block,
        "used_bytes": stat.blocks.saturating_sub(stat.free) * block,
        "free_bytes": stat.free * block,
        "used_inodes": stat.inodes.saturating_sub(stat.free_inodes),
        "free_inodes": stat.free_inodes,
        "was_unmounted": recovery.is_none(),
    });
    let mut text = String::new();
    for property in &properties {
        text += &format!("{:<17}{}\n", property.name, property.value);
    }
    text += &match recovery {
        Some(words) => format!("state            not unmounted: {words}"),
        None => "state            unmounted properly, or nothing to recover".into(),
    };
    let title = format!("The volume in {}", args.image.display());
    printer.print(&Report::plain(title, text, [row]))?;
    Ok(ExitCode::SUCCESS)
}

/// What is known of a mount: from outside, and from itself if it answers.
fn of_mount(args: &Stat, mut printer: Printer) -> Outcome {
    let dir = &args.image;
    let usage = twin_host::fuse::daemon_usage(dir).map_err(|e| e.to_string())?;
    let space = rustix::fs::statvfs(dir).map_err(|e| format!("{}: {e}", dir.display()))?;
    let size = space.f_blocks * space.f_frsize;
    let used = size.saturating_sub(space.f_bfree * space.f_frsize);
    let inodes = space.f_files.saturating_sub(space.f_ffree);
    // One that was mounted by an earlier version has no channel, and one of another user is silent.
    let figures = MountClient::at(dir)
        .ok()
        .flatten()
        .and_then(|mount| mount.ask(Question::Figures).ok())
        .map(|(figures, _)| figures);
    let row = json!({
        "dir": dir.display().to_string(),
        "pid": usage.pid,
        "command": usage.command.join(" "),
        "capacity_bytes": size,
        "used_bytes": used,
        "free_bytes": size.saturating_sub(used),
        "used_inodes": inodes,
        "resident_bytes": usage.resident_bytes,
        "most_resident_bytes": usage.most_bytes,
        "figures": figures,
    });
    if args.prometheus {
        say(prometheus::text(&row).trim_end())?;
        return Ok(ExitCode::SUCCESS);
    }
    let title = format!("The mount at {}", dir.display());
    printer.print(&Report::plain(title, mount::in_words(&row), [row]))?;
    Ok(ExitCode::SUCCESS)
}
