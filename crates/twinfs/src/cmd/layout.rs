//! `twinfs layout`: how well files lie, of images, snapshots and directories, and over time.

use std::path::Path;
use std::process::ExitCode;

use twin_age::{Layout as VolumeLayout, by_directory, by_file};
use twin_ageing::layout_report::{Day, HistoryReport, LayoutReport};
use twin_cli::progress::Shown;
use twin_cli::{Outcome, Printer, usage};
use twin_host::Interrupts;
use twin_mount::source_map::{each_snapshot, map_with};

use crate::cli::Layout;

pub(crate) fn run(args: &Layout, interrupts: &Interrupts) -> Outcome {
    let printer = Printer::of(&args.output, interrupts)?;
    match (&args.what, &args.history) {
        (Some(what), _) => of_volume(args, what, printer, interrupts),
        (None, Some(dir)) => of_history(dir, printer),
        (None, None) => Err(usage("name an image, a snapshot or a directory")),
    }
}

fn of_volume(args: &Layout, what: &Path, mut printer: Printer, interrupts: &Interrupts) -> Outcome {
    let map = map_with(what, args.free, interrupts, &Shown)?;
    let layout = VolumeLayout::of(&map);
    let mut report = LayoutReport::of(&what.display().to_string(), &map, &layout);
    if args.files {
        report.file_scores = by_file(&map).into_iter().map(Into::into).collect();
    }
    if args.dirs {
        report.directory_scores = by_directory(&map).into_iter().map(Into::into).collect();
    }
    printer.print(&report.report(&map))?;
    for problem in &report.problems {
        twin_host::note!("twinfs: {problem}");
    }
    Ok(if report.problems.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn of_history(dir: &Path, mut printer: Printer) -> Outcome {
    let mut days = Vec::new();
    let bad = each_snapshot(dir, |name, map| days.push(Day::of(name, &map)))?;
    let report = HistoryReport::of(days);
    let title = format!("Layout scores of {}", dir.display());
    printer.print(&report.report(&title))?;
    Ok(if bad { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}
