//! `rewrites` and `checkouts`: the history of a source tree, one event in each line, as
//! comma-separated values with the columns commit, author_time, commit_time (seconds), op (A, M or
//! D), file, dir, depth, size_bytes, ext.
//!
//! `rewrites` turns a modified file into an open, a truncation and a new write, as an editor or RCS
//! does; `checkouts` into a removal and a new file, as git does, so that replaying a history is the
//! "git ageing" of Conway et al. (FAST 2017). The reader makes up what the trace lacks: names are
//! numbers, all directories are in the root, files are written in requests of at most a MiB, and a
//! missing size is the previous one. A file that is modified after its deletion (because of a merge
//! in the history) is created; a second deletion is ignored. Times are those of the commits; where
//! they go back, time stands still.

use twin_fs::{Ino, ROOT_INO};
use twin_rt::{FixedMap, Nanos, SECS, Time};
use twin_settings::RegistryEntry;

use super::lines::Lines;
use super::tree::Tree;
use super::{Format, Input, Opening};
use crate::error::TraceError;
use crate::frame::{Header, Traits};
use crate::kind::Kind;
use crate::reading::Reading;
use crate::record::Record;
use crate::stream::Source;

pub(super) const REWRITES: RegistryEntry<Format> = RegistryEntry::new(
    "rewrites",
    "history of a source tree (CSV): modified files are rewritten in place",
    Format {
        is_like: Some(|start| start.starts_with(COLUMNS.as_bytes())),
        open: Opening::Once(|input| open(input, false)),
    },
);

/// The format of a source tree's history in which modified files are removed and made again.
pub const CHECKOUTS: RegistryEntry<Format> = RegistryEntry::new(
    "checkouts",
    "history of a source tree (CSV): modified files are removed and made again",
    Format { is_like: None, open: Opening::Once(|input| open(input, true)) },
);

const BACKWARDS: &str = "events are older than the one before them: time stands still for them";
const UNSIZED: &str = "files have no size, and are taken to have the one that they had before";
const COLUMNS: &str = "commit,author_time,commit_time,op,file,dir,depth,size_bytes,ext";

struct Checkins {
    header: Header,
    lines: Lines<Input>,
    tree: Tree,
    anew: bool,
    start_secs: Option<u64>,
    dirs: FixedMap<u64, Ino>,
    /// For each file: its inode, if it exists, and its last size.
    files: FixedMap<u64, (Option<Ino>, u64)>,
    reading: Reading,
}

/// The fields of a line.
struct Event<'a> {
    secs: u64,
    op: &'a str,
    file: u64,
    dir: u64,
    size: Option<u64>,
    ext: &'a str,
}

fn open(input: Input, anew: bool) -> Result<Box<dyn Source>, TraceError> {
    let mut lines = Lines::new(input);
    if !lines.advance()? || lines.text()? != COLUMNS {
        return Err(lines.error(format!("the columns should be {COLUMNS}")));
    }
    let (text, start, seed) = ("history of a source tree".to_owned(), Time(0), 0);
    let traits = Traits { timed: true, nodes_first: true, ..Traits::default() };
    Ok(Box::new(Checkins {
        header: Header { kind: Kind::Operations, start, seed, traits, text },
        lines,
        tree: Tree::new(),
        anew,
        start_secs: None,
        dirs: FixedMap::default(),
        files: FixedMap::default(),
        reading: Reading::default(),
    }))
}

fn number(text: &str, what: &str) -> Result<u64, String> {
    text.parse().map_err(|_| format!("{what} should be a number, not {text:?}"))
}

fn parse(line: &str) -> Result<Event<'_>, String> {
    let mut fields = line.split(',');
    let mut next = || fields.next().ok_or_else(|| "the line has fewer than 9 columns".to_owned());
    let (_commit, _author_time) = (number(next()?, "commit")?, number(next()?, "author_time")?);
    let (secs, op) = (number(next()?, "commit_time")?, next()?);
    let (file, dir) = (number(next()?, "file")?, number(next()?, "dir")?);
    let (_depth, size, ext) = (number(next()?, "depth")?, next()?, next()?);
    if fields.next().is_some() {
        return Err("the line has more than 9 columns".to_owned());
    }
    let size = if size.is_empty() { None } else { Some(number(size, "size_bytes")?) };
    // The largest file that a volume can hold in one line; a larger size is an error in the trace.
    if size.is_some_and(|size| size > 1 << 40) {
        return Err("size_bytes is above a TiB".to_owned());
    }
    if !ext.bytes().all(|byte| byte.is_ascii_alphanumeric()) || ext.len() > 100 {
        return Err(format!("ext should be letters and digits, not {ext:?}"));
    }
    Ok(Event { secs, op, file, dir, size, ext })
}

impl Checkins {
    fn event(&mut self) -> Result<(), TraceError> {
        let event = parse(self.lines.text()?).map_err(|why| self.lines.error(why))?;
        let start = *self.start_secs.get_or_insert(event.secs);
        let at_ns: Nanos = event.secs.saturating_sub(start).saturating_mul(SECS);
        self.reading.assume_of(u64::from(at_ns < self.tree.at_ns || event.secs < start), BACKWARDS);
        self.tree.at_ns = self.tree.at_ns.max(at_ns);
        let name = match event.ext {
            "" => format!("f{}", event.file),
            ext => format!("f{}.{ext}", event.file),
        };
        let name = name.as_bytes();
        let (there, last_size) = self.files.get(&event.file).copied().unwrap_or((None, 0));
        let size = event.size.unwrap_or(last_size);
        let is_sized = event.op == "D" || event.size.is_some();
        self.reading.assume_of(u64::from(!is_sized), UNSIZED);
        let tree = &mut self.tree;
        let dir = *self
            .dirs
            .entry(event.dir)
            .or_insert_with(|| tree.make_dir(ROOT_INO, format!("d{}", event.dir).as_bytes()));
        let there = there.filter(|_| tree.known(dir, name).is_some());
        let ino = match (event.op, there) {
            ("D", Some(_)) => {
                tree.lookup(dir, name);
                tree.remove(dir, name);
                None
            }
            ("D", None) => {
                self.reading.leave_out(self.lines.number(), "that delete what is not there");
                return Ok(());
            }
            ("A" | "M", Some(ino)) if !self.anew => {
                tree.lookup(dir, name);
                tree.open(ino, true, true);
                Some(ino)
            }
            ("A" | "M", there) => {
                tree.lookup(dir, name);
                if there.is_some() {
                    tree.remove(dir, name);
                }
                Some(tree.create(dir, name))
            }
            (op, _) => return Err(self.lines.error(format!("op should be A, M or D, not {op:?}"))),
        };
        if let Some(ino) = ino {
            tree.write_whole(ino, size);
            tree.release(ino);
        }
        self.files.insert(event.file, (ino, size));
        self.reading.use_one();
        Ok(())
    }
}

impl Source for Checkins {
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
            self.event()?;
        }
    }
}
