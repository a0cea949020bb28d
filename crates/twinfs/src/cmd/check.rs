//! `twinfs check`.

use std::process::ExitCode;

use twin_cli::progress::Progress;
use twin_cli::{Outcome, Printer};
use twin_fs::CheckRequest;
use twin_host::{Host, HostOptions, ImageOptions, Interrupts};
use twin_mount::image::layout_of;
use twin_mount::journal::give_up_journal;
use twin_mount::media;
use twin_mount::opening::device_anywhere;
use twin_report::Report;
use twin_show::check::Found;

use crate::cli::Check;

pub(crate) fn run(args: &Check, interrupts: &Interrupts) -> Outcome {
    let mut printer = Printer::of(&args.output, interrupts)?;
    let host = Host::start(HostOptions::default()).map_err(|e| e.to_string())?;
    if args.lost_journal {
        give_up_journal(&host, &args.image)?;
    }
    let kind = layout_of(&args.image)?;
    let image = ImageOptions { read_only: !args.repair, ..ImageOptions::default() };
    let (device, close) = device_anywhere(&host, &args.image, kind, &image)?;
    let bar = match args.quiet {
        true => Progress::hidden(),
        false => Progress::of("checked", 1),
    };
    let mut progress = |done: u64, total: u64| bar.set(done, total);
    let how = CheckRequest { data: args.data, repair: args.repair };
    let work = kind.check(host.rt(), device, how, &mut progress);
    let report = host.rt().block_on(work).map_err(|e| e.to_string())?;
    bar.finish();
    let report = report.map_err(|e| format!("{}: {e}", args.image.display()))?;
    media::end(&host, close)?;
    let found = Found { report: &report, how, quiet: args.quiet, has_checksums: kind.is_log() };
    let title = format!("Check of {}", args.image.display());
    printer.print(&Report::plain(title, found.in_words(), found.rows()))?;
    let is_sound = report.is_clean() || args.repair;
    Ok(if is_sound { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
