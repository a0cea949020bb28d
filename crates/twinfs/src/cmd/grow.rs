//! `twinfs grow`: of an image or of a mount.
//!
//! Contract: the volume changes its size, in this process or in that of the mount; this command says so.

use std::process::ExitCode;

use serde_json::json;
use twin_cli::progress::Shown;
use twin_cli::{Outcome, Printer};
use twin_fs::{Growth, LayoutKind, NO_GROWTH};
use twin_host::Interrupts;
use twin_mount::answers::{Question, why_not_grown};
use twin_mount::client::MountClient;
use twin_mount::image::must_be_log;
use twin_mount::kept_states::mount_at;
use twin_mount::media;
use twin_mount::opening::{OpenOptions, Opened, open_with_note};
use twin_report::Report;

use crate::cli::Grow;
use crate::size::Size;

pub(crate) fn run(args: &Grow, interrupts: &Interrupts) -> Outcome {
    let mut printer = Printer::of(&args.output, interrupts)?;
    let volume = args.volume.display();
    let bytes = args.size.map(|size| size.0);
    let Growth { before_bytes, after_bytes } = match mount_at(&args.volume)? {
        Some(mount) => by_mount(&mount, bytes)?,
        None => by_image(args, must_be_log(&args.volume, NO_GROWTH)?, bytes)?,
    };
    let text = format!("{volume}: {} now, {} before", Size(after_bytes), Size(before_bytes));
    let row = json!({
        "volume": volume.to_string(),
        "before_bytes": before_bytes,
        "after_bytes": after_bytes,
    });
    printer.print(&Report::plain("Size of the volume", text, [row]))?;
    Ok(ExitCode::SUCCESS)
}

fn by_mount(mount: &MountClient, bytes: Option<u64>) -> Result<Growth, String> {
    let (answer, _) = mount.ask(Question::Grow { bytes })?;
    let number = |name: &str| answer[name].as_u64().unwrap_or_default();
    Ok(Growth { before_bytes: number("before_bytes"), after_bytes: number("after_bytes") })
}

fn by_image(
    args: &Grow,
    kind: &'static dyn LayoutKind,
    bytes: Option<u64>,
) -> Result<Growth, String> {
    let options = OpenOptions::of(kind);
    let Opened { host, volume, below, .. } = open_with_note(&args.volume, options, &Shown)?;
    let work = async {
        let grown = volume.grow(bytes).await;
        volume.close().await.map_err(|error| error.to_string())?;
        grown.map_err(|error| why_not_grown(&error))
    };
    let done = host.rt().block_on(work).map_err(|e| e.to_string())?;
    media::end(&host, below.close)?;
    done.map_err(|why| format!("{}: {why}", args.volume.display()))
}
