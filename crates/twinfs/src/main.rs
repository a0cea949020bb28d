//! `twinfs`: make, mount, check and simulate volumes.
//!
//! Each command is a file in [`cmd`]; [`cli`] says what they are called and what they take. All
//! work is done in the libraries below.

mod choices;
mod cli;
mod cmd;
mod size;

use twin_mount::input;

use std::process::ExitCode;

use clap::Parser;

fn main() -> ExitCode {
    let command = cli::Cli::parse().command;
    let interrupts = match cmd::serves(&command) {
        true => Ok(cmd::Interrupts::default()),
        false => cmd::Interrupts::listen(),
    };
    let outcome = match &interrupts {
        Ok(interrupts) => cmd::run(command, interrupts),
        Err(why) => Err(why.as_str().into()),
    };
    // What failed after an interrupt failed because of it.
    if let Some(status) = interrupts.ok().and_then(|interrupts| interrupts.status()) {
        eprintln!("twinfs: interrupted");
        return ExitCode::from(status);
    }
    match outcome {
        Ok(code) => code,
        Err(failure) => {
            eprintln!("twinfs: {}", failure.why);
            ExitCode::from(failure.status)
        }
    }
}
