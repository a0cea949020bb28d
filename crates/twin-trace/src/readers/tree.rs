//! The tree that a reader keeps in memory: it turns paths into the operations with which a kernel
//! would reach them, with inode numbers as a recorder would assign them.

use std::collections::VecDeque;

use twin_fs::{Cred, Data, Ino, Name, Op, ROOT_INO, Request};
use twin_rt::{FixedMap, Nanos};

use crate::record::{ErrorCode, Outcome, Record};

/// Inodes and names, and the records made from them.
pub(super) struct Tree {
    names: FixedMap<(Ino, Name), Ino>,
    nodes: FixedMap<Ino, Inode>,
    next_ino: Ino,
    requests: u64,
    records: VecDeque<Record>,
    /// The time of the next operations.
    pub(super) at_ns: Nanos,
    /// The client that makes the requests.
    pub(super) client: u32,
}

/// What is known of an inode.
#[derive(Clone, Copy, Default)]
pub(super) struct Inode {
    /// Length in bytes.
    pub(super) size: u64,
    /// References that the client holds.
    refs: u64,
    opens: u64,
    is_dir: bool,
    /// The number of names.
    names: u64,
    /// Number of names in it, if it is a directory.
    entries: u64,
}

impl Tree {
    pub(super) fn new() -> Tree {
        let root = Inode { is_dir: true, names: 1, ..Inode::default() };
        Tree {
            names: FixedMap::default(),
            nodes: [(ROOT_INO, root)].into_iter().collect(),
            next_ino: ROOT_INO + 1,
            requests: 0,
            records: VecDeque::new(),
            at_ns: 0,
            client: 1,
        }
    }

    /// The next record that is ready.
    pub(super) fn pop(&mut self) -> Option<Record> {
        self.records.pop_front()
    }

    /// All records that are left, in the order of their times.
    pub(super) fn into_records(self) -> impl Iterator<Item = Record> {
        let mut records = self.records;
        records.make_contiguous().sort_by_key(|record| match record {
            Record::Request { at_ns, .. } | Record::Reply { at_ns, .. } => *at_ns,
            Record::Node(_) => 0,
        });
        records.into_iter()
    }

    /// The number of operations so far.
    pub(super) fn operations(&self) -> u64 {
        self.requests
    }

    /// The latest answer came so much later than its request.
    pub(super) fn answered_after(&mut self, ns: Nanos) {
        if let Some(Record::Reply { at_ns, .. }) = self.records.back_mut() {
            *at_ns = at_ns.saturating_add(ns);
        }
    }

    /// Adds an operation and its answer.
    pub(super) fn op(&mut self, op: Op, outcome: Outcome) {
        self.requests += 1;
        let (at_ns, id) = (self.at_ns, self.requests);
        let answered = !matches!(op, Op::Forget { .. });
        let request = Request { id, client: self.client, cred: Cred::root(), op };
        self.records.push_back(Record::Request { at_ns, request });
        if answered {
            self.records.push_back(Record::Reply { at_ns, id, outcome });
        }
    }

    pub(super) fn inode(&self, ino: Ino) -> Inode {
        self.nodes.get(&ino).copied().unwrap_or_default()
    }

    fn inode_mut(&mut self, ino: Ino) -> &mut Inode {
        self.nodes.entry(ino).or_default()
    }

    /// The inode of a name, without adding an operation.
    pub(super) fn known(&self, dir: Ino, name: &[u8]) -> Option<Ino> {
        self.names.get(&(dir, name.into())).copied()
    }

    pub(super) fn is_dir(&self, ino: Ino) -> bool {
        self.inode(ino).is_dir
    }

    /// Looks a name up.
    pub(super) fn lookup(&mut self, dir: Ino, name: &[u8]) -> Option<Ino> {
        let found = self.known(dir, name);
        let outcome = match found {
            Some(ino) => Outcome::Entry(ino),
            None => Outcome::Failed(ErrorCode::NotFound),
        };
        self.op(Op::Lookup { dir, name: name.into() }, outcome);
        if let Some(ino) = found {
            self.inode_mut(ino).refs += 1;
        }
        found
    }

    fn add(&mut self, dir: Ino, name: &[u8], inode: Inode) -> Ino {
        let ino = self.next_ino;
        self.next_ino += 1;
        self.names.insert((dir, name.into()), ino);
        self.inode_mut(dir).entries += 1;
        self.nodes.insert(ino, Inode { names: 1, ..inode });
        ino
    }

    /// Adds what existed before the trace, without an operation.
    pub(super) fn add_existing(&mut self, dir: Ino, name: &[u8], is_dir: bool) -> Ino {
        self.add(dir, name, Inode { is_dir, ..Inode::default() })
    }

    /// What existed before turns out to be a directory.
    pub(super) fn becomes_dir(&mut self, ino: Ino) {
        self.inode_mut(ino).is_dir = true;
    }

    /// Sets the length that is known of a file, without an operation.
    pub(super) fn set_size(&mut self, ino: Ino, size: u64) {
        self.inode_mut(ino).size = size;
    }

    /// Gives a file another name, which is free.
    pub(super) fn link(&mut self, ino: Ino, dir: Ino, name: &[u8]) {
        self.names.insert((dir, name.into()), ino);
        self.inode_mut(dir).entries += 1;
        let inode = self.inode_mut(ino);
        inode.names += 1;
        inode.refs += 1;
        self.op(Op::Link { ino, dir, name: name.into() }, Outcome::Entry(ino));
    }

    /// Makes a symbolic link whose name is free.
    pub(super) fn symlink(&mut self, dir: Ino, name: &[u8], target: &[u8]) {
        let size = target.len() as u64;
        let ino = self.add(dir, name, Inode { refs: 1, size, ..Inode::default() });
        let op = Op::Symlink { dir, name: name.into(), target: target.into() };
        self.op(op, Outcome::Entry(ino));
    }

    /// Creates a directory whose name is free.
    pub(super) fn make_dir(&mut self, dir: Ino, name: &[u8]) -> Ino {
        let ino = self.add(dir, name, Inode { refs: 1, is_dir: true, ..Inode::default() });
        self.op(Op::MakeDir { dir, name: name.into(), mode: 0o755 }, Outcome::Entry(ino));
        ino
    }

    /// Creates and opens a file whose name is free.
    pub(super) fn create(&mut self, dir: Ino, name: &[u8]) -> Ino {
        let ino = self.add(dir, name, Inode { refs: 1, opens: 1, ..Inode::default() });
        let op = Op::Create { dir, name: name.into(), mode: 0o644, exclusive: true };
        self.op(op, Outcome::Entry(ino));
        ino
    }

    pub(super) fn open(&mut self, ino: Ino, write: bool, truncate: bool) {
        let inode = self.inode_mut(ino);
        inode.opens += 1;
        if truncate {
            inode.size = 0;
        }
        self.op(Op::Open { ino, read: true, write, truncate }, Outcome::Done);
    }

    pub(super) fn release(&mut self, ino: Ino) {
        let inode = self.inode_mut(ino);
        inode.opens = inode.opens.saturating_sub(1);
        self.op(Op::Release { ino }, Outcome::Done);
        self.reap(ino);
    }

    pub(super) fn write(&mut self, ino: Ino, off: u64, len: u64) {
        let inode = self.inode_mut(ino);
        inode.size = inode.size.max(off.saturating_add(len));
        self.op(Op::Write { ino, off, data: Data::Synthetic(len) }, Outcome::Written(len));
    }

    /// Writes a file from its start in pieces of a MiB.
    pub(super) fn write_whole(&mut self, ino: Ino, size: u64) {
        const PIECE: u64 = 1 << 20;
        for off in (0..size).step_by(PIECE as usize) {
            self.write(ino, off, PIECE.min(size - off));
        }
    }

    /// Removes an existing name.
    pub(super) fn remove(&mut self, dir: Ino, name: &[u8]) {
        let Some(ino) = self.names.remove(&(dir, name.into())) else { return };
        self.lose_entry(dir);
        let name = name.into();
        let op = match self.is_dir(ino) {
            true => Op::RemoveDir { dir, name },
            false => Op::Unlink { dir, name },
        };
        self.lose_name(ino);
        self.op(op, Outcome::Done);
        self.reap(ino);
    }

    /// Renames an existing name; a target is replaced.
    pub(super) fn rename(&mut self, dir: Ino, name: &[u8], to_dir: Ino, to_name: &[u8]) {
        let Some(ino) = self.names.remove(&(dir, name.into())) else { return };
        self.lose_entry(dir);
        let replaced = self.names.insert((to_dir, to_name.into()), ino);
        self.inode_mut(to_dir).entries += u64::from(replaced.is_none());
        let (name, to_name) = (name.into(), to_name.into());
        let op = Op::Rename { dir, name, to_dir, to_name, mode: Default::default() };
        self.op(op, Outcome::Done);
        if let Some(old) = replaced.filter(|&old| old != ino) {
            self.lose_name(old);
            self.reap(old);
        }
    }

    /// A trace may have removed a directory in which names are left.
    fn lose_entry(&mut self, dir: Ino) {
        let dir = self.inode_mut(dir);
        dir.entries = dir.entries.saturating_sub(1);
    }

    fn lose_name(&mut self, ino: Ino) {
        let inode = self.inode_mut(ino);
        inode.names = inode.names.saturating_sub(1);
    }

    /// Forgets an inode that has neither a name nor opens, as a kernel does.
    fn reap(&mut self, ino: Ino) {
        let Inode { names, opens, refs, .. } = self.inode(ino);
        if names == 0 && opens == 0 && self.nodes.contains_key(&ino) {
            self.nodes.remove(&ino);
            self.op(Op::Forget { ino, count: refs }, Outcome::Done);
        }
    }

    /// Removes everything below a directory. Takes time in proportion to the number of names.
    pub(super) fn clear(&mut self, dir: Ino) {
        let inside = self.names.iter().filter(|((parent, _), _)| *parent == dir);
        let mut names: Vec<(Name, Ino)> =
            inside.map(|((_, name), &ino)| (name.clone(), ino)).collect();
        names.sort_unstable();
        for (name, ino) in names {
            if self.is_dir(ino) {
                self.clear(ino);
            }
            self.remove(dir, &name);
        }
    }

    /// Lists a directory from its start, as far as one answer reaches.
    pub(super) fn list(&mut self, dir: Ino) {
        let entries = u32::try_from(self.inode(dir).entries).unwrap_or(u32::MAX);
        let outcome = crate::DirOutcome { entries, next: u64::from(entries), ..Default::default() };
        let op = Op::ReadDir { dir, cookie: 0, max_bytes: 32 << 10, plus: false };
        self.op(op, Outcome::Dir(outcome));
    }
}
