//! `twinfs send`: a snapshot as a stream.
//!
//! Contract: the stream has its end only if all of it is right. Of a mount, the snapshots are opened while its device is
//! held, and read without a hold: their blocks stay where they are as long as they exist, which is looked at before the end.

use std::fs::File;
use std::io::{BufWriter, IsTerminal, Write};
use std::process::ExitCode;

use twin_cli::progress::{Progress, Shown};
use twin_cli::{Outcome, usage};
use twin_fs::Volume;
use twin_fs::snapshots::{State, StateKind};
use twin_host::{Interrupts, NewFile};
use twin_mount::answers::Question;
use twin_mount::client::Hold;
use twin_mount::kept_states::{ReadVolume, mount_at};
use twin_send::{Header, Record, StateId, Writer};

use crate::cli::Send;
use crate::size::Size;

/// Bytes that are written at a time.
const BUFFER: usize = 1 << 20;

/// A state that is sent, or its base.
struct Opening {
    id: StateId,
    volume: Volume,
}

pub(crate) fn run(args: &Send, interrupts: &Interrupts) -> Outcome {
    let new = args.output.as_ref().map(|path| NewFile::make(path, interrupts)).transpose()?;
    let file = new.as_ref().map(NewFile::handle).transpose()?;
    if file.is_none() && std::io::stdout().is_terminal() {
        return Err(usage("a stream is no text: send it to a file or program, or give --output"));
    }
    let mut of = ReadVolume::open(&args.volume, &Shown)?;
    let states = states_of(args, &of)?;
    let is_mount = of.hold.take().map(Hold::let_go).is_some();
    let check = || if is_mount { still_there(args, &states) } else { Ok(()) };
    let totals = write(args, &of, &states, file, &check)?;
    new.map(NewFile::keep);
    let data = Size(totals.data_bytes);
    twin_host::note!("twinfs: {:?}: {} records with {data} of data", args.snapshot, totals.records);
    Ok(ExitCode::SUCCESS)
}

/// The state, and the base after it if there is one.
fn states_of(args: &Send, of: &ReadVolume) -> Result<Vec<Opening>, String> {
    let in_volume = |why: String| format!("{}: {why}", args.volume.display());
    let properties = of.kind.properties(&of.volume);
    let uuid = properties.iter().find(|property| property.name == "uuid");
    let number = uuid.and_then(|uuid| u128::from_str_radix(&uuid.value, 16).ok());
    let number = number.ok_or_else(|| in_volume("the volume has no number".into()))?.to_be_bytes();
    let states = of.states().map_err(in_volume)?.states;
    let open = |name: &String| -> Result<Opening, String> {
        let is_it = |state: &&State| state.name == *name;
        let found = states.iter().find(is_it);
        match found.map(|state| state.kind) {
            Some(StateKind::Snapshot) => {}
            Some(_) => {
                let why = "a branch may change: keep a snapshot of it, and send that";
                return Err(in_volume(format!("{name:?} is no snapshot: {why}")));
            }
            None => return Err(in_volume(format!("there is no snapshot {name:?}"))),
        }
        let (id, time_ns) = found.map_or((0, 0), |state| (state.id, state.time.0));
        let id = StateId { volume: number, id, time_ns, name: name.clone() };
        Ok(Opening { id, volume: of.state(name)? })
    };
    if args.since.as_ref() == Some(&args.snapshot) {
        return Err(format!("{:?} has nothing that it has not itself", args.snapshot));
    }
    std::iter::once(&args.snapshot).chain(&args.since).map(open).collect()
}

/// Fails if the mount has deleted a state meanwhile, since what it had may have been overwritten then.
fn still_there(args: &Send, states: &[Opening]) -> Result<(), String> {
    let gone = |what: &str| format!("{}: {what}: the stream is worthless", args.volume.display());
    let mount = mount_at(&args.volume)?.ok_or_else(|| gone("it is mounted no longer"))?;
    let (answer, _) = mount.ask(Question::States)?;
    let there = answer["states"].as_array().cloned().unwrap_or_default();
    for Opening { id, .. } in states {
        let is_it = |row: &serde_json::Value| {
            row["name"].as_str() == Some(&id.name) && row["made_ns"].as_u64() == Some(id.time_ns)
        };
        if !there.iter().any(is_it) {
            return Err(gone(&format!("{:?} was deleted meanwhile", id.name)));
        }
    }
    Ok(())
}

/// Writes the stream; before its end `check` may say that it is wrong.
fn write(
    args: &Send,
    of: &ReadVolume,
    states: &[Opening],
    file: Option<File>,
    check: &dyn Fn() -> Result<(), String>,
) -> Result<twin_send::Totals, String> {
    let [state, base @ ..] = states else { return Err("there is no state".into()) };
    let base = base.first();
    let name = match &args.output {
        Some(path) => path.display().to_string(),
        None => "standard output".into(),
    };
    let not_written = |error: std::io::Error| format!("{name}: {error}");
    let to: Box<dyn Write> = match &file {
        Some(file) => Box::new(file),
        None => Box::new(std::io::stdout().lock()),
    };
    let mut to = BufWriter::with_capacity(BUFFER, to);
    let mut writer = Writer::new();
    let sending = Progress::waiting("the snapshot is sent");
    let mut put = |bytes: Result<Vec<u8>, twin_send::StreamError>| {
        let bytes = bytes.map_err(|error| error.to_string())?;
        to.write_all(&bytes).map_err(not_written)
    };
    let header = Header { state: state.id.clone(), base: base.map(|base| base.id.clone()) };
    put(writer.write(&Record::Header(header)))?;
    let shared = base.and_then(|base| of.kind.shared(&base.volume, &state.volume));
    let base = base.map(|base| &base.volume);
    let mut out = |record: Record| put(writer.write(&record));
    let work = twin_send::send(base, &state.volume, shared.as_deref(), &mut out);
    let sent = of.host.rt().block_on(work).map_err(|e| e.to_string())?;
    sent.map_err(|error| format!("{}: {error}", args.volume.display()))?;
    check()?;
    put(writer.end())?;
    to.flush().map_err(not_written)?;
    drop(to);
    sending.finish();
    if let Some(file) = &file {
        file.sync_all().map_err(not_written)?;
    }
    Ok(writer.totals())
}
