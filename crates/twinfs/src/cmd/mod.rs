//! The commands, a file each.

mod advise;
mod age;
mod age_on;
mod arena;
mod bench;
mod cache;
mod calibrate;
mod check;
mod clean;
mod compare;
mod convert;
mod crashlab;
mod dump;
mod experiment;
mod forecast;
mod fork;
mod frontier;
mod gather;
mod grow;
mod lab;
mod layout;
mod machine_file;
mod manual;
mod mkfs;
mod mount;
mod new_policy;
mod on;
mod peers;
mod presets;
mod quota;
mod reading;
mod receive;
mod record;
mod replay;
mod reproduce;
mod scrub;
mod send;
mod serve;
mod server;
mod snapshot;
mod start;
mod stat;
mod stat_observe;
mod stat_watch;
mod states;
mod top;
mod umount;
mod validate;
mod volume;
mod workload;

pub(crate) use workload::named as named_workload;

use twin_cli::progress::Progress;
use twin_cli::{Call, Outcome};
use twin_host::Interrupts;
use twin_lab::Steps;

use crate::cli::Command;

/// True if a command ends an interrupt in its own way: what is mounted is unmounted in order, and a
/// program that takes over listens for itself, as does one that must do something before there is a thread.
pub(crate) fn serves(command: &Command) -> bool {
    use Command::{Crashlab, Mount, Record, Reproduce, Serve};
    matches!(command, Crashlab(_) | Mount(_) | Record(_) | Serve(_) | Reproduce(_))
}

/// Steps of runs that are shown on a bar; an interrupted call of a command ends its runs with them.
fn steps(bar: &Progress) -> Steps {
    let steps = Steps::of(bar.counting());
    match Call::current() {
        Some(call) => steps.until(call.stop()),
        None => steps,
    }
}

/// Runs a command.
pub(crate) fn run(command: Command, interrupts: &Interrupts) -> Outcome {
    match command {
        Command::Mkfs(args) => mkfs::run(&args, interrupts),
        Command::Mount(args) => mount::run(args),
        Command::Umount(args) => umount::run(&args),
        Command::Serve(args) => serve::run(args),
        Command::Crashlab(args) => crashlab::run(&args),
        Command::Ack(args) => crashlab::run_ack(&args),
        Command::Check(args) => check::run(&args, interrupts),
        Command::Scrub(args) => scrub::run(&args, interrupts),
        Command::Clean(args) => clean::run(&args, interrupts),
        Command::Grow(args) => grow::run(&args, interrupts),
        Command::Quota(args) => quota::run(&args, interrupts),
        Command::Dump(args) => dump::run(&args, interrupts),
        Command::Stat(args) => stat::run(&args, interrupts),
        Command::Record(args) => record::run(args),
        Command::Replay(args) => replay::run(&args, interrupts),
        Command::Gather(args) => gather::run(&args, interrupts),
        Command::Convert(args) => convert::run(&args, interrupts),
        Command::Calibrate(args) => calibrate::run(&args, interrupts),
        Command::Compare(args) => compare::run(&args, interrupts),
        Command::Advise(args) => advise::run(&args, interrupts),
        Command::Arena(args) => arena::run(&args, interrupts),
        Command::Run(args) => experiment::run(&args, interrupts),
        Command::Merge(args) => experiment::run_merge(&args),
        Command::Diff(args) => experiment::run_diff(&args, interrupts),
        Command::Frontier(args) => frontier::run(&args, interrupts),
        Command::Volume(args) => volume::run(&args, interrupts),
        Command::Cache(args) => cache::run(&args, interrupts),
        Command::Top(args) => top::run(&args),
        Command::Bench(args) => bench::run(&args, interrupts),
        Command::Presets(args) => presets::run(&args, interrupts),
        Command::Reproduce(args) => reproduce::run(&args),
        Command::NewPolicy(args) => new_policy::run(&args),
        Command::Lab(args) => lab::run(&args, interrupts),
        Command::Validate(args) => validate::run(&args, interrupts),
        Command::Layout(args) => layout::run(&args, interrupts),
        Command::Snapshot(args) => snapshot::run(&args, interrupts),
        Command::Send(args) => send::run(&args, interrupts),
        Command::Receive(args) => receive::run(&args),
        Command::Fork(args) => fork::run(&args, interrupts),
        Command::Forecast(args) => forecast::run(&args, interrupts),
        Command::Age(args) => age::run(&args, interrupts),
        Command::Completions(args) => manual::completions(&args),
        Command::Man(args) => manual::pages(&args),
    }
}
