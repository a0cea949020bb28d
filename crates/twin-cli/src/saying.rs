//! How commands print lines, and how a process ends with them.

use std::process::ExitCode;

use twin_host::Interrupts;

use crate::call::Call;
use crate::outcome::Outcome;

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
    ExitCode::from(status_of(interrupts, command))
}

/// The same as a number, for a process that another program ends.
pub fn status_of(
    interrupts: Result<Interrupts, String>,
    command: impl FnOnce(&Interrupts) -> Outcome,
) -> u8 {
    let outcome = match &interrupts {
        Ok(interrupts) => command(interrupts),
        Err(why) => Err(why.as_str().into()),
    };
    // What failed after an interrupt failed because of it.
    if let Some(status) = interrupts.ok().and_then(|interrupts| interrupts.status()) {
        twin_host::note!("twinfs: interrupted");
        return status;
    }
    match outcome {
        // Commands succeed or fail; other statuses are those of failures with words.
        Ok(code) => u8::from(code != ExitCode::SUCCESS),
        Err(failure) => {
            twin_host::note!("twinfs: {}", failure.why);
            failure.status
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_call_prints_goes_to_the_call() {
        let call = Call::new(vec!["compare".into()]);
        let outcome = call.carry_out(|_| {
            say("two lines\nof text")?;
            twin_host::note!("a note");
            Err("no such disk".into())
        });
        assert_eq!(outcome.unwrap_err().why, "no such disk");
        let said = call.said();
        assert_eq!(
            (said.text.as_str(), said.notes.join("|")),
            ("two lines\nof text\n", "a note".into())
        );
        assert!(Call::current().is_none() && call.said().text.is_empty());
    }
}
