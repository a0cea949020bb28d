//! The commands, a file each.

mod age;
mod age_on;
mod bench;
mod cache;
mod calibrate;
mod check;
mod clean;
mod compare;
mod convert;
mod dump;
mod forecast;
mod fork;
mod frontier;
mod gather;
mod layout;
mod manual;
mod mkfs;
mod mount;
mod on;
mod peers;
mod presets;
mod printing;
mod progress;
mod reading;
mod record;
mod replay;
mod reproduce;
mod serve;
mod server;
mod snapshot;
mod start;
mod stat;
mod stat_observe;
mod stat_watch;
mod terminal;
mod top;
mod umount;
mod validate;
mod volume;
mod workload;

use std::process::ExitCode;

use crate::cli::Command;

pub(crate) use printing::Printer;
pub(crate) use twin_host::Interrupts;
use twin_mount::{image, opening, source_map};
use {twin_host as files, twin_host as time};

/// A command's result: the exit status, or what to tell the user.
pub(crate) type Outcome = Result<ExitCode, Failure>;

/// Why a command failed: the words for the user, and the exit status.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) why: String,
    pub(crate) status: u8,
}

/// The exit status of a command line that is wrong, as clap has it.
const USAGE: u8 = 2;

/// The failure of a command line that is wrong, though its grammar is right.
pub(crate) fn usage(why: impl std::fmt::Display) -> Failure {
    Failure { why: why.to_string(), status: USAGE }
}

impl From<String> for Failure {
    fn from(why: String) -> Failure {
        Failure { why, status: 1 }
    }
}

impl From<&str> for Failure {
    fn from(why: &str) -> Failure {
        why.to_owned().into()
    }
}

impl From<opening::Refused> for Failure {
    fn from(refused: opening::Refused) -> Failure {
        refused.why.into()
    }
}

/// True if a command ends an interrupt in its own way: what is mounted is unmounted in order.
pub(crate) fn serves(command: &Command) -> bool {
    matches!(command, Command::Mount(_) | Command::Record(_) | Command::Serve(_))
}

/// Runs a command.
pub(crate) fn run(command: Command, interrupts: &Interrupts) -> Outcome {
    match command {
        Command::Mkfs(args) => mkfs::run(&args, interrupts),
        Command::Mount(args) => mount::run(args),
        Command::Umount(args) => umount::run(&args),
        Command::Serve(args) => serve::run(args),
        Command::Check(args) => check::run(&args, interrupts),
        Command::Clean(args) => clean::run(&args, interrupts),
        Command::Dump(args) => dump::run(&args, interrupts),
        Command::Stat(args) => stat::run(&args, interrupts),
        Command::Record(args) => record::run(args),
        Command::Replay(args) => replay::run(&args, interrupts),
        Command::Gather(args) => gather::run(&args, interrupts),
        Command::Convert(args) => convert::run(&args, interrupts),
        Command::Calibrate(args) => calibrate::run(&args, interrupts),
        Command::Compare(args) => compare::run(&args, interrupts),
        Command::Frontier(args) => frontier::run(&args, interrupts),
        Command::Volume(args) => volume::run(&args, interrupts),
        Command::Cache(args) => cache::run(&args, interrupts),
        Command::Top(args) => top::run(&args),
        Command::Bench(args) => bench::run(&args, interrupts),
        Command::Presets(args) => presets::run(&args, interrupts),
        Command::Reproduce(args) => reproduce::run(&args, interrupts),
        Command::Validate(args) => validate::run(&args, interrupts),
        Command::Layout(args) => layout::run(&args, interrupts),
        Command::Snapshot(args) => snapshot::run(&args, interrupts),
        Command::Fork(args) => fork::run(&args, interrupts),
        Command::Forecast(args) => forecast::run(&args, interrupts),
        Command::Age(args) => age::run(&args, interrupts),
        Command::Completions(args) => manual::completions(&args),
        Command::Man(args) => manual::pages(&args),
    }
}

/// The runner of what is measured on this machine.
fn runner(interrupts: &Interrupts) -> Result<twin_real::Runner<'_>, String> {
    let program = std::env::current_exe().map_err(|e| format!("this program: {e}"))?;
    Ok(twin_real::Runner { interrupts, progress: &progress::Shown, program })
}

/// Prints a line. A reader that has gone (`| head`) is no error.
pub(crate) fn say(text: impl std::fmt::Display) -> Result<(), String> {
    say_to_reader(text).map(drop)
}

/// Prints a line. Returns false if the reader has gone: whoever would go on for ever ends then.
pub(crate) fn say_to_reader(text: impl std::fmt::Display) -> Result<bool, String> {
    use std::io::Write;
    let mut out = std::io::stdout().lock();
    match writeln!(out, "{text}").and_then(|()| out.flush()) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(false),
        Err(error) => Err(format!("standard output: {error}")),
    }
}
