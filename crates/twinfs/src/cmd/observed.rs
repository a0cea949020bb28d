//! What observers have seen of a simulated run, in words and as rows.

use serde_json::Value;
use twin_lab::observe::{Observed, Row, rows as all_rows, table};

use super::terminal::terminal_width;

/// A table under the name of the run, with `intervals` of each interval too; nothing if nobody
/// observed.
pub(super) fn text(all: &[Observed], name: &str, intervals: bool) -> String {
    match all {
        [] => String::new(),
        all => format!("Observed of {name}:\n{}", table(all, intervals, terminal_width())),
    }
}

/// Rows of comma-separated values, each with the name of the run in `column`.
///
/// # Errors
/// If a row cannot be converted.
pub(super) fn rows(all: &[Observed], column: &str, name: &str) -> Result<Vec<Value>, String> {
    let named = |row: Row| {
        let mut row = serde_json::to_value(row).map_err(|error| error.to_string())?;
        row[column] = name.into();
        Ok(row)
    };
    all_rows(all).into_iter().map(named).collect()
}
