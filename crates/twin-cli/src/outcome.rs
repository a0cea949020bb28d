//! How commands end.

use std::process::ExitCode;

/// A command's result: the exit status, or what to tell the user.
pub type Outcome = Result<ExitCode, Failure>;

/// Why a command failed: the words for the user, and the exit status.
#[derive(Debug)]
pub struct Failure {
    /// The words.
    pub why: String,
    /// The exit status.
    pub status: u8,
}

/// The exit status of a command line that is wrong, as clap has it.
const USAGE: u8 = 2;

/// The failure of a command line that is wrong, though its grammar is right.
pub fn usage(why: impl std::fmt::Display) -> Failure {
    Failure { why: why.to_string(), status: USAGE }
}

impl From<String> for Failure {
    fn from(why: String) -> Failure {
        Failure { why, status: 1 }
    }
}

impl From<&str> for Failure {
    fn from(why: &str) -> Failure {
        why.to_owned().into()
    }
}
