//! `twinfs check`.

use std::process::ExitCode;

use serde_json::{Value, json};
use twin_cli::progress::Progress;
use twin_cli::{Outcome, Printer};
use twin_fs::{CheckReport, CheckRequest};
use twin_host::{Host, HostOptions, ImageOptions, Interrupts};
use twin_mount::image::layout_of;
use twin_mount::journal::give_up_journal;
use twin_mount::media;
use twin_mount::opening::device_anywhere;
use twin_report::Report;

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
    let mut report = report.map_err(|e| format!("{}: {e}", args.image.display()))?;
    media::end(&host, close)?;
    // "clean" is said of what was read.
    if report.skipped_data {
        report.notes.push(skipped(kind.is_log()).into());
    }
    let title = format!("Check of {}", args.image.display());
    printer.print(&Report::plain(title, words(args, &report), rows(args, &report)))?;
    let is_sound = report.is_clean() || args.repair;
    Ok(if is_sound { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// One row for each finding and note, and the verdict as the last.
fn rows(args: &Check, report: &CheckReport) -> Vec<Value> {
    let mut all: Vec<Value> = Vec::new();
    let mut row = |kind: &str, text: &str| all.push(json!({ "kind": kind, "text": text }));
    report.findings.iter().for_each(|text| row("finding", text));
    if report.more_findings > 0 {
        row("more findings", &report.more_findings.to_string());
    }
    if !args.quiet {
        report.notes.iter().for_each(|text| row("note", text));
    }
    row("verdict", verdict(args, report));
    all
}

/// What is said where the data of files was not read.
fn skipped(has_checksums: bool) -> &'static str {
    match has_checksums {
        true => "the data of files was not read: --data reads it and compares checksums",
        false => {
            "the data of files was not read: there are checksums of it on logs, and on FFS made with --data-checksums"
        }
    }
}

fn verdict(args: &Check, report: &CheckReport) -> &'static str {
    match (report.is_clean(), args.repair) {
        (true, _) => "clean",
        (false, true) => "repaired",
        (false, false) => "not clean",
    }
}

/// The same for people, a line each.
fn words(args: &Check, report: &CheckReport) -> String {
    let mut lines = report.findings.clone();
    if report.more_findings > 0 {
        lines.push(format!("and {} more findings", report.more_findings));
    }
    if !args.quiet {
        lines.extend(report.notes.iter().cloned());
    }
    match (report.is_clean(), args.repair) {
        (false, true) => {
            lines.push(format!("repaired; {} files are in lost+found", report.rescued));
        }
        _ if args.quiet => {}
        (true, _) => lines.push("clean".into()),
        (false, false) => {
            let data = if args.data { " --data" } else { "" };
            lines.push(format!(
                "not clean; `twinfs check --repair{data}` repairs it (copy the volume first)"
            ));
        }
    }
    lines.join("\n")
}
