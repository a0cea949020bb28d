//! A dump as comma-separated values: each part under a line of its names, with an empty line between parts
//! if there are several, so that a table alone (`segments`, `inodes`, `dir`) is one plain table. A
//! structure is a part of one line. Values are those of JSON; a list within a line is JSON. Problems are
//! told on standard error.

use std::io::Write;

use serde_json::Value as J;
use twin_fs::dump::{Column, Fields, Problem, Sink, Value};

use super::{Writer, json};

/// Prints parts to one writer and problems to another.
pub struct Csv<W: Write, E: Write> {
    out: Writer<W>,
    err: E,
    any: bool,
    problems: u64,
}

impl<W: Write, E: Write> Csv<W, E> {
    /// A dump to `out`, whose problems go to `err`.
    pub fn new(out: W, err: E) -> Csv<W, E> {
        Csv { out: Writer::new(out), err, any: false, problems: 0 }
    }

    /// Writes everything out.
    ///
    /// # Errors
    /// The first failure of the writer.
    pub fn finish(&mut self) -> std::io::Result<()> {
        self.out.finish()
    }

    /// How many problems the layout has told of.
    pub fn problems(&self) -> u64 {
        self.problems
    }

    fn line<T: AsRef<[u8]>>(&mut self, cells: impl IntoIterator<Item = T>) {
        let mut writer = csv::Writer::from_writer(Vec::new());
        // Memory takes everything.
        if writer.write_record(cells).is_ok()
            && let Ok(bytes) = writer.into_inner()
        {
            self.out.put(&String::from_utf8_lossy(&bytes));
        }
    }

    fn part(&mut self) {
        if std::mem::replace(&mut self.any, true) {
            self.out.put("\n");
        }
    }
}

fn cell(value: Value) -> String {
    match json::value(value) {
        J::Null => String::new(),
        J::String(text) => text,
        other => other.to_string(),
    }
}

impl<W: Write, E: Write> Sink for Csv<W, E> {
    fn fields(&mut self, _name: &str, _about: &str, fields: Fields) {
        self.part();
        self.line(fields.iter().map(|(name, _)| name));
        self.line(fields.into_iter().map(|(_, value)| cell(value)));
    }

    fn begin(&mut self, _name: &str, _about: &str, columns: &[Column]) {
        self.part();
        self.line(columns.iter().map(|column| column.name));
    }

    fn row(&mut self, row: Vec<Value>) {
        self.line(row.into_iter().map(cell));
    }

    fn end(&mut self) {}

    fn problem(&mut self, problem: Problem) {
        self.problems += 1;
        // Nothing better can be done if standard error is gone.
        let _ = writeln!(self.err, "twinfs: {problem}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_have_their_names_and_an_empty_line_between_them() {
        let column = |name| Column { name, width: 1, is_text: false };
        let (mut out, mut err) = (Vec::new(), Vec::new());
        let mut csv = Csv::new(&mut out, &mut err);
        csv.fields("inode", "", vec![("mode", Value::Octal(0o644)), ("n", Value::None)]);
        csv.begin("rows", "", &[column("a"), column("b")]);
        csv.row(vec![Value::Number(7), Value::Name(b"x,\"y\"".to_vec())]);
        csv.problem(Problem { at: Some(5), what: "bad".into() });
        csv.end();
        csv.finish().unwrap();
        assert_eq!(csv.problems(), 1);
        let expected = "mode,n\n644,\n\na,b\n7,\"x,\"\"y\"\"\"\n";
        assert_eq!(String::from_utf8(out).unwrap(), expected);
    }
}
