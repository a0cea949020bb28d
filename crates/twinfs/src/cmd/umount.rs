//! `twinfs umount`.
//!
//! The work is done by a process of its own, for some of it cannot be interrupted: the kernel
//! waits for a daemon that does not answer without asking anybody. The command waits for it for a
//! stated time, and then says what it is at.

use std::io::{BufRead as _, BufReader, Read as _};
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::Duration;

use twin_cli::progress::Progress;
use twin_cli::{Outcome, say};
use twin_host::fuse::{unmount, unmount_telling};
use twin_host::{Late, own_program, within};

use crate::cli::Umount;

pub(crate) fn run(args: &Umount) -> Outcome {
    if args.tell {
        // A reader that has gone is no reason to stop.
        unmount_telling(&args.dir, &mut |what| drop(say(what))).map_err(|e| e.to_string())?;
        return Ok(ExitCode::SUCCESS);
    }
    if args.limit == 0 {
        unmount(&args.dir).map_err(|e| e.to_string())?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut command = Command::new(own_program()?);
    command.args(["umount", "--tell", "--"]).arg(&args.dir).stdin(Stdio::null());
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = command.spawn().map_err(|e| format!("a process for it: {e}"))?;
    let progress = Progress::waiting("data goes to the device");
    let ended = within(Duration::from_secs(args.limit), |tell| finish(child, tell));
    progress.finish();
    match ended {
        Ok(Ok(())) => Ok(ExitCode::SUCCESS),
        Ok(Err(why)) => Err(why.into()),
        Err(Late(last)) => {
            let last = last.as_deref().unwrap_or("a process to start");
            // Everything is written by then: the daemon waits for the kernel, and the kernel for the last mount.
            let held = match last.ends_with(LET_GO) {
                true => ". Another mount namespace, as of a container, may still have the mount",
                false => "",
            };
            Err(format!(
                "{}: not unmounted within {} s. It waits for {last}, and goes on doing so in the \
                 background{held}. To give up what is not on the device, kill that process; what was synced \
                 is there for the next mount",
                args.dir.display(),
                args.limit,
            )
            .into())
        }
    }
}

/// The end of what is told when only the daemon's end is missing.
const LET_GO: &str = "to end";

/// Waits for the end of the work, and tells what it is at.
fn finish(mut child: Child, tell: &dyn Fn(String)) -> Result<(), String> {
    if let Some(pipe) = child.stdout.take() {
        BufReader::new(pipe).lines().map_while(Result::ok).for_each(tell);
    }
    let mut why = String::new();
    if let Some(mut pipe) = child.stderr.take() {
        let _ = pipe.read_to_string(&mut why);
    }
    match child.wait() {
        Ok(status) if status.success() => Ok(()),
        Ok(_) => Err(why.trim().trim_start_matches("twinfs: ").to_string()),
        Err(error) => Err(error.to_string()),
    }
}
