//! `twinfs scrub`: of a mount.
//!
//! Contract: the mount works, and this command only asks it how far it is. When it ends, in whatever way, the
//! scrub ends. Exits with 0 only if everything was looked at and nothing was found.

use std::process::ExitCode;
use std::time::Duration;

use serde_json::Value;
use twin_cli::progress::Progress;
use twin_cli::{Outcome, Printer};
use twin_host::Interrupts;
use twin_mount::answers::Question;
use twin_mount::client::MountClient;
use twin_report::Report;
use twin_show::scrub::{in_words, rows};

use crate::cli::Scrub;

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
    let title = format!("Scrub of {dir}");
    printer.print(&Report::plain(title, in_words(&flaws, &figures), rows(&flaws, &figures)))?;
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

/// Waits outside of any runtime.
#[allow(clippy::disallowed_methods)]
fn pause() {
    std::thread::sleep(ASK_EVERY);
}
