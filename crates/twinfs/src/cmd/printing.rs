//! Reports on standard output in the form that was asked for, and as a page in a file.

use twin_report::{Form, Report};

use super::files::Page;
use super::say;
use super::terminal::terminal_width;
use crate::cli::{Format, Output};

/// Prints a report, and writes it to the page if there is one.
///
/// # Errors
/// If standard output or the page cannot be written.
pub(crate) fn print(output: &Output, page: Option<Page>, report: &Report) -> Result<(), String> {
    if let Some(page) = page {
        page.write(&report.write(Form::Html))?;
    }
    let text = report.write(match output.format() {
        Format::Table => Form::Terminal(terminal_width()),
        Format::Json => Form::Json,
        Format::Csv => Form::Csv,
        Format::Html => Form::Html,
    });
    // Nothing is no line of its own.
    if text.is_empty() { Ok(()) } else { say(text.trim_end()) }
}
