//! The rows of a table of operations: their columns, values and errors.

use twin_rt::Nanos;

use super::super::{Input, Lines};
use crate::error::TraceError;

/// What a row does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Create,
    Write,
    Read,
    Truncate,
    Fsync,
    Close,
    Stat,
    List,
    MakeDir,
    Remove,
    Rename,
    Link,
}

const KINDS: &[(&str, Kind)] = &[
    ("create", Kind::Create),
    ("write", Kind::Write),
    ("read", Kind::Read),
    ("truncate", Kind::Truncate),
    ("fsync", Kind::Fsync),
    ("close", Kind::Close),
    ("stat", Kind::Stat),
    ("list", Kind::List),
    ("mkdir", Kind::MakeDir),
    ("remove", Kind::Remove),
    ("rename", Kind::Rename),
    ("link", Kind::Link),
];

/// The columns, in the order of the fields below.
const COLUMNS: [&str; 7] = ["op", "path", "to", "offset", "length", "at_s", "client"];

/// One operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Row {
    pub(super) what: Kind,
    pub(super) path: String,
    pub(super) to: Option<String>,
    pub(super) offset: Option<u64>,
    pub(super) length: Option<u64>,
    pub(super) at_ns: Nanos,
    pub(super) client: u32,
}

/// Places in files are below this, 1 PiB.
const MOST: u64 = 1 << 50;

/// A table that is read row by row.
pub(super) struct Rows {
    lines: Lines<Input>,
    /// The place of each of [`COLUMNS`] in a line.
    places: [Option<usize>; COLUMNS.len()],
    columns: usize,
    /// The time of the first row in seconds, and that of the last one since then.
    begin_s: Option<f64>,
    at_ns: Nanos,
}

/// Whether the beginning of an input is a line with the names of the columns.
pub(super) fn is_like(start: &[u8]) -> bool {
    let text = String::from_utf8_lossy(start);
    let Some(names) = text.lines().next().and_then(|line| fields(line).ok()) else { return false };
    ["op", "path"].iter().all(|name| names.iter().any(|own| own.trim() == *name))
}

impl Rows {
    /// Reads the names of the columns.
    pub(super) fn new(input: Input) -> Result<Rows, TraceError> {
        let mut lines = Lines::new(input);
        lines.advance()?;
        let names = fields(lines.text()?).map_err(|why| lines.error(why))?;
        let mut places = [None; COLUMNS.len()];
        for (place, name) in names.iter().enumerate() {
            let known = COLUMNS.iter().position(|own| own == &name.trim());
            let known = known.ok_or_else(|| {
                lines.error(format!(
                    "there is no column {:?}; the columns are {}",
                    name.trim(),
                    COLUMNS.join(", ")
                ))
            })?;
            if places[known].replace(place).is_some() {
                return Err(lines.error(format!("the column {:?} is there twice", name.trim())));
            }
        }
        if let Some(lacking) = (0..2).find(|&at| places[at].is_none()) {
            return Err(lines.error(format!("the column {:?} is missing", COLUMNS[lacking])));
        }
        Ok(Rows { lines, places, columns: names.len(), begin_s: None, at_ns: 0 })
    }

    /// True if rows have times.
    pub(super) fn has_times(&self) -> bool {
        self.places[5].is_some()
    }

    /// An error in the current line.
    pub(super) fn error(&self, why: impl Into<String>) -> TraceError {
        self.lines.error(why)
    }

    /// The next row; lines without anything are passed over.
    pub(super) fn next(&mut self) -> Result<Option<Row>, TraceError> {
        loop {
            if !self.lines.advance()? {
                return Ok(None);
            }
            let line = self.lines.text()?;
            if line.is_empty() {
                continue;
            }
            let values = fields(line).map_err(|why| self.lines.error(why))?;
            let row = self.row(&values).map_err(|why| self.lines.error(why))?;
            return Ok(Some(row));
        }
    }

    fn row(&mut self, values: &[String]) -> Result<Row, String> {
        if values.len() != self.columns {
            return Err(format!("there are {} values for {} columns", values.len(), self.columns));
        }
        let value = |at: usize| {
            self.places[at].map(|place| values[place].as_str()).filter(|value| !value.is_empty())
        };
        let name = value(0).ok_or("the column \"op\" is empty")?;
        let what = KINDS.iter().find(|(own, _)| *own == name).map(|(_, what)| *what);
        let what = what.ok_or_else(|| {
            let names: Vec<&str> = KINDS.iter().map(|(name, _)| *name).collect();
            format!("there is no operation {name:?}; the operations are {}", names.join(", "))
        })?;
        let number = |at: usize| value(at).map(|text| whole(COLUMNS[at], text)).transpose();
        let (offset, length) = (number(3)?, number(4)?);
        let client = number(6)?.map_or(Ok(1), |client| {
            u32::try_from(client)
                .ok()
                .filter(|client| (1..u32::MAX).contains(client))
                .ok_or("clients are numbers from 1 to 4,294,967,294")
        })?;
        let (path, to) = (
            value(1).ok_or("the column \"path\" is empty")?.to_owned(),
            value(2).map(str::to_owned),
        );
        let at_s = value(5).map(str::to_owned);
        Ok(Row { what, path, to, offset, length, at_ns: self.time(at_s.as_deref())?, client })
    }

    /// The time of a row since the first one; one without a time happens with the one before.
    fn time(&mut self, text: Option<&str>) -> Result<Nanos, String> {
        let Some(text) = text else { return Ok(self.at_ns) };
        let at_s: f64 = text
            .parse()
            .map_err(|_| format!("at_s should be a number of seconds, not {text:?}"))?;
        let begin_s = *self.begin_s.get_or_insert(at_s);
        let since_s = at_s - begin_s;
        // Below 2^53, where a number of nanoseconds is exact.
        if !(0.0..9e6).contains(&since_s) {
            return Err(format!(
                "at_s is {text}: it should be from the first row's, {begin_s}, to 9,000,000 s after it"
            ));
        }
        let at_ns = (since_s * 1e9).round() as Nanos;
        if at_ns < self.at_ns {
            return Err(format!(
                "at_s is {text}, and that of the row before is later: sort the rows by time"
            ));
        }
        self.at_ns = at_ns;
        Ok(at_ns)
    }
}

/// A whole number; tables of numbers that may be missing write `4096.0`.
fn whole(column: &str, text: &str) -> Result<u64, String> {
    let digits = text.strip_suffix(".0").unwrap_or(text);
    let number = digits.parse().ok().filter(|&number: &u64| number <= MOST);
    number.ok_or_else(|| format!("{column} should be a whole number up to 2^50, not {text:?}"))
}

/// The values of a line of comma-separated values (RFC 4180); a value is in one line.
fn fields(line: &str) -> Result<Vec<String>, String> {
    let mut values = Vec::new();
    let mut rest = line;
    loop {
        let (value, after) = match rest.strip_prefix('"') {
            Some(quoted) => unquoted(quoted)?,
            None => {
                let end = rest.find(',').unwrap_or(rest.len());
                (rest[..end].to_owned(), &rest[end..])
            }
        };
        values.push(value);
        match after.strip_prefix(',') {
            Some(more) => rest = more,
            None if after.is_empty() => return Ok(values),
            None => return Err("there is more behind a quoted value".into()),
        }
    }
}

/// A value behind its first quote, and what follows its last one.
fn unquoted(text: &str) -> Result<(String, &str), String> {
    let mut value = String::new();
    let mut rest = text;
    loop {
        let (part, after) = rest.split_once('"').ok_or("a quote is not closed in its line")?;
        value.push_str(part);
        match after.strip_prefix('"') {
            Some(more) => {
                value.push('"');
                rest = more;
            }
            None => return Ok((value, after)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(text: &'static str) -> Result<Vec<Row>, TraceError> {
        let mut rows = Rows::new(Box::new(text.as_bytes()))?;
        let mut all = Vec::new();
        while let Some(row) = rows.next()? {
            all.push(row);
        }
        Ok(all)
    }

    fn why(text: &'static str) -> String {
        rows(text).unwrap_err().to_string()
    }

    #[test]
    fn values_are_found_by_the_names_of_their_columns() {
        let all =
            rows("at_s,path,op,length\n5.5,\"a, \"\"b\"\"\",write,10.0\n\n6,c,create,\n").unwrap();
        let first = Row {
            what: Kind::Write,
            path: "a, \"b\"".into(),
            to: None,
            offset: None,
            length: Some(10),
            at_ns: 0,
            client: 1,
        };
        assert_eq!(all[0], first);
        assert_eq!((all[1].what, all[1].at_ns, all[1].length), (Kind::Create, 500_000_000, None));
    }

    #[test]
    fn wrong_tables_are_refused_with_their_line_and_reason() {
        for (text, expected) in [
            ("op,file\n", "no column \"file\""),
            ("op,to\n", "\"path\" is missing"),
            ("op,path,op\n", "twice"),
            ("op,path\nwrite\n", "line 2: there are 1 values for 2 columns"),
            ("op,path\nwrote,a\n", "no operation \"wrote\""),
            ("op,path,length\nwrite,a,-3\n", "length should be a whole number"),
            ("op,path\nread,\"a\n", "not closed"),
            ("op,path,at_s\nread,a,2\nread,a,1\n", "from the first row's"),
            ("op,path,at_s\nread,a,0\nread,a,2\nread,a,1\n", "sort the rows"),
            ("op,path,client\nread,a,0\n", "clients are numbers"),
            ("op,path\nread,\n", "\"path\" is empty"),
        ] {
            let why = why(text);
            assert!(why.contains(expected), "{expected}: {why}");
        }
    }
}
