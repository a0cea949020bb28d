//! `twinfs layout`: how well files lie, of images, snapshots and directories, and over time.

use std::path::Path;
use std::process::ExitCode;

use twin_age::{Layout as VolumeLayout, by_directory, by_file};
use twin_ageing::layout_report::{
    Day, HistoryReport, LayoutReport, history_page, history_table, page, table,
};

use super::files::Page;
use super::source_map::{each_snapshot, map_of_source};
use super::terminal::terminal_width;
use super::{Interrupts, Outcome, say};
use crate::cli::{Format, Layout};
use crate::rows;

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
    if let Some(file) = page_file {
        file.write(&page(&report, &map))?;
    }
    match args.output.format() {
        Format::Table => say(table(&report, terminal_width()).trim_end())?,
        Format::Json => say(serde_json::to_string_pretty(&report).map_err(|e| e.to_string())?)?,
        Format::Csv if args.files => rows::print(&args.output, &report.file_scores, nothing)?,
        Format::Csv if args.dirs => rows::print(&args.output, &report.directory_scores, nothing)?,
        Format::Csv => rows::print(&args.output, &report.rows(), nothing)?,
    }
    for problem in &report.problems {
        eprintln!("twinfs: {problem}");
    }
    Ok(if report.problems.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn nothing() -> Result<String, String> {
    Ok(String::new())
}

fn of_history(args: &Layout, dir: &Path, page_file: Option<Page>) -> Outcome {
    let mut days = Vec::new();
    let bad = each_snapshot(dir, |name, map| days.push(Day::of(name, &map)))?;
    let report = HistoryReport::of(days);
    if let Some(file) = page_file {
        file.write(&history_page(&report, &format!("Layout scores of {}", dir.display())))?;
    }
    match args.output.format() {
        Format::Table => say(history_table(&report, terminal_width()).trim_end())?,
        Format::Json => say(serde_json::to_string_pretty(&report).map_err(|e| e.to_string())?)?,
        Format::Csv => rows::print(&args.output, &report.days, nothing)?,
    }
    Ok(if bad { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}
