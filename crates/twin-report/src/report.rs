//! A report: what a command found, once, for every form in which it is written.
//!
//! Contract: what people read are parts in order, each for the terminal, for pages or for both. What
//! programs read are rows, or one object that holds all; without either, the rows of the tables. A report
//! is a value: it is made of figures, and printing it changes nothing.

use serde::Serialize;
use serde_json::{Value, json};

use crate::draw::Colour;
use crate::table::Table;

/// A part of a report that people read.
#[derive(Clone, Debug, PartialEq)]
pub enum Part {
    /// The answer, a sentence or more a line, and what it was judged by.
    Verdict(String, String),
    /// A title on a page, in the colour of what it is about.
    Heading(Option<Colour>, String),
    /// A paragraph a line.
    Text(String),
    /// Something that went wrong, a paragraph a line.
    Failure(String),
    /// Names with their colours on a page, each with a remark.
    Names(Vec<(Colour, String, String)>),
    /// Words that may be broken between lines at spaces, as settings.
    Words(String),
    /// Lines as they are, in letters of one width.
    Lines(String),
    /// A table; without rows, nothing.
    Table(Table),
    /// Charts side by side, drawn.
    Charts(Vec<String>),
}

impl Part {
    /// A title of a section of the page.
    pub fn heading(text: impl Into<String>) -> Part {
        Part::Heading(None, text.into())
    }
}

impl From<&str> for Part {
    fn from(text: &str) -> Part {
        Part::Text(text.into())
    }
}

impl From<String> for Part {
    fn from(text: String) -> Part {
        Part::Text(text)
    }
}

impl From<Table> for Part {
    fn from(table: Table) -> Part {
        Part::Table(table)
    }
}

impl From<Vec<String>> for Part {
    fn from(charts: Vec<String>) -> Part {
        Part::Charts(charts)
    }
}

/// Where a part is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shown {
    Everywhere,
    Terminal,
    Page,
}

/// What a command found.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Report {
    pub(crate) title: String,
    parts: Vec<(Shown, Part)>,
    rows: Vec<Value>,
    whole: Option<Value>,
}

impl Report {
    /// An empty report. The title is that of the page.
    pub fn new(title: impl Into<String>) -> Report {
        Report { title: title.into(), ..Report::default() }
    }

    /// A report that people read as lines of text, and programs as rows.
    pub fn plain<T: Serialize>(
        title: impl Into<String>,
        text: impl Into<String>,
        rows: impl IntoIterator<Item = T>,
    ) -> Report {
        let mut report = Report::new(title);
        report.add(Part::Lines(text.into()));
        report.add_rows(rows);
        report
    }

    /// Adds a part for people.
    pub fn add(&mut self, part: impl Into<Part>) {
        self.parts.push((Shown::Everywhere, part.into()));
    }

    /// Adds a part that only the terminal shows.
    pub fn on_terminal(&mut self, part: impl Into<Part>) {
        self.parts.push((Shown::Terminal, part.into()));
    }

    /// Adds a part that only pages show.
    pub fn on_page(&mut self, part: impl Into<Part>) {
        self.parts.push((Shown::Page, part.into()));
    }

    /// Adds a section to the page, if it has content.
    pub fn section(&mut self, title: &str, content: impl IntoIterator<Item = Part>) {
        let mut content = content.into_iter().peekable();
        if content.peek().is_some() {
            self.on_page(Part::heading(title));
            content.for_each(|part| self.on_page(part));
        }
    }

    /// Adds rows for programs.
    pub fn add_rows<T: Serialize>(&mut self, rows: impl IntoIterator<Item = T>) {
        self.rows.extend(rows.into_iter().map(value));
    }

    /// The rows that were added.
    pub fn rows_mut(&mut self) -> &mut Vec<Value> {
        &mut self.rows
    }

    /// Sets what JSON has in place of an array of the rows.
    pub fn set_json<T: Serialize>(&mut self, whole: T) {
        self.whole = Some(value(whole));
    }

    /// Changes each row in JSON alone.
    pub fn change_json(&mut self, change: impl FnMut(&mut Value)) {
        let mut rows = self.rows();
        rows.iter_mut().for_each(change);
        self.whole = Some(rows.into());
    }

    /// The rows for programs: those that were added, or those of the tables.
    pub(crate) fn rows(&self) -> Vec<Value> {
        let of_tables = || {
            let tables = self.parts.iter().filter_map(|(_, part)| match part {
                Part::Table(table) => Some(table.values()),
                _ => None,
            });
            tables.flatten().collect()
        };
        if self.rows.is_empty() && self.whole.is_none() { of_tables() } else { self.rows.clone() }
    }

    /// All for programs that read JSON.
    pub(crate) fn whole(&self) -> Value {
        self.whole.clone().unwrap_or_else(|| self.rows().into())
    }

    /// The parts that are shown there.
    pub(crate) fn parts(&self, wanted: Shown) -> impl Iterator<Item = &Part> {
        let here =
            move |(shown, _): &&(Shown, Part)| *shown == Shown::Everywhere || *shown == wanted;
        self.parts.iter().filter(here).map(|(_, part)| part)
    }
}

/// A value for programs. What cannot be serialized says why.
pub fn value(of: impl Serialize) -> Value {
    serde_json::to_value(of).unwrap_or_else(|error| json!({ "error": error.to_string() }))
}
