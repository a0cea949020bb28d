//! `twinfs scrub`: of a mount.
//!
//! Contract: the mount works, and this command only asks it how far it is. When it ends, in whatever way, the
//! scrub ends. Exits with 0 only if everything was looked at and nothing was found.

use std::process::ExitCode;
use std::time::Duration;

use serde_json::{Value, json};
use twin_cli::progress::Progress;
use twin_cli::{Outcome, Printer};
use twin_host::Interrupts;
use twin_mount::answers::Question;
use twin_mount::client::MountClient;
use twin_report::Report;

use crate::cli::Scrub;
use crate::size::Size;

/// How often the mount is asked how far it is.
const ASK_EVERY: Duration = Duration::from_millis(200);

pub(crate) fn run(args: &Scrub, interrupts: &Interrupts) -> Outcome {
    let mut printer = Printer::of(&args.output, interrupts)?;
    let dir = args.dir.display();
    let hint = "a volume that is not mounted is checked with `twinfs check --data`";
    let mount = match args.dir.is_dir() {
        true => MountClient::at(&args.dir)?,
        false if args.dir.exists() => return Err(format!("{dir} is no directory: {hint}").into()),
        false => return Err(format!("{dir}: no such directory").into()),
    };
    let mount =
        mount.ok_or_else(|| format!("{dir}: no volume of twinfs is mounted there; {hint}"))?;
    let bytes_per_second = args.rate.map_or(0, |rate| rate.0);
    mount.ask(Question::Scrub { resume: args.resume, bytes_per_second })?;
    let figures = wait(&mount, interrupts)?;
    let flaws = found(&mount)?;
    let phase = figures["phase"].as_str().unwrap_or_default();
    let mut rows: Vec<Value> = flaws.iter().map(|flaw| with_kind("flaw", flaw)).collect();
    rows.push(with_kind("scrub", &figures));
    let title = format!("Scrub of {dir}");
    printer.print(&Report::plain(title, words(&flaws, &figures), rows))?;
    if phase != "complete" {
        return Err(format!("{dir}: the scrub could not look at everything ({phase})").into());
    }
    let is_sound = figures["flaws"].as_u64() == Some(0);
    Ok(if is_sound { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Waits until the scrub has ended; an interrupted command ends it.
fn wait(mount: &MountClient, interrupts: &Interrupts) -> Result<Value, twin_cli::Failure> {
    let bar = Progress::of_bytes("scrubbed", 1);
    loop {
        let (figures, _) = mount.ask(Question::ScrubFigures)?;
        let bytes = |name: &str| figures[name].as_u64().unwrap_or_default();
        // What is read is a little more than what is in use: the layout's own structures.
        let read = bytes("read_bytes");
        bar.set(read, bytes("used_bytes").max(read).max(1));
        if figures["phase"] != "running" {
            bar.finish();
            return Ok(figures);
        }
        if let Err(interrupted) = interrupts.check() {
            mount.ask(Question::ScrubCancel)?;
            bar.finish();
            return Err(interrupted.into());
        }
        pause();
    }
}

fn found(mount: &MountClient) -> Result<Vec<Value>, String> {
    let mut all: Vec<Value> = Vec::new();
    loop {
        let (answer, _) = mount.ask(Question::ScrubFound { from: all.len() })?;
        match answer["flaws"].as_array() {
            Some(some) if !some.is_empty() => all.extend(some.iter().cloned()),
            _ => return Ok(all),
        }
    }
}

fn with_kind(kind: &str, row: &Value) -> Value {
    let mut all = json!({ "kind": kind });
    if let (Some(all), Some(row)) = (all.as_object_mut(), row.as_object()) {
        all.extend(row.clone());
    }
    all
}

fn words(flaws: &[Value], figures: &Value) -> String {
    let number = |of: &Value, name: &str| of[name].as_u64().unwrap_or_default();
    let mut lines: Vec<String> = flaws.iter().map(flaw_in_words).collect();
    let (read, skipped) = (number(figures, "read_bytes"), number(figures, "skipped"));
    lines.push(format!("{} read, {} inodes", Size(read), number(figures, "inodes")));
    let uncompared = number(figures, "uncompared_bytes");
    if uncompared > 0 {
        let size = Size(uncompared);
        lines
            .push(format!("{size} could be read; this layout has no checksums to compare it with"));
    }
    if skipped > 0 {
        lines.push(format!("{skipped} things were left out: they were being written"));
    }
    lines.push(match number(figures, "flaws") {
        0 => "no flaw".into(),
        count if count > flaws.len() as u64 => {
            format!("{count} flaws, of which the first {} are shown", flaws.len())
        }
        1 => "1 flaw".into(),
        count => format!("{count} flaws"),
    });
    lines.join("\n")
}

fn flaw_in_words(flaw: &Value) -> String {
    let number = |name: &str| flaw[name].as_u64();
    let whose = match (flaw["path"].as_str(), number("ino")) {
        (Some(path), _) => path.to_owned(),
        (None, Some(ino)) => format!("inode {ino}"),
        (None, None) => "the volume".into(),
    };
    let length = number("length").unwrap_or_default();
    let place = match number("offset") {
        Some(offset) => format!(", bytes {offset} to {}", offset + length.max(1) - 1),
        None => String::new(),
    };
    let what = flaw["what"].as_str().unwrap_or_default();
    let at = number("device_byte").unwrap_or_default();
    format!("{whose}{place}: {what} ({length} bytes at byte {at} of the device)")
}

/// Waits outside of any runtime.
#[allow(clippy::disallowed_methods)]
fn pause() {
    std::thread::sleep(ASK_EVERY);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flaw_is_shown_with_its_path_its_place_and_what_it_is() {
        let mut flaw = json!({
            "path": "/a/b", "ino": 7, "offset": 8192, "length": 4096,
            "what": "block 2 does not match its checksum", "device_byte": 65536,
        });
        let text = "/a/b, bytes 8192 to 12287: block 2 does not match its checksum (4096 bytes at \
                    byte 65536 of the device)";
        assert_eq!(flaw_in_words(&flaw), text);
        flaw["path"] = Value::Null;
        assert!(flaw_in_words(&flaw).starts_with("inode 7, bytes"));
        let structure = json!({ "what": "an old one", "length": 512, "device_byte": 4096 });
        let text = "the volume: an old one (512 bytes at byte 4096 of the device)";
        assert_eq!(flaw_in_words(&structure), text);
    }

    #[test]
    fn flaws_that_are_not_listed_are_counted() {
        let figures = json!({ "read_bytes": 5, "inodes": 2, "skipped": 0, "flaws": 0 });
        assert_eq!(words(&[], &figures), "5 bytes read, 2 inodes\nno flaw");
        let many = json!({ "read_bytes": 5, "inodes": 2, "skipped": 1, "flaws": 20_000 });
        assert!(words(&[], &many).ends_with("20000 flaws, of which the first 0 are shown"));
    }
}
