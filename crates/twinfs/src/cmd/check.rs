//! `twinfs check`.

use std::process::ExitCode;
use std::rc::Rc;

use twin_fs::CheckRequest;
use twin_host::{Host, HostOptions, ImageOptions};

use super::image::layout_of;
use super::opening::device;
use super::time::progress_bar;
use super::{Outcome, say};
use crate::cli::Check;

pub(crate) fn run(args: &Check) -> Outcome {
    let kind = layout_of(&args.image)?;
    let host = Host::start(HostOptions::default()).map_err(|e| e.to_string())?;
    let image = ImageOptions { read_only: !args.repair, ..ImageOptions::default() };
    let (device, _) = device(&host, &args.image, kind, &image)?;
    let bar = progress_bar(1);
    let mut progress = |done: u64, total: u64| {
        bar.set_length(total);
        bar.set_position(done);
    };
    let how = CheckRequest { data: args.data, repair: args.repair };
    let work = kind.check(host.rt(), Rc::new(device), how, &mut progress);
    let report = host.rt().block_on(work).map_err(|e| e.to_string())?;
    bar.finish_and_clear();
    let report = report.map_err(|e| format!("{}: {e}", args.image.display()))?;
    for finding in &report.findings {
        say(finding)?;
    }
    if report.more_findings > 0 {
        say(format!("and {} more findings", report.more_findings))?;
    }
    if !args.quiet {
        for note in &report.notes {
            say(note)?;
        }
    }
    match (report.is_clean(), args.repair) {
        (true, _) => {
            if !args.quiet {
                say("clean")?;
            }
            Ok(ExitCode::SUCCESS)
        }
        (false, true) => {
            say(format!("repaired; {} files are in lost+found", report.rescued))?;
            Ok(ExitCode::SUCCESS)
        }
        (false, false) => {
            if !args.quiet {
                say("not clean; `twinfs check --repair` repairs it (copy the volume first)")?;
            }
            Ok(ExitCode::FAILURE)
        }
    }
}
