//! Gives the model the requests that a volume has executed, and describes the first difference.

use std::mem::discriminant;

use twin_disk::{Block, gather};
use twin_rt::Time;

use super::words::readable;
use super::{ModelFs, is_dot};
use twin_fs::{Attr, DirEntry, FsError, Ino, Op, Reply, Request, Result};

/// The result of following a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Followed {
    /// The model has executed it, or refused it for the same reason.
    Same,
    /// The volume had no room, so the model has not executed it.
    NoRoom,
}

impl ModelFs {
    /// Executes a request that a volume has executed at time `now` with this reply, and compares
    /// the replies. Inode numbers must be those of the volume's replies; the model adopts the
    /// numbers of new inodes. Used space, the size of directories, generations, the order of
    /// listings and the figures of the volume are not compared.
    ///
    /// # Errors
    /// The first difference, in words.
    pub fn follow(
        &mut self,
        now: Time,
        request: &Request,
        reply: &Result<Reply>,
    ) -> Result<Followed, String> {
        if let Err(FsError::NoSpace | FsError::NoInodes) = reply {
            return Ok(Followed::NoRoom);
        }
        let same = match (&request.op, reply) {
            (Op::ReadDir { dir, cookie, plus, .. }, Ok(Reply::Dir(list))) => {
                self.follow_listing(*dir, *cookie, *plus, list)
            }
            _ => {
                let ino = match reply {
                    Ok(Reply::Entry(entry)) => Some(entry.attr.ino),
                    _ => None,
                };
                let expected = self.apply_with_ino(now, request, ino);
                let block_size = self.settings.block_size as usize;
                compare(&request.op, block_size, &expected, reply)
            }
        };
        same.map_err(|difference| {
            readable(&format!("request {}, {:?}: {difference}", request.id, request.op))
        })?;
        Ok(Followed::Same)
    }

    /// A listing may stop anywhere and have any order, but must name existing entries.
    fn follow_listing(
        &mut self,
        dir: Ino,
        cookie: u64,
        plus: bool,
        list: &[DirEntry],
    ) -> Result<(), String> {
        let names = self.list(dir).map_err(|error| format!("the model says: {error}"))?;
        let begins = |name: &[u8], nth: usize| list.get(nth).is_none_or(|got| *got.name == *name);
        if cookie == 0 && (list.is_empty() || !begins(b".", 0) || !begins(b"..", 1)) {
            return Err("the listing does not begin with . and ..".into());
        }
        for (nth, got) in list.iter().enumerate() {
            let name = got.name.escape_ascii();
            if list[..nth].iter().any(|other| other.name == got.name) {
                return Err(format!("{name} is listed twice"));
            }
            let Some((_, _, ino)) = names.iter().find(|(_, name, _)| *name == got.name) else {
                return Err(format!("{name} is listed but does not exist"));
            };
            let ino = if self.may_become(*ino, got.ino) {
                self.renumber(*ino, got.ino);
                got.ino
            } else {
                *ino
            };
            let kind = self.inodes[&ino].attr.kind();
            if (ino, kind) != (got.ino, got.kind) {
                let (a, b) = (got.ino, got.kind);
                return Err(format!("{name} is inode {ino}, kind {kind:o}; listed as {a}, {b:o}"));
            }
            match &got.entry {
                Some(entry) if plus && !is_dot(&got.name) => {
                    let expected = self.entry(ino).attr;
                    compare_attr(&expected, &entry.attr).map_err(|e| format!("{name}: {e}"))?;
                }
                None if !plus || is_dot(&got.name) => {}
                _ => return Err(format!("{name} has an entry, or has none, unasked")),
            }
        }
        Ok(())
    }
}

fn compare(
    op: &Op,
    block_size: usize,
    expected: &Result<Reply>,
    got: &Result<Reply>,
) -> Result<(), String> {
    match (expected, got) {
        (Err(a), Err(b)) if same_error(a, b) => Ok(()),
        (Err(a), Err(b)) => Err(format!("expected the error \"{a}\", got the error \"{b}\"")),
        (Err(a), Ok(b)) => Err(format!("expected the error \"{a}\", got {b:?}")),
        (Ok(a), Err(b)) => Err(format!("expected {a:?}, got the error \"{b}\"")),
        (Ok(Reply::Entry(a)), Ok(Reply::Entry(b))) => compare_attr(&a.attr, &b.attr),
        (Ok(Reply::Attr(a)), Ok(Reply::Attr(b))) => compare_attr(a, b),
        (Ok(Reply::Data(a)), Ok(Reply::Data(b))) => {
            let Op::Read { off, .. } = op else { return Err("data, unasked".into()) };
            compare_data(*off, block_size, a, b)
        }
        (Ok(Reply::Stat(_)), Ok(Reply::Stat(_))) => Ok(()),
        (Ok(Reply::Bytes(a)), Ok(Reply::Bytes(b))) if matches!(op, Op::ListXattr { .. }) => {
            let sorted = |list: &[u8]| {
                let mut names: Vec<Vec<u8>> = list.split(|b| *b == 0).map(Vec::from).collect();
                names.sort();
                names
            };
            same("the list of attributes", &sorted(a), &sorted(b))
        }
        (Ok(a), Ok(b)) => same("the reply", a, b),
    }
}

/// Errors are compared by kind; an inode that is gone may be called stale or not found.
fn same_error(a: &FsError, b: &FsError) -> bool {
    let gone = |error: &FsError| matches!(error, FsError::Stale | FsError::NotFound);
    discriminant(a) == discriminant(b) || (*a == FsError::Stale && gone(b))
}

fn same<T: PartialEq + std::fmt::Debug>(what: &str, expected: &T, got: &T) -> Result<(), String> {
    if expected == got {
        Ok(())
    } else {
        Err(format!("{what}: expected {expected:?}, got {got:?}"))
    }
}

fn compare_attr(expected: &Attr, got: &Attr) -> Result<(), String> {
    same("inode number", &expected.ino, &got.ino)?;
    if expected.mode != got.mode {
        return Err(format!("mode: expected {:o}, got {:o}", expected.mode, got.mode));
    }
    same("links", &expected.nlink, &got.nlink)?;
    same("owner", &(expected.uid, expected.gid), &(got.uid, got.gid))?;
    same("device number", &expected.rdev, &got.rdev)?;
    if !expected.is_dir() {
        same("size", &expected.size, &got.size)?;
    }
    same("access time", &expected.atime, &got.atime)?;
    same("modification time", &expected.mtime, &got.mtime)?;
    same("change time", &expected.ctime, &got.ctime)?;
    same("birth time", &expected.btime, &got.btime)
}

fn total(blocks: &[Block]) -> usize {
    blocks.iter().map(Block::len).sum()
}

/// Compares data block by block of the file: zeros in any form are equal to each other.
fn compare_data(off: u64, block_size: usize, a: &[Block], b: &[Block]) -> Result<(), String> {
    same("bytes read", &total(a), &total(b))?;
    let mut at = 0;
    while at < total(a) {
        let in_block = (off as usize + at) % block_size;
        let len = (block_size - in_block).min(total(a) - at);
        let (x, y) = (gather(a, at, len), gather(b, at, len));
        if x != y && !(is_zero(&x) && is_zero(&y)) {
            let place = off + at as u64;
            return Err(format!("data at {place}: expected {x:?}, got {y:?}"));
        }
        at += len;
    }
    Ok(())
}

pub(super) fn is_zero(block: &Block) -> bool {
    match block {
        Block::Zero(_) => true,
        Block::Bytes(bytes) => bytes.iter().all(|b| *b == 0),
        Block::Stamp(_) => false,
    }
}
