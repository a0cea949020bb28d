//! `twinfs clean`: cleans the log of a volume that is not mounted.

use std::process::ExitCode;

use twin_cli::progress::{Progress, Shown};
use twin_cli::{Outcome, Printer, usage};
use twin_fs::{Cleaning, Settings};
use twin_host::Interrupts;
use twin_mount::image::must_be_log;
use twin_mount::media;
use twin_mount::opening::{OpenOptions, Opened, open_with_note, set_for_open};
use twin_report::Report;
use twin_settings::grammar;

use crate::cli::Clean;
use crate::size::Size;

/// How often is looked how far it is.
const LOOK_NS: u64 = 500 * twin_rt::MILLIS;

pub(crate) fn run(args: &Clean, interrupts: &Interrupts) -> Outcome {
    let mut printer = Printer::of(&args.output, interrupts)?;
    let no_log = "it has no log that could be cleaned";
    let kind = must_be_log(&args.image, no_log)?;
    if !(0.0..=1.0).contains(&args.garbage) {
        return Err(usage(format!("--garbage is a share between 0 and 1, not {}", args.garbage)));
    }
    for setting in
        grammar::settings(&args.cleaner).map_err(|why| usage(format!("--cleaner: {why}")))?
    {
        if matches!(setting.key, "when" | "clean-step") {
            let key = setting.key;
            return Err(usage(format!(
                "--cleaner: {key} is for mounts: here the cleaner works at once"
            )));
        }
    }
    let settings = Settings { cache_bytes: args.cache.0, ..Settings::default() };
    let mut options = OpenOptions { settings, ..OpenOptions::of(kind) };
    let alone = "background-cleaning=no";
    for text in [alone, &args.cleaner] {
        set_for_open(&mut *options.of_layout, text)
            .map_err(|why| usage(format!("--cleaner: {why}")))?;
    }
    let Opened { host, volume, below, .. } = open_with_note(&args.image, options, &Shown)?;
    let segments = args.segments.unwrap_or(u64::MAX);
    let how = Cleaning { segments, garbage_share: args.garbage };
    let log = volume.layout().views().log.ok_or(no_log)?;
    let cleaning = log.clean(volume.core(), how);
    let work = async {
        let cleaned = cleaning.await;
        // Segments cleaned so far stay clean, whatever ended the run.
        let closed = volume.close().await;
        closed.and(cleaned)
    };
    let progress = Progress::of("segments cleaned", 0);
    let (bar, watched, rt) = (progress.clone(), volume.clone(), host.rt().clone());
    host.rt().spawn("progress", async move {
        loop {
            rt.sleep(LOOK_NS).await;
            bar.set_done(watched.written().cleaned_segments);
        }
    });
    let cleaned = host.rt().block_on(work).map_err(|e| e.to_string())?;
    progress.finish();
    media::end(&host, below.close)?;
    let cleaned = cleaned.map_err(|e| format!("{}: {e}", args.image.display()))?;
    let row = serde_json::json!({
        "image": args.image.display().to_string(),
        "cleaned_segments": cleaned.segments,
        "moved_bytes": cleaned.moved_bytes,
        "clean_segments_before": cleaned.clean_before,
        "clean_segments_after": cleaned.clean_after,
    });
    let text = format!(
        "{} segments cleaned, {} moved; {} segments were clean, {} are",
        cleaned.segments,
        Size(cleaned.moved_bytes),
        cleaned.clean_before,
        cleaned.clean_after
    );
    printer.print(&Report::plain("Cleaning", text, [row]))?;
    Ok(ExitCode::SUCCESS)
}
