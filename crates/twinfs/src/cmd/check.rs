//! `twinfs check`.

use std::process::ExitCode;
use std::rc::Rc;

use twin_disk::BlockDevice;
use twin_host::{FileDevice, Host, HostOptions, ImageOptions};
use twin_lfs::check::{CheckOptions, Progress, check};

use super::compare::progress_bar;
use super::image::layout_of;
use super::{Outcome, say};
use crate::cli::{Check, Layout};
use crate::size::Size;

pub(crate) fn run(args: &Check) -> Outcome {
    if layout_of(&args.image)? == Layout::Ffs {
        return super::ffs::check(args);
    }
    if args.repair {
        return Err(
            "--repair is for FFS volumes: a log-structured one recovers at its next mount".into()
        );
    }
    let host = Host::start(HostOptions::default()).map_err(|e| e.to_string())?;
    let image = ImageOptions { read_only: true, ..ImageOptions::default() };
    let device = FileDevice::open(&host, &args.image, &image).map_err(|e| e.to_string())?;
    let device: Rc<dyn BlockDevice> = Rc::new(device);
    let bar = progress_bar(1);
    let mut progress = |p: Progress| {
        bar.set_length(p.total);
        bar.set_position(p.done);
    };
    let options = CheckOptions { data: args.data };
    let work = check(host.rt(), device, &options, &mut progress);
    let report = host.rt().block_on(work).map_err(|e| e.to_string())?;
    bar.finish_and_clear();
    let report = report.map_err(|e| format!("{}: {e}", args.image.display()))?;
    for finding in &report.findings {
        say(finding)?;
    }
    if report.more_findings > 0 {
        say(format!("and {} more findings", report.more_findings))?;
    }
    let c = &report.counts;
    if !args.quiet {
        if let Some(recovered) = report.recovered {
            let log = Size(recovered.log_bytes);
            say(format!("not unmounted: {} log writes ({log}) to recover", recovered.groups))?;
        }
        say(format!(
            "{} files, {} directories, {} links and special files; {} live in {} of {} segments",
            c.files,
            c.dirs,
            c.symlinks + c.special,
            Size(c.live_bytes),
            c.used_segments,
            c.segments
        ))?;
    }
    if report.is_clean() {
        if !args.quiet {
            say("clean")?;
        }
        return Ok(ExitCode::SUCCESS);
    }
    Ok(ExitCode::FAILURE)
}
