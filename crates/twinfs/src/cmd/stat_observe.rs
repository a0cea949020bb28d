//! `twinfs stat --observe`: a mount is observed, interval by interval.
//!
//! Contract: figures of an interval are printed when it has ended, those of all of it after the last of
//! `--count`. Observing ends with this command, however it ends. A mount that ends, or a reader that
//! has gone, ends the command without an error.

use std::process::ExitCode;
use std::time::Duration;

use serde_json::{Value, json};
use twin_cli::terminal::terminal_width;
use twin_cli::{Outcome, Printer, say_to_reader, usage};
use twin_mount::answers::Question;
use twin_mount::client::MountClient;
use twin_observe::{Row, table};
use twin_report::rows::csv;
use twin_report::{Form, Report, value};

use crate::cli::{Format, Stat};

/// The interval if none is given.
const EVERY_NS: u64 = 10 * twin_rt::SECS;

pub(super) fn run(args: &Stat, mut printer: Printer) -> Outcome {
    let dir = args.image.display();
    let Some(observing) = args.observe.observing(EVERY_NS).map_err(usage)? else {
        return Err("no observer is named".into());
    };
    let mount = MountClient::at(&args.image)?.ok_or_else(|| {
        format!("{dir}: --observe is for a mount, and no volume of twinfs is mounted there")
    })?;
    let names = observing.names.iter().map(|name| (*name).to_owned()).collect();
    let (begun, _) = mount.ask(Question::Observe { names, every_ns: observing.every_ns })?;
    let title = format!("Observed of the mount at {dir}");
    let (format, page) = (args.output.format(), Report::new(title));
    let mut lines = Lines { format, has_names: false, page };
    if !lines.unseen(&begun["unseen"])? {
        return Ok(ExitCode::SUCCESS);
    }
    let mut left = args.times.unwrap_or(u64::MAX);
    while left > 0 {
        pause(observing.every_ns);
        let Ok(answer) = mount.ask(Question::Intervals) else { break };
        if !lines.rows(&rows_of(answer)?)? {
            return Ok(ExitCode::SUCCESS);
        }
        left -= 1;
    }
    if let Ok(answer) = mount.ask(Question::Observed) {
        lines.rows(&rows_of(answer)?)?;
    }
    match format {
        Format::Html => printer.print(&lines.page)?,
        _ => printer.write_page(&lines.page)?,
    }
    Ok(ExitCode::SUCCESS)
}

fn rows_of((mut answer, _): (Value, Vec<u8>)) -> Result<Vec<Row>, String> {
    serde_json::from_value(answer["rows"].take())
        .map_err(|error| format!("the mount's answer has no sense: {error}"))
}

/// Prints what a mount tells.
struct Lines {
    format: Format,
    has_names: bool,
    /// All that was told, for a page at the end.
    page: Report,
}

impl Lines {
    /// Prints what is not seen. Returns false if the reader has gone.
    fn unseen(&mut self, all: &Value) -> Result<bool, String> {
        for one in all.as_array().into_iter().flatten() {
            let text = |name: &str| one[name].as_str().unwrap_or_default();
            let line = format!("{}: not on a mount: {}", text("observer"), text("why"));
            let goes_on = match self.format {
                Format::Table => say_to_reader(line)?,
                Format::Json | Format::Jsonl => say_to_reader(json!({ "unseen": one }))?,
                Format::Html => {
                    self.page.add(line);
                    true
                }
                // Rows have no place for it.
                Format::Csv => {
                    twin_host::note!("{line}");
                    true
                }
            };
            if !goes_on {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Prints rows: of one or more intervals, or of the whole. Returns false if the reader has gone.
    fn rows(&mut self, rows: &[Row]) -> Result<bool, String> {
        add(&mut self.page, rows);
        let text = match self.format {
            Format::Table => {
                let mut report = Report::new("");
                add(&mut report, rows);
                format!("{}\n", report.write(Form::Terminal(terminal_width())))
            }
            Format::Html => String::new(),
            Format::Json | Format::Jsonl => {
                let lines: Vec<String> = rows.iter().map(|row| value(row).to_string()).collect();
                lines.join("\n")
            }
            Format::Csv => {
                let rows: Vec<Value> = rows.iter().map(value).collect();
                let text = csv(&rows, !self.has_names);
                self.has_names |= !text.is_empty();
                text.trim_end().to_owned()
            }
        };
        if text.is_empty() { Ok(true) } else { say_to_reader(text) }
    }
}

/// Adds a table for each interval under a line that says of when it is.
fn add(report: &mut Report, rows: &[Row]) {
    for group in rows.chunk_by(|a, b| (a.from_s(), a.to_s()) == (b.from_s(), b.to_s())) {
        report.add(match group.first() {
            Some(row) if row.is_of_run() => format!("All {:.1} s", row.to_s()),
            Some(row) => format!("{:.1} s to {:.1} s", row.from_s(), row.to_s()),
            None => continue,
        });
        report.add(table(group, false));
    }
    if rows.is_empty() {
        report.add("Nothing that was observed happened.");
    }
}

/// Waits outside of any runtime.
#[allow(clippy::disallowed_methods)]
fn pause(ns: u64) {
    std::thread::sleep(Duration::from_nanos(ns));
}
