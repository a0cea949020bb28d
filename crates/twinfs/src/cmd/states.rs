//! `twinfs snapshot create` and its kind: the states that a volume keeps, of an image or of a mount.

use std::path::Path;
use std::process::ExitCode;

use serde_json::json;
use twin_cli::progress::Progress;
use twin_cli::{Outcome, Printer};
use twin_fs::SnapshotView;
use twin_fs::snapshots::{Difference, HeadChange, Keep, StateKind, States};
use twin_fs::{Cpu, FsError, LayoutKind, NO_SNAPSHOTS, Settings, Volume};
use twin_host::{Host, HostOptions, ImageOptions, Interrupts};
use twin_mount::answers::Question;
use twin_mount::client::{FrozenVolume, MountClient};
use twin_mount::image::layout_of;
use twin_mount::media;
use twin_mount::opening::{OpenOptions, Opened, device, open_volume};
use twin_mount::states::{states_as_json, why_not_deleted, why_not_head, why_not_kept};
use twin_report::Report;
use twin_show::states as show;

use crate::cli::{
    BranchState, CreateState, DeleteStates, DiffStates, ListStates, Output, RollBack,
    StatesCommand, SwitchState,
};

/// Bytes of names that one question to a mount has at the most.
const NAMES_AT_A_TIME: usize = 2048;
/// The most memory that a mount takes to hold its state while two states are compared.
pub(super) const HELD_MOST: u64 = 256 << 20;
/// Memory for blocks of each state that is compared.
pub(super) const CACHE_BYTES: u64 = 64 << 20;

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

/// The mount at a directory; `None` if it is an image.
pub(super) fn mount_at(volume: &Path) -> Result<Option<MountClient>, String> {
    if !volume.is_dir() {
        return Ok(None);
    }
    let mount = MountClient::at(volume)?;
    let nothing =
        || format!("{}: no volume of twinfs is mounted there: name its image", volume.display());
    mount.ok_or_else(nothing).map(Some)
}

/// The layout of an image, which must keep states.
fn layout_with_states(image: &Path) -> Result<&'static dyn LayoutKind, String> {
    let kind = layout_of(image)?;
    match kind.is_log() {
        true => Ok(kind),
        false => Err(format!("{}: this is {}: {NO_SNAPSHOTS}", image.display(), kind.noun())),
    }
}

/// Opens the volume in an image.
pub(super) fn open(
    image: &Path,
    read_only: bool,
) -> Result<(&'static dyn LayoutKind, Opened), String> {
    let kind = layout_with_states(image)?;
    let options = OpenOptions {
        image: ImageOptions { read_only, ..ImageOptions::default() },
        settings: Settings { read_only, ..Settings::default() },
        ..OpenOptions::of(kind)
    };
    let opening = Progress::waiting("the volume is opened");
    let opened = open_volume(image, options).map_err(|refused| refused.why)?;
    opening.finish();
    if let (Some(words), false) = (&opened.recovery, read_only) {
        twin_host::note!("twinfs: {words} first");
    }
    Ok((kind, opened))
}

pub(super) fn snapshots_of(volume: &Volume) -> Result<&dyn SnapshotView, String> {
    volume.layout().views().snapshots.ok_or_else(|| NO_SNAPSHOTS.to_owned())
}

/// Opens an image for writing, changes its states, and closes it. Gives how long the change took.
fn change(
    image: &Path,
    what: impl AsyncFnOnce(&dyn SnapshotView, &Volume) -> Result<(), FsError>,
    in_words: impl Fn(&FsError) -> String,
) -> Result<u64, String> {
    let (_, Opened { host, volume, below, .. }) = open(image, false)?;
    let snapshots = snapshots_of(&volume)?;
    let work = async {
        let begun = host.now();
        let changed = what(snapshots, &volume).await;
        let took_ns = host.now().since(begun);
        volume.close().await.map_err(|error| error.to_string())?;
        changed.map(|()| took_ns).map_err(|error| in_words(&error))
    };
    let done = host.rt().block_on(work).map_err(|e| e.to_string())?;
    media::end(&host, below.close)?;
    done.map_err(|why| format!("{}: {why}", image.display()))
}

fn keep(
    output: &Output,
    volume: &Path,
    name: &str,
    what: &Keep,
    interrupts: &Interrupts,
) -> Outcome {
    let mut printer = Printer::of(output, interrupts)?;
    let took_ns = match mount_at(volume)? {
        Some(mount) => {
            mount.hand_over()?;
            let (is_branch, from) = match what {
                Keep::Snapshot => (false, None),
                Keep::Branch => (true, None),
                Keep::BranchOf(from) => (true, Some(from.clone())),
            };
            let (answer, _) =
                mount.ask(Question::KeepState { name: name.into(), is_branch, from })?;
            answer["took_ns"].as_u64().unwrap_or_default()
        }
        None => {
            let kept = async |snapshots: &dyn SnapshotView, volume: &Volume| {
                snapshots.keep(volume.core(), name, what.clone()).await
            };
            change(volume, kept, |error| why_not_kept(name, error))?
        }
    };
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
    let answer = match mount_at(&args.volume)? {
        Some(mount) => mount.ask(Question::States)?.0,
        None => {
            let (_, Opened { volume, .. }) = open(&args.volume, true)?;
            let states: States = snapshots_of(&volume)?.states(volume.core());
            states_as_json(&states)
        }
    };
    let rows = answer["states"].as_array().cloned().unwrap_or_default();
    printer.print(&Report::plain("States", show::in_words(&answer), rows))?;
    Ok(ExitCode::SUCCESS)
}

fn delete(args: &DeleteStates, interrupts: &Interrupts) -> Outcome {
    let mut printer = Printer::of(&args.output, interrupts)?;
    match mount_at(&args.volume)? {
        Some(mount) => {
            for names in in_parts(&args.names) {
                mount.ask(Question::DeleteStates { names })?;
            }
        }
        None => {
            let deleted = async |snapshots: &dyn SnapshotView, volume: &Volume| {
                snapshots.delete(volume.core(), &args.names).await
            };
            change(&args.volume, deleted, |error| why_not_deleted(&args.names, error))?;
        }
    }
    let row = |name: &String| json!({ "volume": args.volume.display().to_string(), "name": name });
    let text = format!("deleted: {}", args.names.join(", "));
    printer.print(&Report::plain("Deleted", text, args.names.iter().map(row)))?;
    Ok(ExitCode::SUCCESS)
}

/// The names in parts that fit into a question.
fn in_parts(names: &[String]) -> Vec<Vec<String>> {
    let (mut parts, mut bytes) = (vec![Vec::new()], 0);
    for name in names {
        bytes += name.len() + 4;
        if bytes > NAMES_AT_A_TIME {
            parts.push(Vec::new());
            bytes = name.len() + 4;
        }
        if let Some(part) = parts.last_mut() {
            part.push(name.clone());
        }
    }
    parts
}

fn set_head(
    output: &Output,
    image: &Path,
    name: &str,
    change: &HeadChange,
    interrupts: &Interrupts,
) -> Outcome {
    let mut printer = Printer::of(output, interrupts)?;
    if image.is_dir() {
        let dir = image.display();
        return Err(format!(
            "{dir}: the head is changed while nobody uses it: unmount it, and name its image"
        )
        .into());
    }
    let kind = layout_with_states(image)?;
    let host = Host::start(HostOptions::default()).map_err(|e| e.to_string())?;
    let (device, _) = device(&host, image, kind, &ImageOptions::default())?;
    let changing = kind.set_head(host.rt(), std::rc::Rc::new(device), change);
    let done = host.rt().block_on(changing).map_err(|e| e.to_string())?;
    done.map_err(|error| format!("{}: {}", image.display(), why_not_head(name, &error)))?;
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
    let found = match mount_at(&args.volume)? {
        Some(mount) => {
            let FrozenVolume { host, kind, device, .. } = mount.freeze(HELD_MOST)?;
            let settings = Settings { read_only: true, ..Settings::default() };
            let config = kind.config();
            let opening = config.open(host.rt(), device, Cpu::none(), settings);
            let opened = host.rt().block_on(opening).map_err(|e| e.to_string())?;
            let opened = opened.map_err(|e| format!("{}: {e}", args.volume.display()))?;
            differences(args, &host, kind, &opened.volume)?
        }
        None => {
            let (kind, Opened { host, volume, .. }) = open(&args.volume, true)?;
            differences(args, &host, kind, &volume)?
        }
    };
    let (rows, text) = show::differences(&found);
    printer.print(&Report::plain("Differences", text, rows))?;
    Ok(ExitCode::SUCCESS)
}

fn differences(
    args: &DiffStates,
    host: &Host,
    kind: &'static dyn LayoutKind,
    volume: &Volume,
) -> Result<Vec<Difference>, String> {
    let states = snapshots_of(volume)?.states(volume.core()).states;
    let head = states.iter().find(|state| state.kind == StateKind::Head);
    let head = head.map(|head| head.name.clone()).unwrap_or_default();
    let state = |name: &str| -> Result<Volume, String> {
        if *name == head {
            return Ok(volume.clone());
        }
        let opening = volume.open_state(name, CACHE_BYTES);
        let opened = host.rt().block_on(opening).map_err(|e| e.to_string())?;
        opened.map_err(|error| format!("{}: {}", args.volume.display(), why_not_head(name, &error)))
    };
    let (from, to) = (state(&args.from)?, state(args.to.as_deref().unwrap_or(&head))?);
    let comparing = Progress::waiting("states are compared");
    let found = host.rt().block_on(kind.differences(&from, &to)).map_err(|e| e.to_string())?;
    comparing.finish();
    found.map_err(|error| format!("{}: {error}", args.volume.display()))
}
