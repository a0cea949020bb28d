//! Tables: named columns and rows of cells, each a value with the text that people read.
//!
//! Contract: a cell's value is a plain number or text, in the unit that [`Cell`] names; programs get the
//! value under the column's name with the unit behind it, and people get the text.

use serde_json::{Map, Value};

use crate::units::{self, duration, mib};

/// A cell of a table.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Cell {
    /// What people read; it may have several lines.
    pub text: String,
    /// What programs read.
    pub value: Value,
    /// The unit of the value, as names of figures end; empty for none.
    unit: &'static str,
}

impl Cell {
    /// A value that is shown as this text.
    pub fn new(value: impl Into<Value>, unit: &'static str, text: String) -> Cell {
        Cell { text, value: value.into(), unit }
    }

    /// The value of a figure that there may not be.
    pub fn or_dash<T>(value: Option<T>, cell: impl FnOnce(T) -> Cell) -> Cell {
        value.map_or_else(|| Cell { text: "-".into(), ..Cell::default() }, cell)
    }
}

/// A time in microseconds, in a unit that people can take in.
pub fn micros(us: f64) -> Cell {
    Cell::new(us, "us", duration(us))
}

/// A time in seconds, in a unit that people can take in.
pub fn seconds(s: f64) -> Cell {
    Cell::new(s, "s", duration(s * 1e6))
}

/// An amount in bytes, in mebibytes for people.
pub fn bytes(bytes: u64) -> Cell {
    Cell::new(bytes, "bytes", mib(bytes))
}

/// A share from 0 to 1, in percent for people.
pub fn percent(share: f64) -> Cell {
    Cell::new(share, "share", format!("{:.1}%", share * 100.0))
}

/// A number with so many digits behind the point for people.
pub fn fixed(value: f64, digits: usize) -> Cell {
    Cell::new(value, "", format!("{value:.digits$}"))
}

/// A number with the digits that matter for people.
pub fn figure(value: f64) -> Cell {
    Cell::new(value, "", units::figure(value))
}

impl From<&str> for Cell {
    fn from(text: &str) -> Cell {
        Cell::new(text, "", text.to_owned())
    }
}

impl From<String> for Cell {
    fn from(text: String) -> Cell {
        Cell::new(text.as_str(), "", text.clone())
    }
}

impl From<&String> for Cell {
    fn from(text: &String) -> Cell {
        text.as_str().into()
    }
}

macro_rules! counts {
    ($($number:ty),*) => {
        $(impl From<$number> for Cell {
            fn from(count: $number) -> Cell {
                Cell::new(count, "", count.to_string())
            }
        })*
    };
}

counts!(u32, u64, usize);

/// A row of cells from values that convert to them.
#[macro_export]
macro_rules! cells {
    ($($cell:expr),* $(,)?) => { vec![$($crate::table::Cell::from($cell)),*] };
}

/// A table. Its first columns name the rows.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Table {
    pub(crate) columns: Vec<String>,
    pub(crate) rows: Vec<Vec<Cell>>,
    /// The number of columns that name the rows.
    pub(crate) labels: usize,
    /// On a terminal that is too narrow, the columns that stay; the last ones beyond give way. `None`:
    /// those without room go to further tables below.
    pub(crate) staying: Option<usize>,
}

impl Table {
    /// A table without rows whose first `labels` columns name them.
    pub fn new<T: Into<String>>(columns: impl IntoIterator<Item = T>, labels: usize) -> Table {
        let columns = columns.into_iter().map(Into::into).collect();
        Table { columns, labels, ..Table::default() }
    }

    /// The same with these rows.
    pub fn with(self, rows: impl IntoIterator<Item = Vec<Cell>>) -> Table {
        Table { rows: rows.into_iter().collect(), ..self }
    }

    /// The same whose columns behind the first `staying` give way on a narrow terminal.
    pub fn giving_way(self, staying: usize) -> Table {
        Table { staying: Some(staying), ..self }
    }

    /// Adds a row.
    pub fn push(&mut self, row: Vec<Cell>) {
        self.rows.push(row);
    }

    /// Adds a column behind the others, with a cell for each row.
    pub fn add_column(&mut self, name: &str, cells: impl IntoIterator<Item = Cell>) {
        self.columns.push(name.into());
        self.rows.iter_mut().zip(cells).for_each(|(row, cell)| row.push(cell));
    }

    /// True if it has no rows.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// The texts of the rows, under the names of the columns.
    pub(crate) fn texts(&self) -> Vec<Vec<String>> {
        let row = |row: &Vec<Cell>| row.iter().map(|cell| cell.text.clone()).collect();
        std::iter::once(self.columns.clone()).chain(self.rows.iter().map(row)).collect()
    }

    /// The table in Markdown, for documents.
    pub fn markdown(&self) -> String {
        let line = |cells: Vec<String>| format!("| {} |", cells.join(" | "));
        let mut lines: Vec<String> = self.texts().into_iter().map(line).collect();
        lines.insert(1, format!("|{}", "---|".repeat(self.columns.len())));
        lines.join("\n")
    }

    /// The rows for programs: an object each.
    pub(crate) fn values(&self) -> Vec<Value> {
        let row = |row: &Vec<Cell>| {
            let members = self.columns.iter().zip(row).map(|(column, cell)| {
                let name = [column.as_str(), cell.unit].join(" ").trim().replace([' ', '-'], "_");
                (name.replace([',', '.', '%'], "").to_lowercase(), cell.value.clone())
            });
            Value::Object(members.collect::<Map<String, Value>>())
        };
        self.rows.iter().map(row).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn programs_get_plain_numbers_under_names_with_units_and_people_get_units() {
        let mut table = Table::new(["disk", "mean wait", "reads", "write cost"], 1);
        let cost = Cell::or_dash(None::<f64>, |cost| fixed(cost, 2));
        table.push(cells!["d0", micros(12_500.0), 7_u64, cost]);
        let expected =
            json!({ "disk": "d0", "mean_wait_us": 12500.0, "reads": 7, "write_cost": null });
        assert_eq!(table.values(), [expected]);
        assert_eq!(table.texts()[1], ["d0", "12.5 ms", "7", "-"]);
        let lines = "| disk | mean wait | reads | write cost |\n|---|---|---|---|\n| d0 | 12.5 ms | 7 | - |";
        assert_eq!(table.markdown(), lines);
    }
}
