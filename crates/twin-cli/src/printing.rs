//! Reports in the form that was asked for.
//!
//! Contract: the file of a page, or of rows, is opened before any work, so that one that cannot be written is told
//! before minutes are spent.

use std::sync::Arc;

use twin_host::{FileKind, Interrupts, Page};
use twin_report::{Form, Report};

use crate::call::Call;
use crate::output::{Format, Output};
use crate::saying::say;
use crate::terminal::terminal_width;

/// Where a report goes: to standard output or to the call that asked for it, and to a page and a file of rows if there
/// are to be some.
pub struct Printer {
    call: Option<Arc<Call>>,
    form: Form,
    page: Option<Page>,
    parquet: Option<Page>,
}

impl Printer {
    /// What the arguments ask for.
    ///
    /// # Errors
    /// If the page or the file of rows cannot be written.
    pub fn of(output: &Output, interrupts: &Interrupts) -> Result<Printer, String> {
        let form = match output.format() {
            Format::Table => Form::Terminal(terminal_width()),
            Format::Json => Form::Json,
            Format::Jsonl => Form::JsonLines,
            Format::Csv => Form::Csv,
            Format::Html => Form::Html,
        };
        let open = |path, kind| Page::open(path, kind, interrupts);
        let page = output.html.as_deref().map(|path| open(path, FileKind::HTML)).transpose()?;
        let parquet =
            output.parquet.as_deref().map(|path| open(path, FileKind::PARQUET)).transpose()?;
        Ok(Printer { call: Call::current(), form, page, parquet })
    }

    /// Prints a report.
    ///
    /// # Errors
    /// If standard output, the page or the file of rows cannot be written.
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

    /// Gives the page and the file of rows up: what was made for them is removed.
    pub(crate) fn drop_page(&mut self) {
        self.page = None;
        self.parquet = None;
    }

    /// Writes the page and the file of rows alone, if there are to be some.
    ///
    /// # Errors
    /// If one cannot be written.
    pub fn write_page(&mut self, report: &Report) -> Result<(), String> {
        if let Some(page) = self.page.take() {
            page.write(report.write(Form::Html).as_bytes())?;
        }
        if let Some(file) = self.parquet.take() {
            file.write(&report.parquet()?)?;
        }
        Ok(())
    }
}
