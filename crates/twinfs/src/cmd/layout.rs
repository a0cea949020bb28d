//! `twinfs layout`: how well files lie, of images, snapshots and directories, and over time.

use std::path::Path;
use std::process::ExitCode;

use twin_age::{Layout as VolumeLayout, by_directory, by_file};
use twin_ageing::layout_report::{Day, HistoryReport, LayoutReport};

use super::files::Page;
use super::source_map::{each_snapshot, map_of_source};
use super::{Interrupts, Outcome, print};
use crate::cli::Layout;

pub(crate) fn run(args: &Layout, interrupts: &Interrupts) -> Outcome {
    let page_file = args.html.as_deref().map(|path| Page::open(path, interrupts)).transpose()?;
    match (&args.what, &args.history) {
        (Some(what), _) => of_volume(args, what, page_file, interrupts),
        (None, Some(dir)) => of_history(args, dir, page_file),
        (None, None) => Err(super::usage("name an image, a snapshot or a directory")),
    }
}

fn of_volume(
    args: &Layout,
    what: &Path,
    page_file: Option<Page>,
    interrupts: &Interrupts,
) -> Outcome {
    let map = map_of_source(what, interrupts, &super::progress::Shown)?;
    let layout = VolumeLayout::of(&map);
    let mut report = LayoutReport::of(&what.display().to_string(), &map, &layout);
    if args.files {
        report.file_scores = by_file(&map).into_iter().map(Into::into).collect();
    }
    if args.dirs {
        report.directory_scores = by_directory(&map).into_iter().map(Into::into).collect();
    }
    print(&args.output, page_file, &report.report(&map))?;
    for problem in &report.problems {
        eprintln!("twinfs: {problem}");
    }
    Ok(if report.problems.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn of_history(args: &Layout, dir: &Path, page_file: Option<Page>) -> Outcome {
    let mut days = Vec::new();
    let bad = each_snapshot(dir, |name, map| days.push(Day::of(name, &map)))?;
    let report = HistoryReport::of(days);
    let title = format!("Layout scores of {}", dir.display());
    print(&args.output, page_file, &report.report(&title))?;
    Ok(if bad { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}
