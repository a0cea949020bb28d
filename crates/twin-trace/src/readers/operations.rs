//! `path-operations`: rows of comma-separated values, one for each operation, as people write them from a table of
//! their own.
//!
//! The first line names the columns: `op` and `path`, and of `to`, `offset`, `length`, `at_s` and `client` those that
//! are there. A value may stand in double quotes, which are doubled inside. The operations are `create`, `write`,
//! `read`, `truncate` (to `length`), `fsync`, `close`, `stat`, `list`, `mkdir`, `remove` (a file or an empty
//! directory), `rename` and `link` (to the path `to`). Lengths and offsets are in bytes: a write without an offset
//! appends, a read without a length reads to the end. Times are seconds from any moment on, not falling; without the
//! column all happens at once. Clients are numbers from 1.
//!
//! The reader makes up what the rows lack, and says so: a path is reached by a lookup of its last name (the kernel
//! knows the directories); a file is opened by the first operation on its data and closed by `close`, or with the last
//! name; what is used before it is made existed before. To know how long such files were, it reads the rows twice.

mod before;
mod row;

use std::collections::BTreeMap;

use twin_fs::{Ino, Op, ROOT_INO, SetAttr};
use twin_rt::Time;
use twin_settings::RegistryEntry;

use super::tree::Tree;
use super::{Again, Format, Opening};
use crate::error::TraceError;
use crate::frame::{Header, Traits};
use crate::kind::Kind;
use crate::reading::Reading;
use crate::record::{Node, Outcome, Record};
use crate::stream::Source;

use before::Before;
use row::{Kind as What, Row, Rows};

pub(super) const FORMAT: RegistryEntry<Format> = RegistryEntry::new(
    "path-operations",
    "a table of operations on paths: op,path and offset,length,to,at_s,client (CSV)",
    Format { is_like: Some(row::is_like), open: Opening::Again(open) },
);

struct Operations {
    header: Header,
    rows: Rows,
    tree: Tree,
    /// What existed before and is to be told first, the last one first.
    nodes: Vec<Node>,
    /// The inodes that are open.
    open: BTreeMap<Ino, ()>,
    reading: Reading,
}

fn open(input: Again) -> Result<Box<dyn Source>, TraceError> {
    let before = Before::of(Rows::new(input.open()?)?)?;
    let rows = Rows::new(input.open()?)?;
    let traits = Traits { nodes_first: true, timed: rows.has_times(), ..Traits::default() };
    let text = "a table of operations".to_owned();
    let header = Header { kind: Kind::Operations, start: Time(0), seed: 0, traits, text };
    let mut reading = Reading::default();
    if !rows.has_times() {
        reading.assume("there are no times: all happens at once");
    }
    reading.assume("files are opened by the first operation on their data, and closed by `close` or with their name");
    let mut tree = Tree::new();
    let nodes = before.nodes(&mut tree);
    reading.assume_of(
        nodes.len() as u64,
        "paths were used before they were made, so they existed before",
    );
    Ok(Box::new(Operations { header, rows, tree, nodes, open: BTreeMap::new(), reading }))
}

/// Bytes of a read or write at most, so that no row makes much of itself.
const MOST_BYTES: u64 = 4 << 30;

/// Divides a range into pieces of a MiB, the most that a kernel asks for at once.
fn pieces(off: u64, len: u64, mut piece: impl FnMut(u64, u64)) -> Result<(), String> {
    const PIECE: u64 = 1 << 20;
    if len > MOST_BYTES {
        return Err(format!("a length of {len} is more than 4 GiB: divide the row"));
    }
    (0..len).step_by(PIECE as usize).for_each(|at| piece(off + at, PIECE.min(len - at)));
    Ok(())
}

/// The names of a path.
fn names(path: &str) -> Result<Vec<&str>, String> {
    let names: Vec<&str> = path.split('/').filter(|name| !matches!(*name, "" | ".")).collect();
    match names.iter().find(|name| **name == ".." || name.len() > twin_fs::NAME_MAX) {
        Some(name) => Err(format!("{path:?}: {name:?} cannot be a name")),
        None => Ok(names),
    }
}

impl Operations {
    /// The directory and the last name of a path; the root has none.
    fn parent<'p>(&mut self, path: &'p str) -> Result<(Ino, Option<&'p [u8]>), String> {
        let names = names(path)?;
        let Some((last, above)) = names.split_last() else { return Ok((ROOT_INO, None)) };
        let mut dir = ROOT_INO;
        for name in above {
            dir = match self.tree.known(dir, name.as_bytes()) {
                Some(ino) if self.tree.is_dir(ino) => ino,
                Some(_) => return Err(format!("{path:?}: {name:?} is a file, not a directory")),
                // What was removed with its directory still there.
                None => self.tree.make_dir(dir, name.as_bytes()),
            };
        }
        Ok((dir, Some(last.as_bytes())))
    }

    /// A path that cannot be the root, as its directory and name.
    fn place<'p>(&mut self, path: &'p str) -> Result<(Ino, &'p [u8]), String> {
        match self.parent(path)? {
            (dir, Some(name)) => Ok((dir, name)),
            _ => Err(format!("{path:?} is the root directory, which is always there")),
        }
    }

    /// The inode of a path, looked up.
    fn found(&mut self, path: &str) -> Result<Ino, String> {
        match self.parent(path)? {
            (root, None) => Ok(root),
            (dir, Some(name)) => {
                self.tree.lookup(dir, name).ok_or_else(|| format!("{path:?} is not there any more"))
            }
        }
    }

    /// The open file at a path; made if `make`, otherwise it must be there.
    fn file(&mut self, path: &str, make: bool) -> Result<Ino, String> {
        let (dir, name) = self.place(path)?;
        let ino = match self.tree.known(dir, name) {
            Some(ino) if self.tree.is_dir(ino) => return Err(format!("{path:?} is a directory")),
            Some(ino) if self.open.contains_key(&ino) => return Ok(ino),
            Some(ino) => {
                self.tree.lookup(dir, name);
                self.tree.open(ino, true, false);
                ino
            }
            None if make => {
                self.tree.lookup(dir, name);
                self.tree.create(dir, name)
            }
            None => return Err(format!("{path:?} is not there any more")),
        };
        self.open.insert(ino, ());
        Ok(ino)
    }

    fn close(&mut self, ino: Ino) {
        if self.open.remove(&ino).is_some() {
            self.tree.release(ino);
        }
    }

    fn operation(&mut self, row: &Row) -> Result<(), String> {
        let path = row.path.as_str();
        match row.what {
            What::Create => self.create(path),
            What::Write => {
                let ino = self.file(path, true)?;
                let off = row.offset.unwrap_or_else(|| self.tree.inode(ino).size);
                pieces(off, row.length.ok_or("a write needs a length")?, |off, len| {
                    self.tree.write(ino, off, len);
                })
            }
            What::Read => {
                let ino = self.file(path, false)?;
                let (off, size) = (row.offset.unwrap_or(0), self.tree.inode(ino).size);
                pieces(off, row.length.unwrap_or(size.saturating_sub(off)), |off, len| {
                    let there = Outcome::Data(size.saturating_sub(off).min(len));
                    self.tree.op(Op::Read { ino, off, len: len as u32 }, there);
                })
            }
            What::Truncate => {
                let (ino, size) =
                    (self.file(path, false)?, row.length.ok_or("truncate needs a length")?);
                self.tree.set_size(ino, size);
                let set = SetAttr { size: Some(size), ..SetAttr::default() };
                self.tree.op(Op::SetAttr { ino, set }, Outcome::Attr);
                Ok(())
            }
            What::Fsync => {
                let ino = self.file(path, false)?;
                self.tree.op(Op::Fsync { ino, data_only: false }, Outcome::Done);
                Ok(())
            }
            What::Close => {
                let (dir, name) = self.place(path)?;
                let ino = self.tree.known(dir, name).filter(|ino| self.open.contains_key(ino));
                self.close(ino.ok_or_else(|| format!("{path:?} is not open"))?);
                Ok(())
            }
            What::Stat => {
                let ino = self.found(path)?;
                self.tree.op(Op::GetAttr { ino }, Outcome::Attr);
                Ok(())
            }
            What::List => {
                let ino = self.found(path)?;
                if !self.tree.is_dir(ino) {
                    return Err(format!("{path:?} is no directory"));
                }
                self.tree.list(ino);
                Ok(())
            }
            What::MakeDir | What::Remove | What::Rename | What::Link => self.naming(row),
        }
    }

    /// Makes a file, or empties the one that is there.
    fn create(&mut self, path: &str) -> Result<(), String> {
        let (dir, name) = self.place(path)?;
        match self.tree.known(dir, name) {
            Some(ino) if self.tree.is_dir(ino) => return Err(format!("{path:?} is a directory")),
            Some(ino) => {
                self.tree.lookup(dir, name);
                self.close(ino);
                self.tree.open(ino, true, true);
                self.open.insert(ino, ());
            }
            None => drop(self.file(path, true)?),
        }
        Ok(())
    }

    /// Operations on names alone.
    fn naming(&mut self, row: &Row) -> Result<(), String> {
        let (path, (dir, name)) = (&row.path, self.place(&row.path)?);
        let found = self.tree.lookup(dir, name);
        if row.what == What::MakeDir {
            if found.is_some() {
                return Err(format!("{path:?} is there already"));
            }
            self.tree.make_dir(dir, name);
            return Ok(());
        }
        let ino = found.ok_or_else(|| format!("{path:?} is not there any more"))?;
        if row.what == What::Remove {
            if self.tree.is_dir(ino) && self.tree.entries(ino) > 0 {
                return Err(format!("{path:?} is a directory that is not empty"));
            }
            self.close(ino);
            self.tree.remove(dir, name);
            return Ok(());
        }
        let to = row.to.as_deref().ok_or("the column `to` is empty")?;
        let (to_dir, to_name) = self.place(to)?;
        let target = self.tree.lookup(to_dir, to_name);
        match row.what {
            What::Rename => {
                // A name that is replaced is closed like one that is removed.
                target
                    .filter(|&target| target != ino)
                    .into_iter()
                    .for_each(|target| self.close(target));
                self.tree.rename(dir, name, to_dir, to_name);
            }
            _ if target.is_some() => return Err(format!("{to:?} is there already")),
            _ => self.tree.link(ino, to_dir, to_name),
        }
        Ok(())
    }
}

impl Source for Operations {
    fn header(&self) -> &Header {
        &self.header
    }

    fn reading(&self) -> Reading {
        self.reading.clone()
    }

    fn next_record(&mut self) -> Result<Option<Record>, TraceError> {
        loop {
            if let Some(node) = self.nodes.pop() {
                return Ok(Some(Record::Node(node)));
            }
            if let Some(record) = self.tree.pop() {
                return Ok(Some(record));
            }
            let Some(row) = self.rows.next()? else { return Ok(None) };
            (self.tree.at_ns, self.tree.client) = (row.at_ns, row.client);
            self.operation(&row).map_err(|why| self.rows.error(why))?;
            self.reading.use_one();
        }
    }
}

#[cfg(test)]
mod tests;
