//! `twinfs fork`: the state of a mounted volume at one instant as an image.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::process::ExitCode;

use twin_ageing::fork::{Closed, Twin};
use twin_disk::Block;
use twin_lab::SimulateError;

use super::files::NewFile;
use super::progress::Progress;
use super::{Interrupts, Outcome, say};
use crate::cli::Fork;
use crate::size::Size;
use twin_mount::client::{FrozenVolume, MountClient};

/// Pieces of this many zero bytes become holes.
const HOLE: usize = 4096;

pub(crate) fn run(args: &Fork, interrupts: &Interrupts) -> Outcome {
    let dir = args.dir.display();
    let mount = MountClient::at(&args.dir)?.ok_or_else(|| {
        format!(
            "{dir}: no volume of twinfs is mounted there; the image of one that is not mounted \
                 can be copied"
        )
    })?;
    let new = NewFile::make(&args.to, interrupts)?;
    let waiting = Progress::waiting("the volume is held");
    let instant = mount.freeze(args.keep.0)?;
    waiting.finish();
    let in_mount = |error: SimulateError| format!("{dir}: {error}");
    let FrozenVolume { host, kind, device, held_ns, .. } = instant;
    let closed = Closed::of(host.rt(), kind, device).map_err(in_mount)?;
    let bar = Progress::of("checked", 1);
    let twin = Twin::of(&closed, &mut |done, total| bar.set(done, total)).map_err(in_mount)?;
    bar.finish();
    let file = new.handle()?;
    let written = write(&file, &twin)
        .and_then(|bytes| file.sync_all().map(|()| bytes).map_err(NotWritten::from));
    let bytes = written.map_err(|why| format!("{}: {}", args.to.display(), why.0))?;
    new.keep();
    say(format!(
        "{}: {dir} as {} of {}, {} of them copied; operations waited {:.0} ms at most",
        args.to.display(),
        kind.noun(),
        Size(twin.size()),
        Size(bytes),
        held_ns as f64 / 1e6,
    ))?;
    Ok(ExitCode::SUCCESS)
}

/// Why the image could not be written, in words.
struct NotWritten(String);

impl From<SimulateError> for NotWritten {
    fn from(error: SimulateError) -> NotWritten {
        NotWritten(error.to_string())
    }
}

impl From<std::io::Error> for NotWritten {
    fn from(error: std::io::Error) -> NotWritten {
        NotWritten(error.to_string())
    }
}

/// Writes what is not zero; the rest of the file is a hole.
fn write(file: &File, twin: &Twin) -> Result<u64, NotWritten> {
    file.set_len(twin.size())?;
    twin.copy(|at, block: &Block| {
        for (nth, piece) in block.to_bytes().chunks(HOLE).enumerate() {
            if piece.iter().any(|&byte| byte != 0) {
                file.write_all_at(piece, at + (nth * HOLE) as u64)?;
            }
        }
        Ok(())
    })
}
