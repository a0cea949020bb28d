//! A report: what a command found, once, for every form in which it is written.
//!
//! Contract: what people read are parts in order, each for the terminal, for pages or for both. What
//! programs read are rows, or one object that holds all; without either, the rows of the tables. The report
//! of a command that measures or compares is an answer, which begins with its verdict in every form, and
//! has one shape in JSON ([`SCHEMA`]). A report is a value: it is made of figures, and printing it changes
//! nothing.

use std::sync::Arc;

use serde::Serialize;
use serde_json::{Value, json};

use crate::draw::Colour;
use crate::rows::Source;
use crate::table::Table;

/// A part of a report that people read.
#[derive(Clone, Debug, PartialEq)]
pub enum Part {
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
    /// What a page shows on demand, under this title.
    Folded(String, Vec<Part>),
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

/// Rows that are not held. Two are equal if they are the same.
#[derive(Clone, Debug)]
struct Drawn(Arc<dyn Source>);

impl PartialEq for Drawn {
    fn eq(&self, other: &Drawn) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

/// The name and version of the form that answers have in JSON. The version grows when a name of a
/// member goes or changes its meaning; new members do not change it.
pub const SCHEMA: &str = "twinfs-results-1";

/// What a command found.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Report {
    pub(crate) title: String,
    /// The command whose answer it is; none for lists and states, which answer nothing.
    command: Option<&'static str>,
    /// One to three sentences, a line or more, and what they were judged by.
    verdict: (String, String),
    /// Why it is not the whole answer.
    partial: Option<String>,
    parts: Vec<(Shown, Part)>,
    rows: Vec<Value>,
    /// The rows in place of those, if they are too many to be held.
    drawn: Option<Drawn>,
    /// The rows of JSON where they have more than the others.
    in_json: Option<Vec<Value>>,
    whole: Option<Value>,
    /// What the JSON of this answer has beside what all answers have.
    members: Vec<(&'static str, Value)>,
    pub(crate) page: Option<String>,
}

impl Report {
    /// An empty report. The title is that of the page.
    pub fn new(title: impl Into<String>) -> Report {
        Report { title: title.into(), ..Report::default() }
    }

    /// The answer of a command that measures or compares. In every form it begins with its verdict.
    pub fn answer(command: &'static str, title: impl Into<String>) -> Report {
        Report { command: Some(command), ..Report::new(title) }
    }

    /// Sets the verdict, one to three sentences, and what it was judged by.
    pub fn set_verdict(&mut self, verdict: impl Into<String>, about: impl Into<String>) {
        self.verdict = (verdict.into(), about.into());
    }

    /// The verdict, one to three sentences; empty if nothing was judged.
    pub fn verdict_text(&self) -> &str {
        &self.verdict.0
    }

    /// Why it is not the whole answer, if it is not.
    pub fn missing(&self) -> Option<&str> {
        self.partial.as_deref()
    }

    /// What was measured.
    pub fn title(&self) -> &str {
        &self.title
    }

    /// Says in every form that this is not the whole answer, and why.
    pub fn mark_partial(&mut self, why: impl Into<String>) {
        self.partial = Some(why.into());
    }

    /// The verdict and what it was judged by; none if nothing was judged. What is missing comes first.
    pub(crate) fn verdict(&self) -> Option<(String, &str)> {
        let partial = self.partial.as_ref().map(|why| format!("PARTIAL: {why}"));
        let verdict = (!self.verdict.0.is_empty()).then(|| self.verdict.0.clone());
        let lines: Vec<String> = partial.into_iter().chain(verdict).collect();
        (!lines.is_empty()).then(|| (lines.join("\n"), self.verdict.1.as_str()))
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

    /// Sets rows for programs that are made when a form needs them, in place of all others.
    pub fn draw_rows(&mut self, source: Arc<dyn Source>) {
        self.drawn = Some(Drawn(source));
    }

    /// The rows that were added.
    pub fn rows_mut(&mut self) -> &mut Vec<Value> {
        &mut self.rows
    }

    /// Sets what JSON has in place of an array of the rows; of an answer, what it has beside them.
    pub fn set_json<T: Serialize>(&mut self, whole: T) {
        self.whole = Some(value(whole));
    }

    /// Adds a member to the JSON of an answer, for programs that look for its name.
    pub fn add_member<T: Serialize>(&mut self, name: &'static str, of: T) {
        self.members.push((name, value(of)));
    }

    /// Sets the page, where it is made otherwise than of parts.
    pub fn set_page(&mut self, page: String) {
        self.page = Some(page);
    }

    /// Changes each row in JSON alone.
    pub fn change_json(&mut self, change: impl FnMut(&mut Value)) {
        let mut rows = self.rows();
        rows.iter_mut().for_each(change);
        self.in_json = Some(rows);
    }

    /// The rows for programs: those that were added, or those of the tables. Where something is missing,
    /// each says so.
    pub(crate) fn rows(&self) -> Vec<Value> {
        let mut rows = Vec::new();
        self.each_row(&mut |row| rows.push(row.clone()));
        rows
    }

    /// Goes through the [rows](Self::rows).
    pub(crate) fn each_row(&self, visit: &mut dyn FnMut(&Value)) {
        let mut visit_marked = |mut row: Value| {
            if self.partial.is_some()
                && let Some(members) = row.as_object_mut()
            {
                members.insert("is_partial".into(), true.into());
            }
            visit(&row);
        };
        match &self.drawn {
            Some(Drawn(source)) => source.each(&mut visit_marked),
            None => self.held_rows().into_iter().for_each(visit_marked),
        }
    }

    fn held_rows(&self) -> Vec<Value> {
        let of_tables = || {
            let tables = self.parts.iter().filter_map(|(_, part)| match part {
                Part::Table(table) => Some(table.values()),
                _ => None,
            });
            tables.flatten().collect()
        };
        if self.rows.is_empty() && self.whole.is_none() { of_tables() } else { self.rows.clone() }
    }

    /// All for programs that read JSON: of an answer the verdict with the rows, and otherwise the rows.
    pub(crate) fn whole(&self) -> Value {
        let rows = || Value::from(self.in_json.clone().unwrap_or_else(|| self.rows()));
        let Some(command) = self.command else {
            return self.whole.clone().unwrap_or_else(rows);
        };
        let mut answer = json!({
            "schema": SCHEMA,
            "command": command,
            "title": self.title,
            "verdict": self.verdict.0,
            "judged_by": self.verdict.1,
            "partial": self.partial,
            "rows": rows(),
        });
        if let Some(details) = &self.whole {
            answer["details"] = details.clone();
        }
        for (name, of) in &self.members {
            answer[*name] = of.clone();
        }
        answer
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Form, cells};

    fn answer() -> Report {
        let mut report = Report::answer("cache", "Waits");
        report.add(Table::new(["disk"], 1).with([cells!["d0"]]));
        report.set_verdict("The first waits longest.", "By time.");
        report
    }

    #[test]
    fn an_answer_begins_with_its_verdict_in_every_form_for_people() {
        let report = answer();
        assert!(report.write(Form::Terminal(None)).starts_with("The first waits longest.\n"));
        assert!(report.write(Form::Markdown).starts_with("# Waits\n\nThe first waits longest."));
        let page = report.write(Form::Html);
        assert!(page.find("The first").unwrap() < page.find("<table").unwrap(), "{page}");
    }

    #[test]
    fn an_answer_is_one_object_with_the_rows_of_the_other_forms() {
        let mut report = answer();
        report.change_json(|row| row["more"] = 1.into());
        let whole = report.whole();
        assert_eq!(whole["schema"], SCHEMA);
        assert_eq!(whole["verdict"], "The first waits longest.");
        assert_eq!(whole["rows"], json!([{ "disk": "d0", "more": 1 }]));
        assert!(whole["partial"].is_null() && whole.get("details").is_none());
        assert_eq!(report.write(Form::Csv), "disk\nd0\n");
    }

    #[test]
    fn what_is_missing_is_said_in_every_form() {
        let mut report = answer();
        report.mark_partial("1 of 3 runs.");
        let text = report.write(Form::Terminal(None));
        assert!(text.starts_with("PARTIAL: 1 of 3 runs.\nThe first"), "{text}");
        assert!(report.write(Form::Html).contains("PARTIAL"));
        assert_eq!(report.whole()["partial"], "1 of 3 runs.");
        assert_eq!(report.write(Form::Csv), "disk,is_partial\nd0,true\n");
    }
}
