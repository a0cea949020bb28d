//! Results as rows, for commands whose report is a text.

use serde::Serialize;
use twin_report::Report;

use crate::cli::Output;

/// Prints rows in the form that was asked for; `table` makes the one for people.
///
/// # Errors
/// If standard output fails, or `table` does.
pub(crate) fn print<T: Serialize>(
    output: &Output,
    rows: &[T],
    table: impl FnOnce() -> Result<String, String>,
) -> Result<(), String> {
    let command = std::env::args().nth(1).unwrap_or_default();
    let report = Report::plain(format!("twinfs {command}"), table()?, rows);
    crate::cmd::print(output, None, &report)
}
