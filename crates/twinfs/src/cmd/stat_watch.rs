//! `twinfs stat --watch`: what a mount does, line by line.
//!
//! Contract: a line is of the time since the line before; the first is of the first interval. A mount
//! that ends, or a reader that has gone, ends the command without an error.

use std::process::ExitCode;
use std::time::Duration;

use twin_cli::{Outcome, Printer, say_to_reader};
use twin_mount::answers::Question;
use twin_mount::client::MountClient;
use twin_report::Report;
use twin_report::rows::csv;
use twin_show::since::{in_words, since};

use crate::cli::{Format, Stat};

pub(super) fn run(args: &Stat, seconds: u32, mut printer: Printer) -> Outcome {
    let dir = args.image.display();
    let mount = MountClient::at(&args.image)?.ok_or_else(|| {
        format!("{dir}: --watch is for a mount, and no volume of twinfs is mounted there")
    })?;
    let (mut before, _) = mount.ask(Question::Figures)?;
    let mut left = args.times.unwrap_or(u64::MAX);
    let mut is_first = true;
    let mut lines = Vec::new();
    while left > 0 {
        pause(seconds);
        let Ok((now, _)) = mount.ask(Question::Figures) else { break };
        let row = since(&before, &now);
        lines.extend(args.output.has_page().then(|| in_words(&row)));
        let text = match args.output.format() {
            Format::Table => in_words(&row),
            Format::Json | Format::Jsonl => row.to_string(),
            Format::Csv => csv(&[row], is_first).trim_end().to_owned(),
            Format::Html => String::new(),
        };
        if !text.is_empty() && !say_to_reader(text)? {
            break;
        }
        (before, is_first, left) = (now, false, left - 1);
    }
    if args.output.has_page() {
        let title = format!("The mount at {dir}, every {seconds} s");
        let report = Report::plain(title, lines.join("\n"), [(); 0]);
        match args.output.format() {
            Format::Html => printer.print(&report)?,
            _ => printer.write_page(&report)?,
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Waits outside of any runtime.
#[allow(clippy::disallowed_methods)]
fn pause(seconds: u32) {
    std::thread::sleep(Duration::from_secs(seconds.into()));
}
