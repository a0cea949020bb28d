//! A dump for scripts: one JSON object with a member for each part: an object for a structure, an
//! array of objects for a table; and `problems`, always the last.
//!
//! Numbers are numbers, checksums and other bits hexadecimal strings, modes octal strings, names
//! strings (bytes that are not UTF-8 escaped as `\xNN`), times strings of seconds with nine digits
//! after the point, unknown values null. It is written as it comes, a row a line.

use std::io::Write;

use serde_json::{Map, Value as J, json};
use twin_fs::dump::{Column, Fields, Problem, Sink, Value};

use super::{Writer, printable};

/// Prints all of it, with the problems in it.
pub struct Json<W: Write> {
    out: Writer<W>,
    columns: Vec<&'static str>,
    members: u64,
    rows: u64,
    problems: Vec<J>,
}

/// A value in JSON.
pub(super) fn value(value: Value) -> J {
    match value {
        Value::None => J::Null,
        Value::Number(n) => json!(n),
        Value::Signed(n) => json!(n),
        Value::Hex(n) => json!(format!("{n:#x}")),
        Value::Octal(n) => json!(format!("{n:o}")),
        Value::Flag(on) => json!(on),
        Value::Text(text) => json!(text),
        Value::Name(name) => json!(printable(&name)),
        Value::Time(time) => json!(format!("{}.{:09}", time.secs, time.nanos)),
        Value::List(list) => J::Array(list.into_iter().map(object).collect()),
    }
}

fn object(fields: Fields) -> J {
    let members = fields.into_iter().map(|(name, v)| (name.to_string(), value(v)));
    J::Object(members.collect::<Map<_, _>>())
}

impl<W: Write> Json<W> {
    /// A dump to `out`.
    pub fn new(out: W) -> Json<W> {
        let (columns, problems) = (Vec::new(), Vec::new());
        Json { out: Writer::new(out), columns, members: 0, rows: 0, problems }
    }

    fn member(&mut self, name: &str) {
        let before = if self.members == 0 { "{\n" } else { ",\n" };
        self.members += 1;
        self.out.put(&format!("{before}{}: ", json!(name)));
    }

    /// Ends the object and writes everything out.
    ///
    /// # Errors
    /// The first failure of the writer.
    pub fn finish(&mut self) -> std::io::Result<()> {
        let problems = J::Array(self.problems.clone());
        self.member("problems");
        self.out.put(&format!("{problems}\n}}\n"));
        self.out.finish()
    }

    /// How many problems the layout has told of.
    pub fn problems(&self) -> u64 {
        self.problems.len() as u64
    }
}

impl<W: Write> Sink for Json<W> {
    fn fields(&mut self, name: &str, _about: &str, fields: Fields) {
        self.member(name);
        self.out.put(&object(fields).to_string());
    }

    fn begin(&mut self, name: &str, _about: &str, columns: &[Column]) {
        self.member(name);
        self.out.put("[");
        self.columns = columns.iter().map(|column| column.name).collect();
        self.rows = 0;
    }

    fn row(&mut self, row: Vec<Value>) {
        let before = if self.rows == 0 { "\n" } else { ",\n" };
        self.rows += 1;
        let fields = self.columns.iter().copied().zip(row).collect();
        self.out.put(&format!("{before}{}", object(fields)));
    }

    fn end(&mut self) {
        self.out.put("]");
    }

    fn problem(&mut self, problem: Problem) {
        self.problems.push(json!({ "at": problem.at, "what": problem.what }));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dump_is_one_object_whatever_is_in_it() {
        let column = |name| Column { name, width: 1, is_text: false };
        let mut out = Vec::new();
        let mut json = Json::new(&mut out);
        let heads = Value::List(vec![vec![("segment", Value::Number(3))]]);
        json.fields("inode", "", vec![("mode", Value::Octal(0o644)), ("heads", heads)]);
        json.begin("rows", "", &[column("a"), column("b")]);
        json.row(vec![Value::Signed(-1), Value::Name(b"\xff\"".to_vec())]);
        json.problem(Problem { at: None, what: "bad".into() });
        json.row(vec![Value::None, Value::Flag(true)]);
        json.end();
        json.begin("empty", "", &[]);
        json.end();
        json.finish().unwrap();
        let parsed: J = serde_json::from_slice(&out).unwrap();
        let expected = serde_json::json!({
            "inode": { "mode": "644", "heads": [{ "segment": 3 }] },
            "rows": [{ "a": -1, "b": "\\xff\"" }, { "a": null, "b": true }],
            "empty": [],
            "problems": [{ "at": null, "what": "bad" }],
        });
        assert_eq!(parsed, expected);
    }

    #[test]
    fn nothing_but_problems_is_an_object_too() {
        let mut out = Vec::new();
        Json::new(&mut out).finish().unwrap();
        assert_eq!(serde_json::from_slice::<J>(&out).unwrap(), json!({ "problems": [] }));
    }
}
