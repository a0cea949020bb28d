//! Reports in the form that was asked for.
//!
//! Contract: the file of a page is opened before any work, so that one that cannot be written is told
//! before minutes are spent.

use std::sync::Arc;

use twin_host::{Interrupts, Page};
use twin_report::{Form, Report};

use crate::call::Call;
use crate::outcome::say;
use crate::output::{Format, Output};
use crate::terminal::terminal_width;

/// Where a report goes: to standard output or to the call that asked for it, and to a page if there is to be one.
pub struct Printer {
    call: Option<Arc<Call>>,
    form: Form,
    page: Option<Page>,
}

impl Printer {
    /// What the arguments ask for.
    ///
    /// # Errors
    /// If the page cannot be written.
    pub fn of(output: &Output, interrupts: &Interrupts) -> Result<Printer, String> {
        let form = match output.format() {
            Format::Table => Form::Terminal(terminal_width()),
            Format::Json => Form::Json,
            Format::Jsonl => Form::JsonLines,
            Format::Csv => Form::Csv,
            Format::Html => Form::Html,
        };
        let page = output.html.as_deref().map(|path| Page::open(path, interrupts)).transpose()?;
        Ok(Printer { call: Call::current(), form, page })
    }

    /// Prints a report.
    ///
    /// # Errors
    /// If standard output or the page cannot be written.
    pub fn print(&mut self, report: &Report) -> Result<(), String> {
        self.write_page(report)?;
        if let Some(call) = &self.call {
            call.report(report);
            return Ok(());
        }
        let text = report.write(self.form);
        // Nothing is no line of its own.
        if text.is_empty() { Ok(()) } else { say(text.trim_end()) }
    }

    /// Gives the page up: what was made for it is removed.
    pub(crate) fn drop_page(&mut self) {
        self.page = None;
    }

    /// Writes the page alone, if there is to be one.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn write_page(&mut self, report: &Report) -> Result<(), String> {
        self.page.take().map_or(Ok(()), |page| page.write(&report.write(Form::Html)))
    }
}
