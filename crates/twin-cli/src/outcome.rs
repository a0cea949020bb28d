//! How commands end, and how they print.

use std::process::ExitCode;

use twin_host::Interrupts;

use crate::call::Call;

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

/// Prints a line. A reader that has gone (`| head`) is no error.
///
/// # Errors
/// If standard output fails otherwise.
pub fn say(text: impl std::fmt::Display) -> Result<(), String> {
    say_to_reader(text).map(drop)
}

/// Prints a line. Returns false if the reader has gone: whoever would go on for ever ends then.
///
/// # Errors
/// As [`say`].
pub fn say_to_reader(text: impl std::fmt::Display) -> Result<bool, String> {
    use std::io::Write;
    if let Some(call) = Call::current() {
        call.line(&text.to_string());
        return Ok(true);
    }
    let mut out = std::io::stdout().lock();
    match writeln!(out, "{text}").and_then(|()| out.flush()) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(false),
        Err(error) => Err(format!("standard output: {error}")),
    }
}

/// Carries a command out and gives the exit status of its process; what failed is said on standard error.
pub fn carry_out(
    interrupts: Result<Interrupts, String>,
    command: impl FnOnce(&Interrupts) -> Outcome,
) -> ExitCode {
    let outcome = match &interrupts {
        Ok(interrupts) => command(interrupts),
        Err(why) => Err(why.as_str().into()),
    };
    // What failed after an interrupt failed because of it.
    if let Some(status) = interrupts.ok().and_then(|interrupts| interrupts.status()) {
        twin_host::note!("twinfs: interrupted");
        return ExitCode::from(status);
    }
    match outcome {
        Ok(code) => code,
        Err(failure) => {
            twin_host::note!("twinfs: {}", failure.why);
            ExitCode::from(failure.status)
        }
    }
}
