//! Rows for programs: JSON, and comma-separated values (RFC 4180, by the crate `csv`).
//!
//! Contract: a row is an object with named members. Comma-separated values have a line of names and a
//! line a row: members of inner objects are named `outer_inner`, pairs of a name and a number
//! `outer_name`, and other lists are left out, because they do not fit into a line. Names of columns have
//! no spaces. Both forms have plain numbers; units are in the names. A member that a row lacks is empty.

use serde_json::Value;

/// A value as JSON, in lines.
pub(crate) fn json(value: &Value) -> String {
    // A value that was made of members is always one.
    serde_json::to_string_pretty(value).unwrap_or_default()
}

/// The rows as JSON, each in a line of its own.
pub(crate) fn json_lines(rows: &[Value]) -> String {
    rows.iter().map(|row| format!("{row}\n")).collect()
}

/// Rows as columns of single values, for tables that know no others.
#[derive(Clone, Debug, PartialEq)]
pub struct Flat {
    /// The names of the columns, in the order in which rows have them.
    pub names: Vec<String>,
    /// The rows: a cell for each column, null where the row has none.
    pub rows: Vec<Vec<Value>>,
}

/// The rows with the members of inner objects as columns; see the contract of this file.
pub fn flat(rows: &[Value]) -> Flat {
    let mut names: Vec<String> = Vec::new();
    let mut all = Vec::with_capacity(rows.len());
    for row in rows {
        let mut cells = Vec::new();
        flatten("", row, &mut cells);
        for (name, _) in &cells {
            if !names.contains(name) {
                names.push(name.clone());
            }
        }
        all.push(cells);
    }
    let cell = |cells: &[(String, Value)], name: &String| {
        cells.iter().find(|(own, _)| own == name).map_or(Value::Null, |(_, value)| value.clone())
    };
    let rows =
        all.iter().map(|cells| names.iter().map(|name| cell(cells, name)).collect()).collect();
    Flat { names, rows }
}

/// The rows as comma-separated values, with the line of names if `named`; output that goes on has it
/// once.
pub fn csv(rows: &[Value], named: bool) -> String {
    // Memory takes all that is written to it.
    records(&flat(rows), named).unwrap_or_default()
}

fn records(Flat { names, rows }: &Flat, named: bool) -> Result<String, csv::Error> {
    if names.is_empty() {
        return Ok(String::new());
    }
    let mut writer = csv::Writer::from_writer(Vec::new());
    if named {
        writer.write_record(names)?;
    }
    for row in rows {
        writer.write_record(row.iter().map(text_of))?;
    }
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
