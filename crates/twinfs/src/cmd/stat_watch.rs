//! `twinfs stat --watch`: what a mount does, line by line.
//!
//! Contract: a line is of the time since the line before; the first is of the first interval. A mount
//! that ends, or a reader that has gone, ends the command without an error.

use std::process::ExitCode;
use std::time::Duration;

use serde_json::{Value, json};
use twin_cli::{Outcome, Printer, say_to_reader};
use twin_fs::write_cost;
use twin_mount::answers::Question;
use twin_mount::client::MountClient;
use twin_report::Report;
use twin_report::rows::csv;

use crate::cli::{Format, Stat};
use crate::size::Size;

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
        lines.extend(args.output.has_page().then(|| words(&row)));
        let text = match args.output.format() {
            Format::Table => words(&row),
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

/// What a mount has done between two answers.
fn since(before: &Value, now: &Value) -> Value {
    let number = |of: &Value, name: &str| of[name].as_u64().unwrap_or_default();
    let grown = |name: &str| number(now, name).saturating_sub(number(before, name));
    let (written, new) = (grown("written_bytes"), grown("new_data_bytes"));
    let read = grown("cleaner_read_bytes");
    json!({
        "seconds": grown("at_ns") as f64 / 1e9,
        "operations": grown("operations"),
        "device_requests": grown("device_requests"),
        "written_bytes": written,
        "new_data_bytes": new,
        "moved_bytes": grown("moved_bytes"),
        "cleaner_read_bytes": read,
        "write_cost": write_cost(written, read, new),
        "used_bytes": number(now, "used_bytes"),
        "capacity_bytes": number(now, "capacity_bytes"),
        "dirty_bytes": number(now, "dirty_bytes"),
        "device_queue": number(now, "device_queue"),
    })
}

fn words(row: &Value) -> String {
    let seconds = row["seconds"].as_f64().unwrap_or(1.0).max(1e-9);
    let number = |name: &str| row[name].as_u64().unwrap_or_default();
    let rate = |name: &str| number(name) as f64 / seconds;
    let cost = row["write_cost"].as_f64().map_or("-".into(), |cost| format!("{cost:.2}"));
    let full = number("used_bytes") as f64 * 100.0 / number("capacity_bytes").max(1) as f64;
    format!(
        "{:>8.0} operations/s, {:>6.0} requests/s, {:>10}/s written, {:>10}/s new, write cost \
         {cost:>5}, {full:>5.1}% full, {:>10} dirty, {} in the queue",
        rate("operations"),
        rate("device_requests"),
        Size(rate("written_bytes") as u64).to_string(),
        Size(rate("new_data_bytes") as u64).to_string(),
        Size(number("dirty_bytes")).to_string(),
        number("device_queue"),
    )
}

/// Waits outside of any runtime.
#[allow(clippy::disallowed_methods)]
fn pause(seconds: u32) {
    std::thread::sleep(Duration::from_secs(seconds.into()));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_of_the_time_since_the_line_before() {
        let answer = |at_ns: u64, written: u64, new: u64, read: u64| {
            json!({ "at_ns": at_ns, "operations": at_ns / 1000, "written_bytes": written,
                    "new_data_bytes": new, "cleaner_read_bytes": read, "used_bytes": 50,
                    "capacity_bytes": 200 })
        };
        let row =
            since(&answer(1_000_000_000, 500, 400, 0), &answer(3_000_000_000, 1700, 1000, 300));
        assert_eq!(row["seconds"], 2.0);
        assert_eq!(row["write_cost"], 2.5);
        assert_eq!(row["written_bytes"], 1200);
        let text = words(&row);
        assert!(text.contains("1000000 operations/s") && text.contains(" 25.0% full"), "{text}");
        let idle = since(&answer(0, 5, 5, 0), &answer(1, 5, 5, 0));
        assert!(words(&idle).contains("write cost     -"), "{}", words(&idle));
    }
}
