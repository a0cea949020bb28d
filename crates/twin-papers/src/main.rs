//! The program `twinfs-reproduce`, which is the command `twinfs reproduce`.

use std::process::ExitCode;

use clap::Parser;
use twin_cli::{Reproduce, carry_out};
use twin_host::Interrupts;

/// As in `twinfs` (`docs/decisions/0037-an-allocator-in-the-programs.md`).
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let args = Reproduce::parse();
    carry_out(Interrupts::listen(), |interrupts| twin_papers::command::run(&args, interrupts))
}
