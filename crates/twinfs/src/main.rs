//! The program `twinfs`: see the library of that name.

use std::process::ExitCode;

/// Half of what a simulated mail load took was the C library's allocator
/// (`docs/decisions/0037-an-allocator-in-the-programs.md`).
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    twinfs::main()
}
