//! What commands report, in the forms in which people and programs read it.
//!
//! Contract: a command makes one [`Report`], and a [`Form`] of it is written without asking the command
//! again: a table for the terminal, JSON, comma-separated values or a page. The crate knows nothing of
//! file systems.
//!
//! Main types: [`Report`] with its [`Part`]s, [`Table`] of [`Cell`](table::Cell)s; [`draw`] makes
//! charts. Start at [`Report`].
//!
//! ```
//! use twin_report::{Form, Report, Table, cells, table::micros};
//!
//! let mut report = Report::new("Waits");
//! report.add("The first disk waits longest.");
//! report.add(Table::new(["disk", "mean wait"], 1).with([cells!["d0", micros(1500.0)]]));
//! assert!(report.write(Form::Terminal(Some(80))).contains("1500 us"));
//! assert_eq!(report.write(Form::Csv), "disk,mean_wait_us\nd0,1500.0\n");
//! ```

mod columns;
pub mod draw;
mod html;
mod markdown;
pub mod markup;
mod parquet_file;
mod report;
pub mod rows;
pub mod schema;
mod style;
pub mod table;
mod terminal;
pub mod units;

pub use report::{Part, Report, SCHEMA, value};
pub use table::Table;

/// The form in which a report is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// For people, in lines of so many characters if that is known.
    Terminal(Option<u16>),
    /// Of an answer one object with the verdict and the rows; otherwise an array with an object a row, or one
    /// object.
    Json,
    /// A row a line, each an object in JSON.
    JsonLines,
    /// A line of names and a line a row.
    Csv,
    /// A page of its own, with charts.
    Html,
    /// A document, without charts.
    Markdown,
}

impl Report {
    /// The report in a form.
    pub fn write(&self, form: Form) -> String {
        match form {
            Form::Terminal(width) => terminal::write(self, width),
            Form::Json => rows::json(&self.whole()),
            Form::JsonLines => rows::json_lines(&|visit| self.each_row(visit)),
            Form::Csv => rows::csv_of(&|visit| self.each_row(visit), true),
            Form::Html => html::write(self),
            Form::Markdown => markdown::write(self),
        }
    }

    /// The rows as columns of single values, those of comma-separated values.
    pub fn flat(&self) -> rows::Flat {
        rows::flat_of(&|visit| self.each_row(visit))
    }

    /// The first part of the page, as markup for a document that holds several: a notebook.
    pub fn first_part(&self) -> String {
        html::first_part(self)
    }

    /// The rows as the bytes of a Parquet file, with the columns of comma-separated values.
    ///
    /// # Errors
    /// If a name cannot be that of a column.
    pub fn parquet(&self) -> Result<Vec<u8>, String> {
        let file = parquet_file::file(&|visit| self.each_row(visit));
        file.map_err(|error| format!("Parquet: {error}"))
    }
}
