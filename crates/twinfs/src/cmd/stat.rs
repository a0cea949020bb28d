//! `twinfs stat`: of an image, or of a mount.

use std::process::ExitCode;

use serde_json::json;
use twin_cli::progress::Progress;
use twin_cli::{Outcome, Printer, say, usage};
use twin_fs::{Op, Reply, Request, Settings};
use twin_host::{ImageOptions, Interrupts};
use twin_mount::answers::Question;
use twin_mount::client::MountClient;
use twin_mount::image::layout_of;
use twin_mount::opening::{OpenOptions, Opened, open_volume};
use twin_report::Report;

use crate::cli::Stat;
use crate::size::Size;

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
    let opening = Progress::waiting("the volume is opened");
    let Opened { host, volume, recovery, .. } =
        open_volume(&args.image, options).map_err(|refused| refused.why)?;
    opening.finish();
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

/// The last scrub of a mount, as a line; nothing if there was none.
fn scrub_in_words(scrub: &serde_json::Value) -> String {
    let Some(phase) = scrub["phase"].as_str() else { return String::new() };
    let (flaws, read) = (&scrub["flaws"], Size(scrub["read_bytes"].as_u64().unwrap_or_default()));
    format!("\nscrub            {phase}: {read} read, {flaws} flaws")
}

/// What is in the journal before an image; nothing if there is none.
fn journal_in_words(journal: &serde_json::Value) -> String {
    let size = |name: &str| journal[name].as_u64().map(Size);
    let (Some(waiting), Some(size)) = (size("waiting_bytes"), size("size")) else {
        return String::new();
    };
    format!("\njournal          {waiting} of {size} that the image does not have yet")
}

/// What the store of a volume in a bucket was asked since the mount; nothing if there is none.
fn bucket_in_words(bucket: &serde_json::Value) -> String {
    let Some(puts) = bucket["puts"].as_u64() else { return String::new() };
    let size = |name: &str| Size(bucket[name].as_u64().unwrap_or_default());
    let again = match bucket["unanswered"].as_u64() {
        None | Some(0) => String::new(),
        Some(some) => format!("; {some} without an answer"),
    };
    let journal = &bucket["waiting"];
    let waiting = match journal["packs"].as_u64() {
        None => String::new(),
        Some(0) => "\njournal          empty: the bucket has all that was synced".into(),
        Some(packs) => {
            let bytes = Size(journal["bytes"].as_u64().unwrap_or_default());
            let silent = journal["silent"].as_str().map_or(String::new(), |why| format!(": {why}"));
            format!(
                "\njournal          {bytes} in {packs} packs that are on this machine alone{silent}"
            )
        }
    };
    format!(
        "\nbucket           {puts} PUT of {}, {} GET of {}, {} DELETE, {} LIST{again}; {} there{waiting}",
        size("in_bytes"),
        bucket["gets"],
        size("out_bytes"),
        bucket["deletes"],
        bucket["lists"],
        size("stored_bytes")
    )
}

/// What a mount that follows shows; nothing if it does not follow.
fn follow_in_words(follow: &serde_json::Value) -> String {
    let Some(head) = follow["head"].as_u64() else { return String::new() };
    let seconds = |name: &str| follow[name].as_u64().unwrap_or_default() as f64 / 1e9;
    let ended = if follow["is_closed"].as_bool() == Some(true) { ", closed" } else { "" };
    let failing = match follow["failing"].as_str() {
        Some(why) => format!("\nnot followed now  {why}"),
        None => String::new(),
    };
    format!(
        "\nfollows          head {head} of writer {}{ended}, with its packs before {}: as of {:.1} s ago, shown for {:.1} s; \
         {} states until now\nwriter           {}{failing}",
        follow["writer"],
        follow["packs"],
        seconds("as_of_ns"),
        seconds("since_ns"),
        follow["states"],
        follow["writer_words"].as_str().unwrap_or_default()
    )
}

/// How long idle processors polled for the mount; nothing if they never do.
fn idle_polling_in_words(polled: &serde_json::Value) -> String {
    let (Some(bursts), Some(ns)) = (polled["bursts"].as_u64(), polled["ns"].as_u64()) else {
        return String::new();
    };
    let seconds = ns as f64 / 1e9;
    format!("\nidle polling     {seconds:.3} s; bursts of requests: {bursts} (`mount --idle-poll`)")
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
        say(super::stat_prometheus::text(&row).trim_end())?;
        return Ok(ExitCode::SUCCESS);
    }
    let percent = used as f64 * 100.0 / size.max(1) as f64;
    let (now, most) = (Size(usage.resident_bytes), Size(usage.most_bytes));
    let done = figures.as_ref().map_or(String::new(), |figures| {
        let size = |name: &str| Size(figures[name].as_u64().unwrap_or_default());
        let cost = figures["write_cost"].as_f64().map_or("-".into(), |c| format!("{c:.2}"));
        format!(
            "\noperations       {}\nwritten          {}, {} of it new data; write cost {cost}\n\
             dirty            {}",
            figures["operations"],
            size("written_bytes"),
            size("new_data_bytes"),
            size("dirty_bytes")
        ) + &super::stat_cleaner::in_words(&figures["cleaner"])
            + &idle_polling_in_words(&figures["idle_polling"])
            + &scrub_in_words(&figures["scrub"])
            + &journal_in_words(&figures["journal_file"])
            + &bucket_in_words(&figures["bucket"])
            + &follow_in_words(&figures["follow"])
    });
    let text = format!(
        "mounted by       process {}: {}\nused             {} of {} ({percent:.1}%)\n\
         inodes           {inodes} used\n\
         memory           {now} now, {most} at most (`mount --memory` bounds it){done}",
        usage.pid,
        usage.command.join(" "),
        Size(used),
        Size(size)
    );
    let title = format!("The mount at {}", dir.display());
    printer.print(&Report::plain(title, text, [row]))?;
    Ok(ExitCode::SUCCESS)
}
