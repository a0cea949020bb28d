//! A history as bytes, to be looked at again later.
//!
//! Contract: [`read`] gives what [`write`](fn@write) was given, and refuses bytes that are none of its, or cut, with words; it
//! allocates no more than the bytes themselves are long. Numbers have seven bits a byte, the low ones first; what varies
//! in length has its length before it.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::history::{Event, History, What};
use crate::tree::{BLOCK, Block, Body, Id, Meta, Node, Tree};

const MAGIC: &[u8] = b"twinfs-crashlab-history-1\n";

#[derive(Default)]
struct Out(Vec<u8>);

impl Out {
    fn number(&mut self, mut n: u64) {
        while n >= 0x80 {
            self.0.push(n as u8 | 0x80);
            n >>= 7;
        }
        self.0.push(n as u8);
    }

    fn bytes(&mut self, bytes: &[u8]) {
        self.number(bytes.len() as u64);
        self.0.extend(bytes);
    }

    /// Nothing, or one more than the number.
    fn maybe(&mut self, n: Option<u64>) {
        self.number(n.map_or(0, |n| n + 1));
    }

    fn maybe_bytes(&mut self, bytes: Option<&[u8]>) {
        self.number(bytes.is_some().into());
        self.bytes(bytes.unwrap_or_default());
    }

    fn meta(&mut self, meta: &Meta) {
        let Meta { mode, uid, gid, rdev } = *meta;
        [mode.into(), uid.into(), gid.into(), rdev].into_iter().for_each(|n| self.number(n));
    }

    fn numbers(&mut self, numbers: &[u64]) {
        numbers.iter().for_each(|&n| self.number(n));
    }
}

struct In<'a>(&'a [u8]);

type Read<T> = Result<T, String>;

fn cut() -> String {
    "the recording is cut or damaged".into()
}

impl<'a> In<'a> {
    fn number(&mut self) -> Read<u64> {
        let mut n = 0u64;
        for shift in (0..64).step_by(7) {
            let (&byte, rest) = self.0.split_first().ok_or_else(cut)?;
            self.0 = rest;
            n |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Ok(n);
            }
        }
        Err(cut())
    }

    fn short(&mut self) -> Read<u32> {
        u32::try_from(self.number()?).map_err(|_| cut())
    }

    fn bytes(&mut self) -> Read<&'a [u8]> {
        let len = self.number()?;
        let len = usize::try_from(len).ok().filter(|&len| len <= self.0.len()).ok_or_else(cut)?;
        let (bytes, rest) = self.0.split_at(len);
        self.0 = rest;
        Ok(bytes)
    }

    fn boxed(&mut self) -> Read<Box<[u8]>> {
        self.bytes().map(Into::into)
    }

    fn text(&mut self) -> Read<String> {
        self.bytes().map(|bytes| String::from_utf8_lossy(bytes).into_owned())
    }

    fn maybe(&mut self) -> Read<Option<u64>> {
        self.number().map(|n| n.checked_sub(1))
    }

    fn maybe_short(&mut self) -> Read<Option<u32>> {
        self.maybe()?.map(|n| u32::try_from(n).map_err(|_| cut())).transpose()
    }

    fn maybe_bytes(&mut self) -> Read<Option<Box<[u8]>>> {
        let is_there = self.number()? != 0;
        let bytes = self.boxed()?;
        Ok(is_there.then_some(bytes))
    }

    fn meta(&mut self) -> Read<Meta> {
        Ok(Meta {
            mode: self.short()?,
            uid: self.short()?,
            gid: self.short()?,
            rdev: self.number()?,
        })
    }
}

/// The history with the path at which its volume was.
pub fn write(history: &History, path: &str) -> Vec<u8> {
    let mut out = Out(MAGIC.to_vec());
    out.bytes(path.as_bytes());
    let nodes: Vec<(Id, &Node)> = history.base.nodes().collect();
    out.number(nodes.len() as u64);
    nodes.into_iter().for_each(|(id, node)| put_node(&mut out, id, node));
    out.number(history.events.len() as u64);
    for event in &history.events {
        out.bytes(event.path.as_bytes());
        put_what(&mut out, &event.what);
    }
    out.0
}

fn put_node(out: &mut Out, id: Id, node: &Node) {
    out.number(id);
    out.meta(&node.meta);
    out.number(node.xattrs.len() as u64);
    for (name, value) in &node.xattrs {
        out.bytes(name);
        out.bytes(value);
    }
    match &node.body {
        Body::File { size, blocks } => {
            out.numbers(&[0, *size, blocks.len() as u64]);
            for (number, block) in blocks {
                out.number(*number);
                out.bytes(&block.bytes);
            }
        }
        Body::Dir(names) => {
            out.number(1);
            out.number(names.len() as u64);
            for (name, child) in names {
                out.bytes(name);
                out.number(*child);
            }
        }
        Body::Symlink(target) => {
            out.number(2);
            out.bytes(target);
        }
        Body::Special => out.number(3),
    }
}

fn put_what(out: &mut Out, what: &What) {
    match what {
        What::Make { dir, name, id, meta, target } => {
            out.numbers(&[0, *dir, *id]);
            out.bytes(name);
            out.meta(meta);
            out.maybe_bytes(target.as_deref());
        }
        What::Link { dir, name, id } => {
            out.numbers(&[1, *dir, *id]);
            out.bytes(name);
        }
        What::Remove { dir, name, id } => {
            out.numbers(&[2, *dir, *id]);
            out.bytes(name);
        }
        What::Rename { dir, name, to_dir, to_name, id, replaced, exchange } => {
            out.numbers(&[3, *dir, *to_dir, *id]);
            out.bytes(name);
            out.bytes(to_name);
            out.maybe(*replaced);
            out.number((*exchange).into());
        }
        What::Write { id, off, bytes, was } => {
            out.numbers(&[4, *id, *off, *was]);
            out.bytes(bytes);
        }
        What::Resize { id, size, was } => out.numbers(&[5, *id, *size, *was]),
        What::Allocate { id, size, was } => out.numbers(&[6, *id, *size, *was]),
        What::Zero { id, off, len, size } => out.numbers(&[7, *id, *off, *len, *size]),
        What::Attr { id, mode, uid, gid } => {
            out.numbers(&[8, *id]);
            [mode, uid, gid].into_iter().for_each(|n| out.maybe(n.map(u64::from)));
        }
        What::Xattr { id, name, value } => {
            out.numbers(&[9, *id]);
            out.bytes(name);
            out.maybe_bytes(value.as_deref());
        }
        What::Fsync { id, data_only, since } => {
            out.numbers(&[10, *id, (*data_only).into(), *since as u64])
        }
        What::Sync { since } => out.numbers(&[11, *since as u64]),
        What::Close { id } => out.numbers(&[12, *id]),
        What::Exit => out.number(14),
        What::Ack { label } => {
            out.number(13);
            out.bytes(label.as_bytes());
        }
    }
}

/// A history, and the path at which its volume was.
///
/// # Errors
/// If the bytes are no history.
pub fn read(bytes: &[u8]) -> Result<(History, String), String> {
    let bytes = bytes.strip_prefix(MAGIC).ok_or("this is no recording of the crash lab")?;
    let mut input = In(bytes);
    let path = input.text()?;
    let mut base = Tree::default();
    for _ in 0..input.number()? {
        let (id, node) = get_node(&mut input)?;
        base.put(id, node);
    }
    let mut events = Vec::new();
    for _ in 0..input.number()? {
        let path = input.text()?;
        events.push(Event { path, what: get_what(&mut input)? });
    }
    Ok((History { base, events, promised: None }, path))
}

fn get_node(input: &mut In<'_>) -> Read<(Id, Node)> {
    let id = input.number()?;
    let meta = input.meta()?;
    let mut xattrs = BTreeMap::new();
    for _ in 0..input.number()? {
        xattrs.insert(input.boxed()?, input.boxed()?);
    }
    let body = match input.number()? {
        0 => {
            let (size, mut blocks) = (input.number()?, BTreeMap::new());
            for _ in 0..input.number()? {
                let (number, bytes) = (input.number()?, input.boxed()?);
                if bytes.len() as u64 != BLOCK {
                    return Err(cut());
                }
                blocks.insert(number, Arc::new(Block::new(bytes)));
            }
            Body::File { size, blocks }
        }
        1 => {
            let mut names = BTreeMap::new();
            for _ in 0..input.number()? {
                names.insert(input.boxed()?, input.number()?);
            }
            Body::Dir(names)
        }
        2 => Body::Symlink(input.boxed()?),
        3 => Body::Special,
        _ => return Err(cut()),
    };
    Ok((id, Node { meta, body, xattrs }))
}

fn get_what(input: &mut In<'_>) -> Read<What> {
    Ok(match input.number()? {
        0 => {
            let (dir, id) = (input.number()?, input.number()?);
            let (name, meta) = (input.boxed()?, input.meta()?);
            What::Make { dir, name, id, meta, target: input.maybe_bytes()? }
        }
        1 => What::Link { dir: input.number()?, id: input.number()?, name: input.boxed()? },
        2 => What::Remove { dir: input.number()?, id: input.number()?, name: input.boxed()? },
        3 => What::Rename {
            dir: input.number()?,
            to_dir: input.number()?,
            id: input.number()?,
            name: input.boxed()?,
            to_name: input.boxed()?,
            replaced: input.maybe()?,
            exchange: input.number()? != 0,
        },
        4 => {
            let (id, off, was) = (input.number()?, input.number()?, input.number()?);
            let bytes = input.bytes()?.into();
            What::Write { id, off, bytes, was }
        }
        5 => What::Resize { id: input.number()?, size: input.number()?, was: input.number()? },
        6 => What::Allocate { id: input.number()?, size: input.number()?, was: input.number()? },
        7 => {
            let (id, off, len) = (input.number()?, input.number()?, input.number()?);
            What::Zero { id, off, len, size: input.number()? }
        }
        8 => What::Attr {
            id: input.number()?,
            mode: input.maybe_short()?,
            uid: input.maybe_short()?,
            gid: input.maybe_short()?,
        },
        9 => What::Xattr { id: input.number()?, name: input.boxed()?, value: input.maybe_bytes()? },
        10 => {
            let (id, data_only) = (input.number()?, input.number()? != 0);
            What::Fsync { id, data_only, since: input.number()? as usize }
        }
        11 => What::Sync { since: input.number()? as usize },
        12 => What::Close { id: input.number()? },
        13 => What::Ack { label: input.text()? },
        14 => What::Exit,
        _ => return Err(cut()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::ROOT;

    fn history() -> History {
        let meta = Meta { mode: twin_fs::mode::REGULAR | 0o640, uid: 7, gid: 1 << 20, rdev: 0 };
        let name = |text: &str| -> Box<[u8]> { text.as_bytes().into() };
        let whats = [
            What::Make { dir: ROOT, name: name("a"), id: 1, meta, target: None },
            What::Make { dir: ROOT, name: name("s"), id: 2, meta, target: Some(name("a")) },
            What::Link { dir: ROOT, name: name("b"), id: 1 },
            What::Write { id: 1, off: 300, bytes: vec![9; 5000].into(), was: 0 },
            What::Resize { id: 1, size: 100, was: 5300 },
            What::Allocate { id: 1, size: 200, was: 100 },
            What::Zero { id: 1, off: 1, len: 2, size: 200 },
            What::Attr { id: 1, mode: Some(0), uid: None, gid: Some(3) },
            What::Xattr { id: 1, name: name("user.x"), value: Some(name("")) },
            What::Fsync { id: 1, data_only: true, since: 8 },
            What::Sync { since: 10 },
            What::Close { id: 1 },
            What::Ack { label: "42".into() },
            What::Exit,
            What::Remove { dir: ROOT, name: name("b"), id: 1 },
            What::Rename {
                dir: ROOT,
                name: name("a"),
                to_dir: ROOT,
                to_name: name("s"),
                id: 1,
                replaced: Some(2),
                exchange: true,
            },
        ];
        let events = whats
            .into_iter()
            .map(|what| Event { path: format!("{what:?}").len().to_string(), what });
        let mut history =
            History { base: Tree::default(), events: events.collect(), promised: None };
        history.base = history.last();
        history
    }

    #[test]
    fn a_history_is_read_as_it_was_written() {
        let history = history();
        let (read, path) = read(&write(&history, "/tmp/volume")).unwrap();
        assert_eq!(path, "/tmp/volume");
        assert_eq!(read.events, history.events);
        assert_eq!(read.base.digest(), history.base.digest());
    }

    #[test]
    fn a_history_that_was_cut_anywhere_is_refused() {
        let bytes = write(&history(), "/");
        for len in 0..bytes.len() {
            assert!(read(&bytes[..len]).is_err(), "{len} of {}", bytes.len());
        }
    }
}
