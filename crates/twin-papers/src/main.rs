//! The program `twinfs-reproduce`, which is the command `twinfs reproduce`.

use std::process::ExitCode;

use clap::Parser;
use twin_cli::{Reproduce, carry_out};
use twin_host::Interrupts;

fn main() -> ExitCode {
    let args = Reproduce::parse();
    carry_out(Interrupts::listen(), |interrupts| twin_papers::command::run(&args, interrupts))
}
