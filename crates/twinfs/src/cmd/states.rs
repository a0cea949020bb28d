//! `twinfs snapshot create` and its kind: the states that a volume keeps, of an image or of a mount.

use std::path::Path;
use std::process::ExitCode;

use serde_json::json;
use twin_cli::progress::Shown;
use twin_cli::{Outcome, Printer};
use twin_fs::snapshots::{HeadChange, Keep};
use twin_host::Interrupts;
use twin_mount::kept_states as states;
use twin_report::Report;
use twin_show::states as show;

use crate::cli::{
    BranchState, CreateState, DeleteStates, DiffStates, ListStates, Output, RollBack,
    StatesCommand, SwitchState,
};

pub(crate) fn run(command: &StatesCommand, interrupts: &Interrupts) -> Outcome {
    match command {
        StatesCommand::Create(CreateState { output, volume, name }) => {
            keep(output, volume, name, &Keep::Snapshot, interrupts)
        }
        StatesCommand::Branch(BranchState { output, volume, name, from }) => {
            let what = from.clone().map_or(Keep::Branch, Keep::BranchOf);
            keep(output, volume, name, &what, interrupts)
        }
        StatesCommand::List(args) => list(args, interrupts),
        StatesCommand::Delete(args) => delete(args, interrupts),
        StatesCommand::Rollback(RollBack { output, volume, name }) => {
            set_head(output, volume, name, &HeadChange::Rollback(name.clone()), interrupts)
        }
        StatesCommand::Switch(SwitchState { output, volume, name }) => {
            set_head(output, volume, name, &HeadChange::Switch(name.clone()), interrupts)
        }
        StatesCommand::Diff(args) => diff(args, interrupts),
    }
}

fn keep(
    output: &Output,
    volume: &Path,
    name: &str,
    what: &Keep,
    interrupts: &Interrupts,
) -> Outcome {
    let mut printer = Printer::of(output, interrupts)?;
    let took_ns = states::keep(volume, name, what, &Shown)?;
    let kind = if *what == Keep::Snapshot { "snapshot" } else { "branch" };
    let row = json!({
        "volume": volume.display().to_string(),
        "name": name,
        "kind": kind,
        "took_ns": took_ns,
    });
    let text =
        format!("{kind} {name:?} of {}, in {:.1} ms", volume.display(), took_ns as f64 / 1e6);
    printer.print(&Report::plain("Kept", text, [row]))?;
    Ok(ExitCode::SUCCESS)
}

fn list(args: &ListStates, interrupts: &Interrupts) -> Outcome {
    let mut printer = Printer::of(&args.output, interrupts)?;
    let answer = states::list(&args.volume, &Shown)?;
    let rows = answer["states"].as_array().cloned().unwrap_or_default();
    printer.print(&Report::plain("States", show::in_words(&answer), rows))?;
    Ok(ExitCode::SUCCESS)
}

fn delete(args: &DeleteStates, interrupts: &Interrupts) -> Outcome {
    let mut printer = Printer::of(&args.output, interrupts)?;
    states::delete(&args.volume, &args.names, &Shown)?;
    let row = |name: &String| json!({ "volume": args.volume.display().to_string(), "name": name });
    let text = format!("deleted: {}", args.names.join(", "));
    printer.print(&Report::plain("Deleted", text, args.names.iter().map(row)))?;
    Ok(ExitCode::SUCCESS)
}

fn set_head(
    output: &Output,
    image: &Path,
    name: &str,
    change: &HeadChange,
    interrupts: &Interrupts,
) -> Outcome {
    let mut printer = Printer::of(output, interrupts)?;
    states::set_head(image, name, change)?;
    let (what, text) = match change {
        HeadChange::Rollback(name) => ("rollback", format!("the head is as {name:?} was")),
        HeadChange::Switch(name) => ("switch", format!("the head is {name:?}")),
    };
    let row = json!({ "volume": image.display().to_string(), "name": name, "change": what });
    printer.print(&Report::plain("Head", text, [row]))?;
    Ok(ExitCode::SUCCESS)
}

fn diff(args: &DiffStates, interrupts: &Interrupts) -> Outcome {
    let mut printer = Printer::of(&args.output, interrupts)?;
    let found = states::differences(&args.volume, &args.from, args.to.as_deref(), &Shown)?;
    let (rows, text) = show::differences(&found);
    printer.print(&Report::plain("Differences", text, rows))?;
    Ok(ExitCode::SUCCESS)
}
