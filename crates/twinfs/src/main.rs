//! `twinfs`: make, mount, check and simulate volumes.
//!
//! Each command is a file in [`cmd`]; [`cli`] says what they are called and what they take. All
//! work is done in the libraries below.

mod choices;
mod cli;
mod cmd;
mod content;
mod size;

use std::process::ExitCode;

use clap::Parser;

fn main() -> ExitCode {
    let cli = cli::Cli::parse();
    match cmd::run(cli.command) {
        Ok(code) => code,
        Err(why) => {
            eprintln!("twinfs: {why}");
            ExitCode::FAILURE
        }
    }
}
