//! A dump for people: structures as lines of fields, tables with aligned columns.

use std::io::Write;

use twin_fs::dump::{Column, Fields, Problem, Sink, Value};

use super::{Writer, printable, utc};

/// Prints parts to one writer and problems to another.
pub struct Text<W: Write, E: Write> {
    out: Writer<W>,
    err: E,
    columns: Vec<Column>,
    rows: u64,
    problems: u64,
    any: bool,
}

impl<W: Write, E: Write> Text<W, E> {
    /// A dump to `out`, whose problems go to `err`.
    pub fn new(out: W, err: E) -> Text<W, E> {
        Text { out: Writer::new(out), err, columns: Vec::new(), rows: 0, problems: 0, any: false }
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

    fn headline(&mut self, name: &str, about: &str) {
        let gap = if std::mem::replace(&mut self.any, true) { "\n" } else { "" };
        let about = if about.is_empty() { String::new() } else { format!(": {about}") };
        self.out.put(&format!("{gap}{}{about}\n", name.replace('_', " ")));
    }
}

fn cell(value: &Value) -> String {
    match value {
        Value::None => "-".into(),
        Value::Number(n) => n.to_string(),
        Value::Signed(n) => n.to_string(),
        Value::Hex(n) => format!("{n:#010x}"),
        Value::Octal(n) => format!("{n:07o}"),
        Value::Flag(on) => if *on { "yes" } else { "no" }.into(),
        Value::Text(text) => text.clone(),
        Value::Name(name) => printable(name),
        Value::Time(time) => utc(time.secs, time.nanos),
        Value::List(list) => {
            let item = |fields: &Fields| {
                let fields = fields.iter().map(|(name, value)| format!("{name} {}", cell(value)));
                fields.collect::<Vec<_>>().join(" ")
            };
            list.iter().map(item).collect::<Vec<_>>().join("; ")
        }
    }
}

fn aligned(columns: &[Column], cells: impl Iterator<Item = String>) -> String {
    let mut line = String::new();
    for (column, cell) in columns.iter().zip(cells) {
        let width = column.width.max(column.name.len());
        match column.is_text {
            true => line.push_str(&format!("  {cell:<width$}")),
            false => line.push_str(&format!("  {cell:>width$}")),
        }
    }
    line.truncate(line.trim_end().len());
    line.push('\n');
    line
}

impl<W: Write, E: Write> Sink for Text<W, E> {
    fn fields(&mut self, name: &str, about: &str, fields: Fields) {
        self.headline(name, about);
        let width = fields.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
        for (name, value) in fields {
            let line = format!("  {name:<width$}  {}", cell(&value));
            self.out.put(&format!("{}\n", line.trim_end()));
        }
    }

    fn begin(&mut self, name: &str, about: &str, columns: &[Column]) {
        self.headline(name, about);
        self.columns = columns.to_vec();
        self.rows = 0;
        let line = aligned(columns, columns.iter().map(|column| column.name.into()));
        self.out.put(&line);
    }

    fn row(&mut self, row: Vec<Value>) {
        self.rows += 1;
        let line = aligned(&self.columns, row.iter().map(cell));
        self.out.put(&line);
    }

    fn end(&mut self) {
        if self.rows == 0 {
            self.out.put("  none\n");
        }
    }

    fn problem(&mut self, problem: Problem) {
        self.problems += 1;
        // Nothing better can be done if standard error is gone.
        let _ = writeln!(self.err, "twinfs: {problem}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const COLUMNS: [Column; 2] = [
        Column { name: "ino", width: 5, is_text: false },
        Column { name: "name", width: 4, is_text: true },
    ];

    #[test]
    fn tables_are_aligned_and_long_values_stay_whole() {
        let (mut out, mut err) = (Vec::new(), Vec::new());
        let mut text = Text::new(&mut out, &mut err);
        text.fields("a_structure", "", vec![("size", Value::Number(7)), ("n", Value::None)]);
        text.begin("entries", "some", &COLUMNS);
        text.row(vec![Value::Number(12), Value::Name(b"a".to_vec())]);
        text.problem(Problem { at: Some(5), what: "a bad place".into() });
        text.row(vec![Value::Number(1_234_567), Value::Name(b"longer".to_vec())]);
        text.end();
        text.begin("entries", "", &COLUMNS);
        text.end();
        text.finish().unwrap();
        assert_eq!(text.problems(), 1);
        let expected = "a structure\n  size  7\n  n     -\n\nentries: some\n    ino  name\n     \
                        12  a\n  1234567  longer\n\nentries\n    ino  name\n  none\n";
        assert_eq!(String::from_utf8(out).unwrap(), expected);
        assert_eq!(String::from_utf8(err).unwrap(), "twinfs: a bad place (byte 5)\n");
    }
}
