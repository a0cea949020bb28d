//! `netbench`: the operations of dbench's client.txt (A. Tridgell), which were captured from the
//! clients of a NetBench run over SMB.
//!
//! Each line is an operation: its name, paths in quotes with backslashes, numbers, a status. There
//! are no times: all operations happen at once, so replay them in a closed loop. The reader makes
//! up what the trace lacks: every path is reached by a lookup of its last name (the kernel knows
//! the directories); opening an existing file is a lookup and an open; queries are lookups or
//! getattr; setting information sets the modification time; listings, with any pattern, read the
//! directory once. Locks have no counterpart and are left out. A file that is opened without having
//! been created before is assumed to be empty, and is created at that point; a read keeps the number of
//! bytes that it got, so that a replay that gets fewer is told apart.

use twin_fs::{Ino, Op, ROOT_INO, SetAttr, SetTime};
use twin_rt::{FixedMap, Time};
use twin_settings::RegistryEntry;

use super::lines::Lines;
use super::tree::Tree;
use super::{Format, Input, Opening};
use crate::error::TraceError;
use crate::frame::{Header, Traits};
use crate::kind::Kind;
use crate::reading::Reading;
use crate::record::{Outcome, Record};
use crate::stream::Source;

pub(super) const FORMAT: RegistryEntry<Format> = RegistryEntry::new(
    "netbench",
    "dbench's client.txt: SMB operations of office programs, without times",
    Format {
        // Operations of SMB are followed by a path in quotes, or end with a status.
        is_like: Some(|start| {
            let text = String::from_utf8_lossy(start);
            let mut lines = text.lines();
            lines
                .next()
                .is_some_and(|line| line.contains(" NT_STATUS_") || line.ends_with(" SUCCESS"))
        }),
        open: Opening::Once(open),
    },
);

/// An open with this disposition, or a higher one, drops the content of the file.
const OVERWRITE: u64 = 4;
/// An open with this disposition fails unless the file is there.
const MUST_EXIST: u64 = 1;
const EMPTY: &str = "files were opened that existed before; they are taken as empty, and made then";
const OTHERWISE: &str =
    "reads got another number of bytes than the file has by what was written to it";
/// The option of an open that asks for a directory.
const DIRECTORY: u64 = 1;

struct Netbench {
    header: Header,
    lines: Lines<Input>,
    tree: Tree,
    /// Open files by their handles.
    handles: FixedMap<u64, Ino>,
    reading: Reading,
}

fn open(input: Input) -> Result<Box<dyn Source>, TraceError> {
    let (text, start, seed) = ("NetBench operations".to_owned(), Time(0), 0);
    let traits = Traits { nodes_first: true, ..Traits::default() };
    let header = Header { kind: Kind::Operations, start, seed, traits, text };
    let (lines, tree) = (Lines::new(input), Tree::new());
    let mut reading = Reading::default();
    reading.assume("there are no times: all happens at once");
    Ok(Box::new(Netbench { header, lines, tree, handles: FixedMap::default(), reading }))
}

/// The words of a line; a quoted string is one word.
struct Words<'a> {
    rest: &'a str,
}

impl<'a> Words<'a> {
    fn next(&mut self, what: &str) -> Result<&'a str, String> {
        let rest = self.rest.trim_start_matches(' ');
        let (word, rest) = match rest.strip_prefix('"') {
            Some(quoted) => quoted.split_once('"').ok_or("a quote is not closed")?,
            None => rest.split_once(' ').unwrap_or((rest, "")),
        };
        if word.is_empty() {
            return Err(format!("{what} is missing"));
        }
        self.rest = rest;
        Ok(word)
    }

    /// A number, decimal or hexadecimal with `0x`.
    fn number(&mut self, what: &str) -> Result<u64, String> {
        let word = self.next(what)?;
        let number = match word.strip_prefix("0x") {
            Some(digits) => u64::from_str_radix(digits, 16),
            None => word.parse(),
        };
        number.map_err(|_| format!("{what} should be a number, not {word:?}"))
    }

    /// The status: true for success.
    fn status(&mut self) -> Result<bool, String> {
        let word = self.next("the status")?;
        if !self.rest.trim().is_empty() {
            return Err(format!("there is more after the status: {:?}", self.rest.trim()));
        }
        match word.strip_prefix("NT_STATUS_") {
            Some(status) => Ok(status == "OK"),
            None => Err(format!("the status should begin with NT_STATUS_, not be {word:?}")),
        }
    }
}

impl Netbench {
    /// The directory and the last name of a path; missing directories above are created.
    fn parent<'p>(&mut self, path: &'p str) -> Result<(Ino, &'p [u8]), String> {
        let mut dir = ROOT_INO;
        let mut parts = path.split('\\').filter(|part| !part.is_empty()).peekable();
        while let Some(part) = parts.next() {
            let name = part.as_bytes();
            if name.len() > twin_fs::NAME_MAX || name.contains(&b'/') || matches!(part, "." | "..")
            {
                return Err(format!("{part:?} cannot be a name"));
            }
            if parts.peek().is_none() {
                return Ok((dir, name));
            }
            dir = match self.tree.known(dir, name) {
                Some(ino) if self.tree.is_dir(ino) => ino,
                Some(_) => return Err(format!("{part:?} is a file, not a directory")),
                None => self.tree.make_dir(dir, name),
            };
        }
        Err("the path is empty".to_owned())
    }

    fn handle(&self, words: &mut Words) -> Result<Ino, String> {
        let handle = words.number("the handle")?;
        let ino = self.handles.get(&handle).copied();
        ino.ok_or_else(|| format!("handle {handle} is not open"))
    }

    fn operation(&mut self, line: &str) -> Result<(), String> {
        let words = &mut Words { rest: line };
        match words.next("the operation")? {
            "NTCreateX" => self.create(words),
            "Close" => self.close(words),
            "ReadX" => {
                let (ino, off, len, done) = self.transfer(words)?;
                let there = self.tree.inode(ino).size.saturating_sub(off).min(len.into());
                self.reading.assume_of(u64::from(there != u64::from(done)), OTHERWISE);
                self.tree.op(Op::Read { ino, off, len }, Outcome::Data(done.into()));
                Ok(())
            }
            "WriteX" => {
                let (ino, off, _, done) = self.transfer(words)?;
                self.tree.write(ino, off, u64::from(done));
                Ok(())
            }
            "Flush" => {
                let ino = self.handle(words)?;
                words.status()?;
                self.tree.op(Op::Fsync { ino, data_only: false }, Outcome::Done);
                Ok(())
            }
            "Unlink" => {
                let path = words.next("the path")?;
                words.number("attributes")?;
                let done = words.status()?;
                self.unlink(path, done)
            }
            "Rename" => {
                let (path, to_path) = (words.next("the path")?, words.next("the new path")?);
                let done = words.status()?;
                self.rename(path, to_path, done)
            }
            "Mkdir" | "Deltree" => self.directory(line),
            "LockX" | "UnlockX" => {
                self.handle(words)?;
                words.number("the offset")?;
                words.number("the length")?;
                words.status()?;
                self.reading.leave_out(self.lines.number(), "of locks, which have no counterpart");
                Ok(())
            }
            operation => self.query(operation, words),
        }
    }

    fn create(&mut self, words: &mut Words) -> Result<(), String> {
        let path = words.next("the path")?;
        let (options, disposition) = (words.number("options")?, words.number("disposition")?);
        let handle = words.number("the handle")?;
        let done = words.status()?;
        let (dir, name) = self.parent(path)?;
        let found = self.tree.lookup(dir, name);
        if !done {
            return Ok(());
        }
        let ino = match found {
            None if options & DIRECTORY != 0 => {
                let ino = self.tree.make_dir(dir, name);
                self.tree.open(ino, false, false);
                ino
            }
            None => {
                // Disposition 1 opens a file that must exist.
                self.reading.assume_of(u64::from(disposition == MUST_EXIST), EMPTY);
                self.tree.create(dir, name)
            }
            Some(ino) => {
                let is_file = !self.tree.is_dir(ino);
                self.tree.open(ino, is_file, is_file && disposition >= OVERWRITE);
                ino
            }
        };
        self.handles.insert(handle, ino);
        Ok(())
    }

    fn close(&mut self, words: &mut Words) -> Result<(), String> {
        let handle = words.number("the handle")?;
        words.status()?;
        let ino = self.handles.remove(&handle);
        self.tree.release(ino.ok_or_else(|| format!("handle {handle} is not open"))?);
        Ok(())
    }

    /// The file, offset, length and result of a read or write.
    fn transfer(&mut self, words: &mut Words) -> Result<(Ino, u64, u32, u32), String> {
        let ino = self.handle(words)?;
        let off = words.number("the offset")?;
        let mut bytes = |what| {
            let number = words.number(what)?;
            u32::try_from(number).map_err(|_| format!("{what} has more than 32 bits"))
        };
        let (len, done) = (bytes("the size")?, bytes("the result")?);
        words.status()?;
        if off > 1 << 50 {
            return Err("the offset is above a PiB".to_owned());
        }
        Ok((ino, off, len, done))
    }

    fn unlink(&mut self, path: &str, done: bool) -> Result<(), String> {
        let (dir, name) = self.parent(path)?;
        if self.tree.lookup(dir, name).is_some() && done {
            self.tree.remove(dir, name);
        }
        Ok(())
    }

    fn rename(&mut self, path: &str, to_path: &str, done: bool) -> Result<(), String> {
        let (dir, name) = self.parent(path)?;
        let (to_dir, to_name) = self.parent(to_path)?;
        let found = self.tree.lookup(dir, name).is_some();
        self.tree.lookup(to_dir, to_name);
        if found && done {
            self.tree.rename(dir, name, to_dir, to_name);
        }
        Ok(())
    }

    /// Creates a directory, or removes one with its contents.
    fn directory(&mut self, line: &str) -> Result<(), String> {
        let words = &mut Words { rest: line };
        let make = words.next("the operation")? == "Mkdir";
        let path = words.next("the path")?;
        let done = words.status()?;
        let (dir, name) = self.parent(path)?;
        match self.tree.lookup(dir, name) {
            None if make && done => {
                self.tree.make_dir(dir, name);
            }
            Some(ino) if !make && done => {
                self.tree.clear(ino);
                self.tree.remove(dir, name);
            }
            _ => {}
        }
        Ok(())
    }

    fn query(&mut self, operation: &str, words: &mut Words) -> Result<(), String> {
        match operation {
            "QUERY_PATH_INFORMATION" => {
                let path = words.next("the path")?;
                words.number("the level")?;
                words.status()?;
                let (dir, name) = self.parent(path)?;
                self.tree.lookup(dir, name);
            }
            "QUERY_FILE_INFORMATION" => {
                let ino = self.handle(words)?;
                words.number("the level")?;
                words.status()?;
                self.tree.op(Op::GetAttr { ino }, Outcome::Attr);
            }
            "SET_FILE_INFORMATION" => {
                let ino = self.handle(words)?;
                words.number("the level")?;
                words.status()?;
                let set = SetAttr { mtime: Some(SetTime::Now), ..SetAttr::default() };
                self.tree.op(Op::SetAttr { ino, set }, Outcome::Attr);
            }
            "QUERY_FS_INFORMATION" => {
                words.number("the level")?;
                words.status()?;
                self.tree.op(Op::StatFs, Outcome::Done);
            }
            "FIND_FIRST" => {
                let pattern = words.next("the pattern")?;
                for what in ["the level", "the largest count", "the count"] {
                    words.number(what)?;
                }
                words.status()?;
                let (dir, _) = self.parent(pattern)?;
                self.tree.list(dir);
            }
            other => return Err(format!("there is no operation called {other:?}")),
        }
        Ok(())
    }
}

impl Source for Netbench {
    fn header(&self) -> &Header {
        &self.header
    }

    fn reading(&self) -> Reading {
        self.reading.clone()
    }

    fn next_record(&mut self) -> Result<Option<Record>, TraceError> {
        loop {
            if let Some(record) = self.tree.pop() {
                return Ok(Some(record));
            }
            if !self.lines.advance()? {
                return Ok(None);
            }
            let line = self.lines.text()?.to_owned();
            if line.is_empty() {
                continue;
            }
            let left_out = self.reading.left_out_count();
            self.operation(&line).map_err(|why| self.lines.error(why))?;
            if self.reading.left_out_count() == left_out {
                self.reading.use_one();
            }
        }
    }
}
