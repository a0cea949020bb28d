//! Operations with the paths of their files, for people and for tables.
//!
//! Contract: each operation that the format `path-operations` ([`readers`](crate::readers)) has comes once, in the order of
//! requests, when it and all before it have been answered; one that was never answered is not there. Others (lookups,
//! attributes other than lengths, locks, extended attributes) have no row, and are counted. A file whose name the
//! trace does not tell is called `#NUMBER` by its inode.

use std::collections::VecDeque;

use twin_fs::{Ino, Name, Op, ROOT_INO};
use twin_rt::{FixedMap, Nanos};

use crate::error::TraceError;
use crate::record::{Outcome, Record};
use crate::stream::Source;

/// An operation on a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PathOperation {
    /// When it was asked for, since the start of the trace.
    pub at_ns: Nanos,
    /// Who asked.
    pub client: u32,
    /// What, by the names of the format `path-operations`.
    pub op: &'static str,
    /// On what; the root directory is empty.
    pub path: String,
    /// The new path of a rename or link.
    pub to: Option<String>,
    /// The first byte of a read or write.
    pub offset: Option<u64>,
    /// The bytes that were read or written; the new length of a truncation.
    pub length: Option<u64>,
    /// Whether it failed.
    pub failed: bool,
}

/// The operations of a source, with paths.
pub struct Paths {
    source: Box<dyn Source>,
    /// The last known name of each inode.
    names: FixedMap<Ino, (Ino, Name)>,
    /// Requests without an answer, and answered ones behind them.
    under_way: VecDeque<(u64, Op, PathOperation, bool)>,
    ready: VecDeque<PathOperation>,
    left_out: u64,
}

/// Directories above each other at most: a trace can name an inode as its own directory.
const DEEPEST: usize = 4096;

impl Paths {
    /// The operations of `source`.
    pub fn new(source: Box<dyn Source>) -> Paths {
        let (names, under_way, ready) = Default::default();
        Paths { source, names, under_way, ready, left_out: 0 }
    }

    /// The operations so far that have no row.
    pub fn left_out(&self) -> u64 {
        self.left_out
    }

    /// The source.
    pub fn source(&self) -> &dyn Source {
        &*self.source
    }

    /// The next operation.
    ///
    /// # Errors
    /// Those of the source.
    pub fn next_operation(&mut self) -> Result<Option<PathOperation>, TraceError> {
        loop {
            if let Some(ready) = self.ready.pop_front() {
                return Ok(Some(ready));
            }
            match self.source.next_record()? {
                None => return Ok(None),
                Some(Record::Node(node)) => {
                    if node.as_data().is_none() {
                        self.names.insert(node.ino, (node.dir, node.name));
                    }
                }
                Some(Record::Request { at_ns, request }) => {
                    let client = request.client;
                    let row = self.row(&request.op);
                    let is_shown = row.is_some();
                    self.left_out += u64::from(!is_shown);
                    let empty = || PathOperation {
                        at_ns,
                        client,
                        op: "",
                        path: String::new(),
                        to: None,
                        offset: None,
                        length: None,
                        failed: false,
                    };
                    let row = PathOperation { at_ns, client, ..row.unwrap_or_else(empty) };
                    // A forget has no answer.
                    if !matches!(request.op, Op::Forget { .. }) {
                        self.under_way.push_back((request.id, request.op, row, is_shown));
                    }
                }
                Some(Record::Reply { id, outcome, .. }) => self.answered(id, &outcome),
            }
        }
    }

    /// Takes an answer, and moves what all answers have come for.
    fn answered(&mut self, id: u64, outcome: &Outcome) {
        let Some(at) = self.under_way.iter().position(|(own, ..)| *own == id) else { return };
        let (_, op, row, _) = &mut self.under_way[at];
        row.failed = matches!(outcome, Outcome::Failed(_));
        if let (Op::Read { .. }, Outcome::Data(got)) = (&*op, outcome) {
            row.length = Some(*got);
        }
        let op = op.clone();
        self.learn(&op, outcome);
        self.under_way[at].0 = 0;
        while let Some((0, ..)) = self.under_way.front() {
            let Some((_, _, row, is_shown)) = self.under_way.pop_front() else { return };
            self.ready.extend(Some(row).filter(|_| is_shown));
        }
    }

    /// What an operation that succeeded says of names.
    fn learn(&mut self, op: &Op, outcome: &Outcome) {
        match (op, outcome) {
            (_, Outcome::Failed(_)) => {}
            (
                Op::Lookup { dir, name }
                | Op::Create { dir, name, .. }
                | Op::MakeNode { dir, name, .. }
                | Op::MakeDir { dir, name, .. }
                | Op::Symlink { dir, name, .. },
                Outcome::Entry(ino),
            ) => drop(self.names.insert(*ino, (*dir, name.clone()))),
            (Op::Rename { dir, name, to_dir, to_name, .. }, _) => {
                let moved = self.names.iter().find(|(_, own)| own.0 == *dir && own.1 == *name);
                if let Some(ino) = moved.map(|(ino, _)| *ino) {
                    self.names.insert(ino, (*to_dir, to_name.clone()));
                }
            }
            _ => {}
        }
    }

    fn path(&self, ino: Ino) -> String {
        let mut names: Vec<String> = Vec::new();
        let mut at = ino;
        while at != ROOT_INO && names.len() < DEEPEST {
            let Some((dir, name)) = self.names.get(&at) else {
                names.push(format!("#{at}"));
                break;
            };
            names.push(String::from_utf8_lossy(name).into_owned());
            at = *dir;
        }
        names.reverse();
        names.join("/")
    }

    fn entry(&self, dir: Ino, name: &[u8]) -> String {
        let (dir, name) = (self.path(dir), String::from_utf8_lossy(name).into_owned());
        if dir.is_empty() { name } else { format!("{dir}/{name}") }
    }

    /// The row of an operation; `None` if it has none.
    fn row(&self, op: &Op) -> Option<PathOperation> {
        let row = |op: &'static str, path: String| PathOperation {
            at_ns: 0,
            client: 0,
            op,
            path,
            to: None,
            offset: None,
            length: None,
            failed: false,
        };
        let ranged = |op, ino: &Ino, offset: u64, length: u64| PathOperation {
            offset: Some(offset),
            length: Some(length),
            ..row(op, self.path(*ino))
        };
        let sized = |ino: &Ino, size| PathOperation {
            length: Some(size),
            ..row("truncate", self.path(*ino))
        };
        if let Some((ino, off, data)) = op.written() {
            return Some(ranged("write", &ino, off, data.len()));
        }
        Some(match op {
            Op::Create { dir, name, .. }
            | Op::MakeNode { dir, name, .. }
            | Op::Symlink { dir, name, .. } => row("create", self.entry(*dir, name)),
            Op::MakeDir { dir, name, .. } => row("mkdir", self.entry(*dir, name)),
            Op::Unlink { dir, name } | Op::RemoveDir { dir, name } => {
                row("remove", self.entry(*dir, name))
            }
            Op::Rename { dir, name, to_dir, to_name, .. } => {
                let to = Some(self.entry(*to_dir, to_name));
                PathOperation { to, ..row("rename", self.entry(*dir, name)) }
            }
            Op::Link { ino, dir, name } => {
                PathOperation { to: Some(self.entry(*dir, name)), ..row("link", self.path(*ino)) }
            }
            Op::Read { ino, off, len } => ranged("read", ino, *off, u64::from(*len)),
            Op::SetAttr { ino, set } => sized(ino, set.size?),
            Op::Open { ino, truncate: true, .. } => sized(ino, 0),
            Op::Fsync { ino, .. } => row("fsync", self.path(*ino)),
            Op::Release { ino } => row("close", self.path(*ino)),
            Op::GetAttr { ino } => row("stat", self.path(*ino)),
            Op::ReadDir { dir, cookie: 0, .. } => row("list", self.path(*dir)),
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::readers;

    fn rows(source: Box<dyn Source>) -> Vec<PathOperation> {
        let mut paths = Paths::new(source);
        let mut all = Vec::new();
        while let Some(row) = paths.next_operation().unwrap() {
            all.push(row);
        }
        all
    }

    /// The rows as a table that the reader of `operations` takes.
    fn table(rows: &[PathOperation]) -> String {
        let number = |value: Option<u64>| value.map_or(String::new(), |value| value.to_string());
        let line = |row: &PathOperation| {
            let (to, at_s) = (row.to.as_deref().unwrap_or(""), row.at_ns as f64 / 1e9);
            let (offset, length) = (number(row.offset), number(row.length));
            format!("{},{},{to},{offset},{length},{at_s:.9},{}\n", row.op, row.path, row.client)
        };
        "op,path,to,offset,length,at_s,client\n".to_owned()
            + &rows.iter().map(line).collect::<String>()
    }

    #[test]
    fn rows_that_were_written_as_a_table_are_read_as_the_same_rows() {
        let text = "op,path,to,offset,length,at_s,client\n\
                    mkdir,a,,,,0.5,1\n\
                    write,a/b,,0,100,1,1\n\
                    read,old/file,,10,20,1,2\n\
                    rename,a/b,a/c,,,2,1\n\
                    write,a/c,,100,5,2.25,1\n\
                    truncate,a/c,,,50,3,1\n\
                    fsync,a/c,,,,3,1\n\
                    close,a/c,,,,4,1\n\
                    link,a/c,d,,,4,1\n\
                    remove,d,,,,5,1\n";
        let read = |text: String| {
            readers::open("path-operations", std::io::Cursor::new(text.into_bytes())).unwrap()
        };
        let first = rows(read(text.into()));
        let named: Vec<_> = first.iter().map(|row| (row.op, row.path.as_str())).collect();
        let expected = [
            ("mkdir", "a"),
            ("create", "a/b"),
            ("write", "a/b"),
            ("read", "old/file"),
            ("rename", "a/b"),
            ("write", "a/c"),
            ("truncate", "a/c"),
            ("fsync", "a/c"),
            ("close", "a/c"),
            ("link", "a/c"),
            ("remove", "d"),
        ];
        assert_eq!(named, expected);
        assert!(first.iter().all(|row| !row.failed));
        let second = rows(read(table(&first)));
        let begin = first[0].at_ns;
        let since = |rows: &[PathOperation]| -> Vec<PathOperation> {
            rows.iter()
                .map(|row| PathOperation { at_ns: row.at_ns - begin, ..row.clone() })
                .collect()
        };
        assert_eq!(second, since(&first));
    }
}
