//! Names, kinds and lengths of files as the text tells them, and what must have existed before.
//!
//! Contract: the text is read twice. The first time nothing is recorded: it is learned what existed before
//! the trace, of which kind it was and how long. The second time the world begins with that. What
//! contradicts the text later (a file that appears, vanishes, grows or shrinks though no call did it) is
//! made so by an operation of the reader's own, which is counted as an assumption: so every operation of the
//! text succeeds again, with its length. Memory is that of the distinct files and names.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::hash::Hasher;

use twin_fs::{Ino, Name, Op, ROOT_INO, SetAttr, mode};
use twin_rt::{FixedHasher, FixedMap, FixedSet};

use crate::readers::tree::{Inode, Origin, Tree};
use crate::reading::Reading;
use crate::record::{Node, NodeAttr, Outcome};

/// Directories of the root that hold no files.
const NO_FILES: [&[u8]; 3] = [b"proc", b"sys", b"dev"];
/// No place in a file is beyond this.
pub(super) const FARTHEST: u64 = 1 << 50;
/// The most symbolic links on a way.
const MOST_LINKS: usize = 40;
/// The working directory of processes of which it is not known.
const SOMEWHERE: &[u8] = b"(working directory)";

/// Why a call has no operation, or not all of its operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stop {
    /// The call is about no file: a pipe, a socket, a device, /proc.
    NoFile,
    /// The call failed and changed nothing.
    Failed,
    /// The call looked for a name that does not exist, which is an operation.
    Absent,
    /// Its effect cannot be known, for this reason.
    Left(&'static str),
}

pub(super) type Step<T> = Result<T, Stop>;

/// The file to which a path leads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Target {
    /// A name in a directory, which may be free.
    Name(Ino, Name),
    /// An inode itself: the root, `.`, a descriptor.
    Node(Ino),
}

/// How a path is followed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Way {
    /// The call succeeded: directories on the way exist.
    pub(super) is_there: bool,
    /// A symbolic link at the end is followed.
    pub(super) follow: bool,
}

/// The facts that the first reading has learned.
#[derive(Default)]
pub(super) struct Facts {
    /// Files that existed before, by their numbers.
    pub(super) existing: BTreeMap<Ino, Node>,
    /// Targets of symbolic links that existed before.
    pub(super) links: BTreeMap<Ino, Box<[u8]>>,
    /// Files without a name (O_TMPFILE) that got one later, by their order.
    pub(super) named: BTreeSet<u64>,
}

/// The files of the text.
pub(super) struct World {
    pub(super) tree: Tree,
    pub(super) facts: Facts,
    pub(super) reading: Reading,
    /// The first reading, which learns.
    pub(super) learns: bool,
    /// Targets of symbolic links.
    links: FixedMap<Ino, Box<[u8]>>,
    /// Names that the trace made or removed, as hashes: a file found there later did not exist
    /// before.
    touched: FixedSet<u64>,
    /// Names at the end of ways that led to something, as hashes, while it is learned: if one is a symbolic
    /// link, its target exists.
    followed: FixedSet<u64>,
    /// Places of files of which it is not known whether they existed before.
    perhaps: FixedMap<Ino, (Ino, Name)>,
    /// The directory of relative paths of processes of which it is not known.
    start: Option<Ino>,
}

fn hash(dir: Ino, name: &[u8]) -> u64 {
    let mut hasher = FixedHasher::default();
    hasher.write_u64(dir);
    hasher.write(name);
    hasher.finish()
}

enum Walked {
    At(Target),
    /// A symbolic link: the way goes on from a directory.
    Link(Ino, Vec<u8>),
}

impl World {
    /// The world of the first reading.
    pub(super) fn to_learn() -> World {
        World::of(Tree::silent(), Facts::default(), true)
    }

    /// The world of the second reading.
    pub(super) fn knowing(facts: &mut Facts) -> World {
        let mut tree = Tree::new();
        for (&ino, node) in &facts.existing {
            let kind = node.mode & mode::TYPE;
            let size = node.attr.map_or(0, |attr| attr.size);
            let mut inode = Tree::of_kind(kind);
            (inode.size, inode.origin) = (size, Origin::Known);
            tree.put_existing(node.dir, &node.name, ino, inode);
        }
        let named = std::mem::take(&mut facts.named);
        let mut world = World::of(tree, Facts { named, ..Facts::default() }, false);
        world.links = std::mem::take(&mut facts.links).into_iter().collect();
        world
    }

    fn of(tree: Tree, facts: Facts, learns: bool) -> World {
        World {
            tree,
            facts,
            learns,
            reading: Reading::default(),
            links: FixedMap::default(),
            touched: FixedSet::default(),
            followed: FixedSet::default(),
            perhaps: FixedMap::default(),
            start: None,
        }
    }

    /// The directory of processes whose own is not known: that of `path`, if there is one.
    pub(super) fn start(&mut self, path: Option<&[u8]>) -> Step<Ino> {
        if let Some(start) = self.start {
            return Ok(start);
        }
        let start = match path {
            Some(path) => self.dir_at(path)?,
            None => {
                self.reading.assume("relative paths begin in a directory that is not in the text");
                self.existed(ROOT_INO, SOMEWHERE, mode::DIRECTORY)
            }
        };
        self.start = Some(start);
        Ok(start)
    }

    /// The directory of a path from the root, which exists.
    pub(super) fn dir_at(&mut self, path: &[u8]) -> Step<Ino> {
        match self.walk(ROOT_INO, path, Way { is_there: true, follow: true })? {
            Target::Node(ino) => Ok(ino),
            Target::Name(dir, name) => {
                let ino = self.existed(dir, &name, mode::DIRECTORY);
                self.is_kind(ino, mode::DIRECTORY);
                Ok(ino)
            }
        }
    }

    /// Follows a path. Directories on the way that are not known existed before, if the call succeeded;
    /// otherwise the first that is not known is looked up in vain.
    pub(super) fn walk(&mut self, base: Ino, path: &[u8], way: Way) -> Step<Target> {
        let (mut base, mut path) = (base, Cow::Borrowed(path));
        for _ in 0..MOST_LINKS {
            match self.walk_once(base, &path, way)? {
                Walked::At(target) => return Ok(target),
                Walked::Link(dir, rest) => (base, path) = (dir, Cow::Owned(rest)),
            }
        }
        Err(Stop::Left("through more than 40 symbolic links"))
    }

    fn walk_once(&mut self, base: Ino, path: &[u8], way: Way) -> Step<Walked> {
        let mut dir = if path.starts_with(b"/") { ROOT_INO } else { base };
        let mut rest = path;
        loop {
            let start = rest.iter().position(|c| *c != b'/').unwrap_or(rest.len());
            let end = rest[start..].iter().position(|c| *c == b'/').unwrap_or(rest.len() - start);
            let (part, after) = (&rest[start..start + end], &rest[start + end..]);
            rest = after;
            match part {
                b"" => return Ok(Walked::At(Target::Node(dir))),
                b"." => continue,
                b".." => {
                    dir = self.tree.inode(dir).parent.max(ROOT_INO);
                    continue;
                }
                part if dir == ROOT_INO && NO_FILES.contains(&part) => return Err(Stop::NoFile),
                part if part.len() > twin_fs::NAME_MAX || part.contains(&0) => {
                    return Err(Stop::Left("with a name that no file can have"));
                }
                _ => {}
            }
            let is_last = after.is_empty();
            let known = self.tree.known(dir, part);
            if let Some(target) = known.and_then(|ino| self.links.get(&ino))
                && (way.follow || !is_last)
            {
                return Ok(Walked::Link(dir, [target, after].concat()));
            }
            if is_last {
                if self.learns && way.follow && way.is_there {
                    self.followed.insert(hash(dir, part));
                }
                return Ok(Walked::At(Target::Name(dir, part.into())));
            }
            dir = match known {
                Some(ino) if self.tree.is_dir(ino) => ino,
                Some(ino) if way.is_there && self.is_kind(ino, mode::DIRECTORY) => ino,
                Some(_) if way.is_there => {
                    return Err(Stop::Left("through a name that is no directory"));
                }
                None if way.is_there => self.existed(dir, part, mode::DIRECTORY),
                _ => {
                    self.tree.lookup(dir, part);
                    return Err(Stop::Absent);
                }
            };
        }
    }

    /// The inode of a name that is there: it existed before if it is not known, or it was made by somebody
    /// who is not in the text.
    pub(super) fn existed(&mut self, dir: Ino, name: &[u8], kind: u32) -> Ino {
        if let Some(ino) = self.tree.known(dir, name) {
            return ino;
        }
        let is_dir = kind == mode::DIRECTORY;
        if self.touched.contains(&hash(dir, name)) || !self.learns {
            self.reading.assume_of(1, "names were made by processes that are not in the text");
            return match is_dir {
                true => self.tree.make_dir(dir, name),
                false => {
                    let ino = self.tree.create(dir, name);
                    self.tree.release(ino);
                    ino
                }
            };
        }
        let ino = self.tree.add_existing(dir, name, is_dir);
        self.tree.inode_mut(ino).special = Tree::of_kind(kind).special;
        self.add_node(ino, dir, name);
        ino
    }

    fn add_node(&mut self, ino: Ino, dir: Ino, name: &[u8]) {
        let inode = self.tree.inode(ino);
        let mode = match (inode.is_dir(), inode.special) {
            (true, _) => mode::DIRECTORY | 0o755,
            (_, 0) => mode::REGULAR | 0o644,
            (_, special) => special | 0o644,
        };
        let (size, allocated) = (inode.size, inode.size);
        let attr = Some(NodeAttr { nlink: 1, size, allocated, ..NodeAttr::default() });
        self.facts.existing.insert(ino, Node { dir, name: name.into(), ino, mode, attr });
    }

    /// Learns that an inode is of a kind; false if it cannot be.
    pub(super) fn is_kind(&mut self, ino: Ino, kind: u32) -> bool {
        let inode = self.tree.inode(ino);
        let new = Tree::of_kind(kind);
        if (inode.is_dir(), inode.special) == (new.is_dir(), new.special) {
            return true;
        }
        let existed = matches!(inode.origin, Origin::Existed | Origin::Known);
        // A file that was a directory once has names, and stays one.
        if !self.learns || !existed || inode.is_dir() || ino == ROOT_INO {
            return false;
        }
        if new.is_dir() {
            self.tree.becomes_dir(ino);
        } else {
            self.tree.inode_mut(ino).special = new.special;
        }
        if let Some(Node { dir, name, .. }) = self.facts.existing.get(&ino).cloned() {
            self.add_node(ino, dir, &name);
        }
        true
    }

    /// A name is to be made, and was not there: if it is known, somebody who is not in the text removed it.
    pub(super) fn place_to_make(&mut self, dir: Ino, name: &[u8]) {
        if self.tree.known(dir, name).is_some() {
            self.reading.assume_of(1, "names were removed by processes that are not in the text");
            self.remove(dir, name);
        }
        self.touch(dir, name);
        self.tree.lookup(dir, name);
    }

    /// Removes a name, and what is left below it.
    pub(super) fn remove(&mut self, dir: Ino, name: &[u8]) {
        if let Some(ino) = self.tree.known(dir, name) {
            let left = self.tree.entries(ino);
            if left > 0 {
                let what = "names in directories that were removed were removed before by processes \
                            that are not in the text";
                self.reading.assume_of(left, what);
                self.tree.clear(ino);
            }
            self.touch(dir, name);
            self.tree.remove(dir, name);
            self.forget(ino);
        }
    }

    /// A name is made or removed by the trace.
    pub(super) fn touch(&mut self, dir: Ino, name: &[u8]) {
        self.touched.insert(hash(dir, name));
    }

    /// Drops what is noted of an inode that is no more.
    pub(super) fn forget(&mut self, ino: Ino) {
        if !self.tree.exists(ino) {
            self.links.remove(&ino);
            self.perhaps.remove(&ino);
        }
    }

    /// A call shows the target of a symbolic link.
    pub(super) fn links_to(&mut self, ino: Ino, target: &[u8]) {
        let before = self.tree.inode(ino);
        if !self.is_kind(ino, mode::SYMLINK) || self.links.contains_key(&ino) {
            return;
        }
        self.links.insert(ino, target.into());
        if let Some(node) = self.facts.existing.get_mut(&ino).filter(|_| self.learns) {
            let size = target.len() as u64;
            node.attr = Some(NodeAttr { nlink: 1, size, allocated: size, ..NodeAttr::default() });
            let (dir, name) = (node.dir, node.name.clone());
            self.facts.links.insert(ino, target.into());
            if self.followed.contains(&hash(dir, &name)) {
                self.target_existed(dir, target, before);
            }
        }
    }

    /// Calls went through a symbolic link before it was known to be one: its target existed before,
    /// and what the calls have shown is true of the target.
    fn target_existed(&mut self, dir: Ino, target: &[u8], told: Inode) {
        let way = Way { is_there: true, follow: true };
        let Ok(Target::Name(dir, name)) = self.walk(dir, target, way) else { return };
        if self.tree.known(dir, &name).is_some() || self.touched.contains(&hash(dir, &name)) {
            return;
        }
        let ino = self.existed(dir, &name, mode::REGULAR);
        if told.is_file() && told.origin == Origin::Known {
            self.has_size(ino, told.size);
        } else if told.is_file() {
            self.has_at_least(ino, told.size);
        }
    }

    /// Makes a file whose name is free, and which may have existed before if `perhaps` is set.
    pub(super) fn create(&mut self, dir: Ino, name: &[u8], perhaps: bool) -> Ino {
        let is_sure = !perhaps
            || self.touched.contains(&hash(dir, name))
            || self.tree.inode(dir).origin == Origin::Made;
        self.place_to_make(dir, name);
        let ino = self.tree.create(dir, name);
        if !is_sure {
            let what = "files that were opened with O_CREAT were new, as nothing tells otherwise";
            self.reading.assume_of(1, what);
            self.tree.inode_mut(ino).origin = Origin::MadePerhaps;
            self.perhaps.insert(ino, (dir, name.into()));
        }
        ino
    }

    /// The content of a file begins anew: how long it was before does not matter any more.
    pub(super) fn is_cut(&mut self, ino: Ino, size: u64) {
        let inode = self.tree.inode_mut(ino);
        inode.size = size;
        match inode.origin {
            Origin::MadePerhaps => inode.origin = Origin::Made,
            Origin::Existed => inode.origin = Origin::Known,
            Origin::Made | Origin::Known => {}
        }
        self.perhaps.remove(&ino);
    }

    /// The text tells that a file has this length now.
    pub(super) fn has_size(&mut self, ino: Ino, size: u64) {
        self.has_at_least(ino, size);
        let inode = self.tree.inode(ino);
        if inode.is_file() && size < inode.size {
            self.correct(ino, size);
        }
        if inode.origin == Origin::Existed {
            self.tree.inode_mut(ino).origin = Origin::Known;
        }
    }

    /// The text tells that a file has at least this length now.
    pub(super) fn has_at_least(&mut self, ino: Ino, size: u64) {
        let inode = self.tree.inode(ino);
        if !inode.is_file() || size <= inode.size || size > FARTHEST {
            return;
        }
        match inode.origin {
            Origin::Existed | Origin::MadePerhaps if self.learns => self.was_longer(ino, size),
            _ => self.correct(ino, size),
        }
    }

    /// A file existed before, and was so long that it has this length now.
    fn was_longer(&mut self, ino: Ino, size: u64) {
        let inode = self.tree.inode(ino);
        if let Some((dir, name)) = self.perhaps.remove(&ino) {
            self.tree.inode_mut(ino).size = 0;
            self.add_node(ino, dir, &name);
        }
        let before = match inode.appended {
            0 => size,
            appended => size.saturating_sub(appended),
        };
        let known = self.tree.inode_mut(ino);
        (known.size, known.origin) = (size, Origin::Existed);
        if let Some(attr) = self.facts.existing.get_mut(&ino).and_then(|node| node.attr.as_mut()) {
            attr.size = attr.size.max(before);
            attr.allocated = attr.size;
        }
    }

    /// A file has another length than the calls gave it: it is given this length by an operation of its
    /// own.
    fn correct(&mut self, ino: Ino, size: u64) {
        let what = "lengths of files were changed by what is not in the text (other processes, mapped \
                    memory)";
        self.reading.assume_of(1, what);
        self.tree.inode_mut(ino).size = size;
        self.resize(ino, size);
    }

    /// The operation that gives a file a length.
    pub(super) fn resize(&mut self, ino: Ino, size: u64) {
        let set = SetAttr { size: Some(size), ..SetAttr::default() };
        self.tree.op(Op::SetAttr { ino, set }, Outcome::Attr);
    }
}
