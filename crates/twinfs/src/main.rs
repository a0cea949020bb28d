//! The program `twinfs`: see the library of that name.

use std::process::ExitCode;

fn main() -> ExitCode {
    twinfs::main()
}
