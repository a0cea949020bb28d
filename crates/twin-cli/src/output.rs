//! How results are printed: the same arguments for every command that prints some.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

/// The form of results on standard output.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// For people.
    #[default]
    Table,
    /// An array with one object for each row, with all figures.
    Json,
    /// The same objects, one a line.
    Jsonl,
    /// Comma-separated values below a line of names, as in RFC 4180.
    Csv,
    /// A page of its own, with charts where there are some.
    Html,
}

/// The arguments of commands that print results.
#[derive(Args, Clone, Debug)]
pub struct Output {
    /// The form of the results. In JSON and CSV, names contain the units and numbers are plain.
    #[arg(
        help_heading = "Results",
        long,
        value_enum,
        default_value = "table",
        value_name = "FORMAT",
        hide_possible_values = false
    )]
    format: Format,
    /// The same as --format json.
    #[arg(help_heading = "Results", long, conflicts_with = "format")]
    json: bool,
    /// Also write a self-contained HTML page, which needs no network and no script.
    #[arg(help_heading = "Results", long, value_name = "FILE")]
    pub html: Option<PathBuf>,
    /// Also write the rows to this file as Parquet, with the columns of CSV and their types.
    #[arg(help_heading = "Results", long, value_name = "FILE")]
    pub parquet: Option<PathBuf>,
}

impl Output {
    /// The chosen form.
    pub fn format(&self) -> Format {
        if self.json { Format::Json } else { self.format }
    }

    /// True if results are for people at a terminal.
    pub fn is_table(&self) -> bool {
        self.format() == Format::Table
    }

    /// True if results are comma-separated values.
    pub fn is_csv(&self) -> bool {
        self.format() == Format::Csv
    }

    /// True if a page is made.
    pub fn has_page(&self) -> bool {
        self.format() == Format::Html || self.html.is_some()
    }
}
