//! `twinfs reproduce`: a program of its own, since nothing else needs what it is built of.

use twin_cli::{Outcome, programs};
use twin_mount::input::{Wanted, must_be};

use crate::cli::Reproduce;

pub(crate) fn run(args: &Reproduce) -> Outcome {
    // What cannot be read is said before minutes of work, with the command that takes it.
    if let Some(path) = &args.measured {
        must_be(path, Wanted::Results)?;
    }
    programs::take_over("reproduce", "twin-papers")
}
