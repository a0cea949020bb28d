//! Results as rows: one way to print them for every command.
//!
//! Contract: a result is a list of rows, each a struct or a map with named members that is serialized. As
//! JSON it is an array with an object a row, whole. As comma-separated values (RFC 4180, by the crate
//! `csv`) it has a line of names and a line a row: members of inner objects are named
//! `outer_inner`, pairs of a name and a number `outer_name`, and other lists are left out, because they do
//! not fit into a line. Both have plain numbers; units are in the names. A member that a row lacks is
//! empty. What people read is up to the command.

use serde::Serialize;
use serde_json::Value;

use crate::outcome::say;
use crate::output::{Format, Output};

/// Prints rows in the form that was asked for; `table` makes the one for people.
///
/// # Errors
/// If standard output fails, or `table` does.
pub fn print<T: Serialize>(
    output: &Output,
    rows: &[T],
    table: impl FnOnce() -> Result<String, String>,
) -> Result<(), String> {
    let text = match output.format() {
        Format::Table => table()?,
        Format::Json => serde_json::to_string_pretty(rows).map_err(|error| error.to_string())?,
        Format::Csv => csv(rows)?,
    };
    // Nothing is no line of its own.
    if text.is_empty() { Ok(()) } else { say(text.trim_end()) }
}

/// Rows as comma-separated values, with the line of names if `names`: for output that goes on.
///
/// # Errors
/// If a row cannot be converted.
pub fn csv_lines<T: Serialize>(rows: &[T], names: bool) -> Result<String, String> {
    let text = csv(rows)?;
    match names {
        true => Ok(text),
        // Names have no line ends in them.
        false => Ok(text.split_once('\n').map_or(String::new(), |(_, rest)| rest.to_owned())),
    }
}

/// The rows as comma-separated values.
fn csv<T: Serialize>(rows: &[T]) -> Result<String, String> {
    let mut names: Vec<String> = Vec::new();
    let mut flat = Vec::with_capacity(rows.len());
    for row in rows {
        let value = serde_json::to_value(row).map_err(|error| error.to_string())?;
        let mut cells = Vec::new();
        flatten("", &value, &mut cells);
        for (name, _) in &cells {
            if !names.contains(name) {
                names.push(name.clone());
            }
        }
        flat.push(cells);
    }
    records(&names, &flat).map_err(|error| error.to_string())
}

fn records(names: &[String], rows: &[Vec<(String, String)>]) -> Result<String, csv::Error> {
    if names.is_empty() {
        return Ok(String::new());
    }
    let mut writer = csv::Writer::from_writer(Vec::new());
    writer.write_record(names)?;
    for row in rows {
        let cell = |name| row.iter().find(|(own, _)| own == name).map_or("", |(_, cell)| cell);
        writer.write_record(names.iter().map(cell))?;
    }
    let bytes = writer.into_inner().map_err(|error| error.into_error())?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// Adds the cells of a value that is called `name`.
fn flatten(name: &str, value: &Value, cells: &mut Vec<(String, String)>) {
    let inner = |member: &str| match name.is_empty() {
        true => member.to_owned(),
        false => format!("{name}_{member}"),
    };
    match value {
        Value::Object(members) => {
            members.iter().for_each(|(member, value)| flatten(&inner(member), value, cells));
        }
        Value::Array(items) => {
            for item in items {
                if let Some((member, number)) = named_number(item) {
                    cells.push((inner(member), number.to_string()));
                }
            }
        }
        Value::Null => cells.push((name.to_owned(), String::new())),
        Value::String(text) => cells.push((name.to_owned(), text.clone())),
        Value::Bool(_) | Value::Number(_) => cells.push((name.to_owned(), value.to_string())),
    }
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
            "time_s": [["seek", 0.25], ["bus", 1]],
            "values": [1, 2],
            "rank": null,
            "same": true,
        })];
        let expected = "config,latency_p50_us,latency_p99_us,time_s_seek,time_s_bus,rank,same\n\
                        \"lfs:cache=8M,disk=\"\"x\"\"\",1.5,20,0.25,1,,true\n";
        assert_eq!(csv(&rows).unwrap(), expected);
    }

    #[test]
    fn a_row_without_a_member_has_an_empty_cell() {
        let rows = [json!({ "a": 1 }), json!({ "b": "two\nlines", "a": 3 })];
        assert_eq!(csv(&rows).unwrap(), "a,b\n1,\n3,\"two\nlines\"\n");
        assert_eq!(csv::<Value>(&[]).unwrap(), "");
    }
}
