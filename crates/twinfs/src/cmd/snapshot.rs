//! `twinfs snapshot`: the map of a file system as a file. The states of a volume are in
//! [`states`](super::states).

use std::io::Write;
use std::process::ExitCode;

use twin_age::snapshot;
use twin_cli::progress::Shown;
use twin_cli::{Outcome, say, usage};
use twin_host::{Interrupts, NewFile};
use twin_mount::source_map::map_of_source;

use crate::cli::Snapshot;
use crate::size::Size;

pub(crate) fn run(args: &Snapshot, interrupts: &Interrupts) -> Outcome {
    if let Some(command) = &args.states {
        return super::states::run(command, interrupts);
    }
    let (Some(to), Some(what)) = (&args.to, &args.what) else {
        return Err(usage("--output and what is to be written down are needed"));
    };
    let new = NewFile::make(to, interrupts)?;
    let mut map = map_of_source(what, interrupts, &Shown)?;
    if map.taken_s == 0 {
        map.taken_s = now_s();
    }
    let in_file = |why: &dyn std::fmt::Display| format!("{}: {why}", to.display());
    let bytes = snapshot::encode(&map, args.names).map_err(|error| in_file(&error))?;
    let mut file = new.handle()?;
    file.write_all(&bytes).and_then(|()| file.sync_all()).map_err(|error| in_file(&error))?;
    new.keep();
    say(format!(
        "{}: {} files and directories of {}, {}",
        to.display(),
        map.files.len(),
        what.display(),
        Size(bytes.len() as u64)
    ))?;
    for problem in &map.problems {
        twin_host::note!("twinfs: {problem}");
    }
    Ok(if map.problems.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Seconds since 1970.
fn now_s() -> i64 {
    rustix::time::clock_gettime(rustix::time::ClockId::Realtime).tv_sec
}
