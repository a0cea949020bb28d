//! `twinfs fork`: the state of a mounted volume at one instant as an image.

use std::process::ExitCode;

use twin_ageing::fork::{Closed, Twin};
use twin_cli::progress::Progress;
use twin_cli::{Outcome, say};
use twin_host::{Interrupts, NewFile};
use twin_lab::SimulateError;
use twin_mount::client::{FrozenVolume, MountClient};
use twin_mount::image_volume::write_twin;

use crate::cli::Fork;
use crate::size::Size;

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
    let written = write_twin(&file, &twin);
    let bytes = written.map_err(|why| format!("{}: {why}", args.to.display()))?;
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
