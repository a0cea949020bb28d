//! The commands, a file each.

mod compare;
mod mkfs;
mod mount;
mod umount;

use std::process::ExitCode;

use crate::cli::Command;

/// A command's result: the exit status, or what to tell the user.
pub(crate) type Outcome = Result<ExitCode, String>;

/// Runs a command.
pub(crate) fn run(command: Command) -> Outcome {
    match command {
        Command::Mkfs(args) => mkfs::run(&args),
        Command::Mount(args) => mount::run(args),
        Command::Umount(args) => umount::run(&args),
        Command::Compare(args) => compare::run(&args),
    }
}

/// Random bytes from the host: for identifiers and seeds, which no run may share.
pub(crate) fn random_bytes() -> Result<[u8; 16], String> {
    let mut bytes = [0; 16];
    let flags = rustix::rand::GetRandomFlags::empty();
    match rustix::rand::getrandom(&mut bytes, flags) {
        Ok(16) => Ok(bytes),
        Ok(_) => Err("the host has no random numbers".into()),
        Err(error) => Err(format!("random numbers: {error}")),
    }
}
