//! Rows for programs: JSON, and comma-separated values (RFC 4180, by the crate `csv`).
//!
//! Contract: a row is an object with named members. Comma-separated values have a line of names and a
//! line a row: members of inner objects are named `outer_inner`, pairs of a name and a number
//! `outer_name`, and other lists are left out, because they do not fit into a line. Names of columns have
//! no spaces. Both forms have plain numbers; units are in the names. A member that a row lacks is empty.
//!
//! Rows may be more than memory holds: then they are a [`Source`], which is read anew for each form, and forms take a
//! row at a time. Only the columns' names are kept between rows.

use std::collections::BTreeMap;
use std::fmt;

use serde_json::Value;

/// Rows that are made when a form asks for them. They must be the same each time.
pub trait Source: fmt::Debug + Send + Sync {
    /// Calls `visit` with each row, in order. A row that cannot be had says why in a member `error`.
    fn each(&self, visit: &mut dyn FnMut(Value));
}

/// Goes through all rows.
pub(crate) type Each<'a> = &'a dyn Fn(&mut dyn FnMut(&Value));

/// A value as JSON, in lines.
pub(crate) fn json(value: &Value) -> String {
    // A value that was made of members is always one.
    serde_json::to_string_pretty(value).unwrap_or_default()
}

/// The rows as JSON, each in a line of its own.
pub(crate) fn json_lines(each: Each<'_>) -> String {
    let mut lines = String::new();
    each(&mut |row| {
        lines.push_str(&row.to_string());
        lines.push('\n');
    });
    lines
}

/// Rows as columns of single values, for tables that know no others.
#[derive(Clone, Debug, PartialEq)]
pub struct Flat {
    /// The names of the columns, in the order in which rows have them.
    pub names: Vec<String>,
    /// The rows: a cell for each column, null where the row has none.
    pub rows: Vec<Vec<Value>>,
}

/// The names of columns, in the order in which rows have them.
#[derive(Debug, Default)]
pub(crate) struct Columns {
    names: Vec<String>,
    places: BTreeMap<String, usize>,
}

impl Columns {
    /// The cells of a row, each at the place of its column; columns that are new come behind the others.
    pub(crate) fn cells(&mut self, row: &Value) -> Vec<Value> {
        let mut named = Vec::new();
        flatten("", row, &mut named);
        let mut cells = vec![Value::Null; self.names.len()];
        for (name, value) in named {
            let place = match self.places.get(&name) {
                Some(&place) => place,
                None => {
                    self.names.push(name.clone());
                    self.places.insert(name, self.names.len() - 1);
                    cells.push(Value::Null);
                    self.names.len() - 1
                }
            };
            if cells[place].is_null() {
                cells[place] = value;
            }
        }
        cells
    }

    pub(crate) fn names(&self) -> &[String] {
        &self.names
    }
}

/// The rows with the members of inner objects as columns; see the contract of this file.
pub fn flat(rows: &[Value]) -> Flat {
    flat_of(&|visit| rows.iter().for_each(visit))
}

pub(crate) fn flat_of(each: Each<'_>) -> Flat {
    let (mut columns, mut rows) = (Columns::default(), Vec::new());
    each(&mut |row| rows.push(columns.cells(row)));
    // Rows before the first that has a column lack it.
    rows.iter_mut().for_each(|row: &mut Vec<Value>| row.resize(columns.names.len(), Value::Null));
    Flat { names: columns.names, rows }
}

/// The rows as comma-separated values, with the line of names if `named`; output that goes on has it
/// once.
pub fn csv(rows: &[Value], named: bool) -> String {
    csv_of(&|visit| rows.iter().for_each(visit), named)
}

pub(crate) fn csv_of(each: Each<'_>, named: bool) -> String {
    // Memory takes all that is written to it.
    records(each, named).unwrap_or_default()
}

/// Goes through the rows twice: the names are known when all have been seen.
fn records(each: Each<'_>, named: bool) -> Result<String, csv::Error> {
    let mut columns = Columns::default();
    each(&mut |row| drop(columns.cells(row)));
    let width = columns.names.len();
    if width == 0 {
        return Ok(String::new());
    }
    let mut writer = csv::Writer::from_writer(Vec::new());
    if named {
        writer.write_record(&columns.names)?;
    }
    let mut outcome = Ok(());
    each(&mut |row| {
        let mut cells = columns.cells(row);
        cells.resize(width, Value::Null);
        if outcome.is_ok() {
            outcome = writer.write_record(cells.iter().map(text_of));
        }
    });
    outcome?;
    let bytes = writer.into_inner().map_err(|error| error.into_error())?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// A single value as text; nothing for none.
pub(crate) fn text_of(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// Adds the cells of a value that is called `name`.
fn flatten(name: &str, value: &Value, cells: &mut Vec<(String, Value)>) {
    let inner = |member: &str| match name.is_empty() {
        true => column(member),
        false => format!("{name}_{}", column(member)),
    };
    match value {
        Value::Object(members) => {
            members.iter().for_each(|(member, value)| flatten(&inner(member), value, cells));
        }
        Value::Array(items) => {
            for item in items {
                if let Some((member, number)) = named_number(item) {
                    cells.push((inner(member), number.clone()));
                }
            }
        }
        single => cells.push((name.to_owned(), single.clone())),
    }
}

/// A name as a column has it.
fn column(name: &str) -> String {
    name.replace([' ', '-'], "_")
}

/// The parts of a list of a name and a number.
fn named_number(item: &Value) -> Option<(&str, &Value)> {
    match item.as_array()?.as_slice() {
        [Value::String(name), number @ Value::Number(_)] => Some((name, number)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn inner_members_get_the_name_of_the_outer_and_lists_are_left_out() {
        let rows = [json!({
            "config": "lfs:cache=8M,disk=\"x\"",
            "latency": { "p50_us": 1.5, "p99_us": 20 },
            "time_s": [["seek", 0.25], ["head switch", 1]],
            "values": [1, 2],
            "rank": null,
            "same": true,
        })];
        let expected = "config,latency_p50_us,latency_p99_us,time_s_seek,time_s_head_switch,rank,same\n\
                        \"lfs:cache=8M,disk=\"\"x\"\"\",1.5,20,0.25,1,,true\n";
        assert_eq!(csv(&rows, true), expected);
    }

    #[test]
    fn a_row_without_a_member_has_an_empty_cell() {
        let rows = [json!({ "a": 1 }), json!({ "b": "two\nlines", "a": 3 })];
        assert_eq!(csv(&rows, true), "a,b\n1,\n3,\"two\nlines\"\n");
        assert_eq!(csv(&rows, false), "1,\n3,\"two\nlines\"\n");
        assert_eq!(csv(&[], true), "");
    }
}
