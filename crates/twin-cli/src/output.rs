//! How results are printed: the same arguments for every command that prints some.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

/// The form of results on standard output.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// For people.
    #[default]
    Table,
    /// An array with an object a row, all figures.
    Json,
    /// Comma-separated values under a line of names, as in RFC 4180.
    Csv,
    /// A page of its own, with charts where there are some.
    Html,
}

/// The arguments of commands that print results.
#[derive(Args, Clone, Debug)]
pub struct Output {
    /// How results are printed: for people, as JSON, as comma-separated values or as a page. Names of
    /// figures carry the units, and numbers are plain.
    #[arg(
        long,
        value_enum,
        default_value = "table",
        value_name = "FORMAT",
        hide_possible_values = false
    )]
    format: Format,
    /// The same as --format json.
    #[arg(long, conflicts_with = "format")]
    json: bool,
    /// Write the page to this file too. It needs no network and no script.
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
}

impl Output {
    /// The form that was chosen.
    pub fn format(&self) -> Format {
        if self.json { Format::Json } else { self.format }
    }

    /// True if results are for people at a terminal.
    pub fn is_table(&self) -> bool {
        self.format() == Format::Table
    }

    /// True if a page is made.
    pub fn has_page(&self) -> bool {
        self.format() == Format::Html || self.html.is_some()
    }
}
