//! `twinfs`: make, mount, check and simulate volumes.
//!
//! Each command is a file in `cmd`; `cli` says what they are called and what they take. All work is done in the
//! libraries below. The program itself only calls [`main`], so that it is linked in a moment after this library is
//! built beside the others.

mod choices;
mod cli;
mod cmd;
mod measuring;
mod size;

use std::process::ExitCode;

use clap::Parser;
use twin_cli::carry_out;
use twin_host::Interrupts;
use twin_settings::outside;

/// Carries out the command line of this process.
pub fn main() -> ExitCode {
    twin_host::load_policies();
    let command = cli::Cli::parse().command;
    let interrupts = match cmd::serves(&command) {
        true => Ok(Interrupts::default()),
        false => Interrupts::listen(),
    };
    carry_out(interrupts, |interrupts| {
        let outcome = cmd::run(command, interrupts);
        // A policy from outside that failed makes void whatever was found with it.
        match outside::fault() {
            Some(words) if outcome.is_ok() => Err(words.into()),
            _ => outcome,
        }
    })
}
