//! `twinfs reproduce`: a program of its own, since nothing else needs what it is built of.

use super::{Outcome, programs};
use crate::cli::Reproduce;
use crate::input::{Wanted, must_be};

pub(crate) fn run(args: &Reproduce) -> Outcome {
    // What cannot be read is said before minutes of work, with the command that takes it.
    if let Some(path) = &args.measured {
        must_be(path, Wanted::Results)?;
    }
    programs::take_over("reproduce", "twin-papers")
}
