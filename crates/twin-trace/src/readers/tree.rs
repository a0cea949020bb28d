//! The tree that a reader keeps in memory: it turns paths into the operations with which a kernel
//! would reach them, with inode numbers as a recorder would assign them.

use std::collections::{BTreeMap, VecDeque};

use twin_fs::{Cred, Data, Ino, Name, Op, ROOT_INO, RenameMode, Request, mode};
use twin_rt::{FixedMap, Nanos};

use crate::record::{ErrorCode, Outcome, Record};

/// Inodes and names, and the records made from them.
pub(super) struct Tree {
    /// The names in each directory that has some.
    names: FixedMap<Ino, BTreeMap<Name, Ino>>,
    nodes: FixedMap<Ino, Inode>,
    next_ino: Ino,
    requests: u64,
    records: VecDeque<Record>,
    /// Nothing is recorded: only what is known changes.
    is_silent: bool,
    /// The time of the next operations.
    pub(super) at_ns: Nanos,
    /// The client that makes the requests.
    pub(super) client: u32,
}

/// The facts about one inode.
#[derive(Clone, Copy, Default)]
pub(super) struct Inode {
    /// Length of the file in bytes.
    pub(super) size: u64,
    /// References that the client holds.
    refs: u64,
    opens: u64,
    is_dir: bool,
    /// The number of names.
    names: u64,
    /// The directory of a directory.
    pub(super) parent: Ino,
    /// The type bits of its mode, if it is neither a directory nor a regular file.
    pub(super) special: u32,
    /// A reader's note about the origin of the inode.
    pub(super) origin: Origin,
    /// Bytes that were appended wherever its end was.
    pub(super) appended: u64,
}

/// Where an inode comes from, and whether its length at the beginning of the trace may still turn out to
/// be another one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Origin {
    /// The trace created the inode.
    #[default]
    Made,
    /// The trace seems to have created the inode; nothing shows whether it existed before.
    MadePerhaps,
    /// The inode existed before; a lower bound of its length is known.
    Existed,
    /// The inode existed before, and its length at that time is known.
    Known,
}

impl Inode {
    pub(super) fn is_dir(&self) -> bool {
        self.is_dir
    }

    /// True for a regular file.
    pub(super) fn is_file(&self) -> bool {
        !self.is_dir && self.special == 0
    }
}

impl Tree {
    pub(super) fn new() -> Tree {
        let parent = ROOT_INO;
        let root =
            Inode { is_dir: true, names: 1, parent, origin: Origin::Known, ..Inode::default() };
        Tree {
            names: FixedMap::default(),
            nodes: [(ROOT_INO, root)].into_iter().collect(),
            next_ino: ROOT_INO + 1,
            requests: 0,
            records: VecDeque::new(),
            is_silent: false,
            at_ns: 0,
            client: 1,
        }
    }

    /// The next record that is ready.
    pub(super) fn pop(&mut self) -> Option<Record> {
        self.records.pop_front()
    }

    /// A tree that records nothing.
    pub(super) fn silent() -> Tree {
        Tree { is_silent: true, ..Tree::new() }
    }

    /// Inodes that are made from now on have at least this number.
    pub(super) fn number_from(&mut self, ino: Ino) {
        self.next_ino = self.next_ino.max(ino);
    }

    /// Adds an operation and its answer.
    pub(super) fn op(&mut self, op: Op, outcome: Outcome) {
        self.requests += 1;
        if self.is_silent {
            return;
        }
        let (at_ns, id) = (self.at_ns, self.requests);
        let answered = !matches!(op, Op::Forget { .. });
        let request = Request { id, client: self.client, cred: Cred::root(), op };
        self.records.push_back(Record::Request { at_ns, request });
        if answered {
            self.records.push_back(Record::Reply { at_ns, id, outcome });
        }
    }

    /// Adds an operation whose answer follows later; returns its number.
    pub(super) fn begin(&mut self, op: Op) -> u64 {
        self.op(op, Outcome::Done);
        self.records.pop_back();
        self.requests
    }

    pub(super) fn inode(&self, ino: Ino) -> Inode {
        self.nodes.get(&ino).copied().unwrap_or_default()
    }

    pub(super) fn inode_mut(&mut self, ino: Ino) -> &mut Inode {
        self.nodes.entry(ino).or_default()
    }

    /// The inode of a name, without adding an operation.
    pub(super) fn known(&self, dir: Ino, name: &[u8]) -> Option<Ino> {
        self.names.get(&dir)?.get(name).copied()
    }

    /// True as long as it has a name or is open.
    pub(super) fn exists(&self, ino: Ino) -> bool {
        self.nodes.contains_key(&ino)
    }

    /// The number of names in a directory.
    pub(super) fn entries(&self, dir: Ino) -> u64 {
        self.names.get(&dir).map_or(0, |names| names.len() as u64)
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
        self.names.entry(dir).or_default().insert(name.into(), ino);
        self.nodes.insert(ino, Inode { names: 1, parent: dir, ..inode });
        ino
    }

    /// Adds what existed before the trace, without an operation.
    pub(super) fn add_existing(&mut self, dir: Ino, name: &[u8], is_dir: bool) -> Ino {
        self.add(dir, name, Inode { is_dir, origin: Origin::Existed, ..Inode::default() })
    }

    /// Adds an inode that existed before the trace under a number that it has already.
    pub(super) fn put_existing(&mut self, dir: Ino, name: &[u8], ino: Ino, inode: Inode) {
        self.names.entry(dir).or_default().insert(name.into(), ino);
        self.nodes.insert(ino, Inode { names: 1, parent: dir, ..inode });
        self.number_from(ino + 1);
    }

    /// A file from before turns out to be a directory.
    pub(super) fn becomes_dir(&mut self, ino: Ino) {
        let inode = self.inode_mut(ino);
        (inode.is_dir, inode.special, inode.size) = (true, 0, 0);
    }

    /// An inode of this kind.
    pub(super) fn of_kind(kind: u32) -> Inode {
        let is_dir = kind == mode::DIRECTORY;
        let special = if is_dir || kind == mode::REGULAR { 0 } else { kind };
        Inode { is_dir, special, ..Inode::default() }
    }

    /// Sets the length that is known of a file, without an operation.
    pub(super) fn set_size(&mut self, ino: Ino, size: u64) {
        self.inode_mut(ino).size = size;
    }

    /// Gives a file another name, which is free.
    pub(super) fn link(&mut self, ino: Ino, dir: Ino, name: &[u8]) {
        self.names.entry(dir).or_default().insert(name.into(), ino);
        let inode = self.inode_mut(ino);
        inode.names += 1;
        inode.refs += 1;
        self.op(Op::Link { ino, dir, name: name.into() }, Outcome::Entry(ino));
    }

    /// Makes a symbolic link whose name is free.
    pub(super) fn symlink(&mut self, dir: Ino, name: &[u8], target: &[u8]) -> Ino {
        let (size, special) = (target.len() as u64, mode::SYMLINK);
        let ino = self.add(dir, name, Inode { refs: 1, size, special, ..Inode::default() });
        let op = Op::Symlink { dir, name: name.into(), target: target.into() };
        self.op(op, Outcome::Entry(ino));
        ino
    }

    /// Makes a file that is neither a directory nor a symbolic link, whose name is free.
    pub(super) fn make_node(&mut self, dir: Ino, name: &[u8], mode: u32) {
        let ino = self.add(dir, name, Inode { refs: 1, ..Tree::of_kind(mode & mode::TYPE) });
        let op = Op::MakeNode { dir, name: name.into(), mode, rdev: 0 };
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
        let Some(ino) = self.unname(dir, name) else { return };
        let name = name.into();
        let op = match self.is_dir(ino) {
            true => Op::RemoveDir { dir, name },
            false => Op::Unlink { dir, name },
        };
        self.lose_name(ino);
        self.op(op, Outcome::Done);
        self.reap(ino);
    }

    /// Takes a name away, without an operation.
    fn unname(&mut self, dir: Ino, name: &[u8]) -> Option<Ino> {
        let names = self.names.get_mut(&dir)?;
        let ino = names.remove(name)?;
        if names.is_empty() {
            self.names.remove(&dir);
        }
        Some(ino)
    }

    /// Renames an existing name; a target is replaced.
    pub(super) fn rename(&mut self, dir: Ino, name: &[u8], to_dir: Ino, to_name: &[u8]) {
        self.rename_as(dir, name, to_dir, to_name, RenameMode::Replace);
    }

    /// Renames an existing name in one of the ways of `renameat2`.
    pub(super) fn rename_as(
        &mut self,
        dir: Ino,
        name: &[u8],
        to_dir: Ino,
        to_name: &[u8],
        mode: RenameMode,
    ) {
        let Some(ino) = self.known(dir, name) else { return };
        let old = self.known(to_dir, to_name);
        let op = Op::Rename { dir, name: name.into(), to_dir, to_name: to_name.into(), mode };
        // Two names of one inode stay as they are.
        if old == Some(ino) {
            self.op(op, Outcome::Done);
            return;
        }
        self.unname(dir, name);
        self.names.entry(to_dir).or_default().insert(to_name.into(), ino);
        self.inode_mut(ino).parent = to_dir;
        if let (RenameMode::Exchange, Some(old)) = (mode, old) {
            self.names.entry(dir).or_default().insert(name.into(), old);
            self.inode_mut(old).parent = dir;
            self.op(op, Outcome::Done);
            return;
        }
        if mode == RenameMode::Whiteout {
            self.add(dir, name, Tree::of_kind(mode::CHAR));
        }
        self.op(op, Outcome::Done);
        if let Some(old) = old {
            self.lose_name(old);
            self.reap(old);
        }
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
            self.names.remove(&ino);
            self.op(Op::Forget { ino, count: refs }, Outcome::Done);
        }
    }

    /// Removes everything below a directory.
    pub(super) fn clear(&mut self, dir: Ino) {
        // The walk has a stack of its own, because a trace may have directories of any depth.
        let mut open = vec![(dir, self.names_in(dir))];
        while let Some((dir, left)) = open.last_mut() {
            let dir = *dir;
            match left.pop() {
                Some((name, Some(ino))) => {
                    // A directory is removed when nothing is left in it.
                    left.push((name, None));
                    let inside = self.names_in(ino);
                    open.push((ino, inside));
                }
                Some((name, None)) => self.remove(dir, &name),
                None => drop(open.pop()),
            }
        }
    }

    /// The names in a directory, the last one first, with the inodes of those that are directories.
    fn names_in(&self, dir: Ino) -> Vec<(Name, Option<Ino>)> {
        let Some(inside) = self.names.get(&dir) else { return Vec::new() };
        let as_dir = |ino: Ino| self.is_dir(ino).then_some(ino);
        let names = inside.iter().map(|(name, &ino)| (name.clone(), as_dir(ino)));
        names.rev().collect()
    }

    /// Lists a directory from its start, as far as one answer reaches.
    pub(super) fn list(&mut self, dir: Ino) {
        let entries = u32::try_from(self.entries(dir)).unwrap_or(u32::MAX);
        let outcome = crate::DirOutcome { entries, next: u64::from(entries), ..Default::default() };
        let op = Op::ReadDir { dir, cookie: 0, max_bytes: 32 << 10, plus: false };
        self.op(op, Outcome::Dir(outcome));
    }
}
