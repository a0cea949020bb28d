//! Whole trees in a form that can be compared. They come from a model, or from walking any file
//! system with operations.

use std::collections::BTreeMap;
use std::fmt;

use twin_disk::{Block, gather};
use twin_rt::EventDigest;

use super::follow::is_zero;
use super::words::readable;
use super::{Body, Inode, ModelFs, is_dot};
use twin_fs::{
    Attr, DirEntry, FileSystem, FsError, Ino, Name, Op, ROOT_INO, Reply, Request, Result, SeekFor,
    mode,
};

/// The inode to which a name leads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DumpNode {
    /// The attributes of the inode.
    pub attr: Attr,
    /// A symbolic link's target.
    pub target: Option<Box<[u8]>>,
    /// The extended attributes that root sees.
    pub xattrs: BTreeMap<Name, Box<[u8]>>,
    /// A digest of the content; holes count as zeros.
    pub content: u64,
    /// The first path, in byte order, that leads to the same inode, unless this is that path.
    pub same_as: Option<Box<[u8]>>,
}

/// A tree: every path with its inode. The root is `/`.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Dump {
    /// The nodes by path.
    pub nodes: BTreeMap<Box<[u8]>, DumpNode>,
}

/// The properties that are compared. Used space and the size of directories never are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Compare {
    /// Times of access, modification, change and birth.
    pub times: bool,
    /// Sizes of regular files, and their content.
    pub content: bool,
    /// Whether extended attributes are compared.
    pub xattrs: bool,
    /// Whether inode numbers are compared.
    pub inos: bool,
}

impl Default for Compare {
    fn default() -> Compare {
        Compare { times: true, content: true, xattrs: true, inos: false }
    }
}

/// A tree could not be walked: an operation failed, or replies contradict each other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DumpError {
    /// The path at which the walk failed.
    pub path: Box<[u8]>,
    /// The error of the operation.
    pub error: FsError,
}

impl fmt::Display for DumpError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "at {}: {}", self.path.escape_ascii(), self.error)
    }
}

impl std::error::Error for DumpError {}

impl Dump {
    /// Marks the paths that lead to one inode.
    fn link_up(mut self) -> Dump {
        let mut first: BTreeMap<Ino, Box<[u8]>> = BTreeMap::new();
        for (path, node) in &mut self.nodes {
            let known = first.entry(node.attr.ino).or_insert_with(|| path.clone());
            node.same_as = (known != path).then(|| known.clone());
        }
        self
    }

    /// The first inconsistency within the tree, in words: a link count that is not the number of
    /// names.
    pub fn contradiction(&self) -> Option<String> {
        let mut names: BTreeMap<Ino, u32> = BTreeMap::new();
        for (path, node) in &self.nodes {
            let own = if node.attr.is_dir() { 2 } else { 1 };
            *names.entry(node.attr.ino).or_default() += own;
            if node.attr.is_dir() && **path != *b"/" {
                let parent = &self.nodes[parent_of(path)];
                *names.entry(parent.attr.ino).or_default() += 1;
            }
        }
        self.nodes.iter().find(|(_, node)| names[&node.attr.ino] != node.attr.nlink).map(
            |(path, node)| {
                let (path, count) = (path.escape_ascii(), names[&node.attr.ino]);
                format!("{path}: {} links counted, {count} found", node.attr.nlink)
            },
        )
    }
}

fn parent_of(path: &[u8]) -> &[u8] {
    match path.iter().rposition(|b| *b == b'/') {
        None | Some(0) => b"/",
        Some(at) => &path[..at],
    }
}

fn child_of(path: &[u8], name: &[u8]) -> Box<[u8]> {
    let dir = if path == b"/" { &b""[..] } else { path };
    [dir, b"/", name].concat().into()
}

/// Adds the digest of one block and its place; zeros add nothing.
fn add_content(digest: &mut EventDigest, lbn: u64, block: &Block) {
    match block {
        _ if is_zero(block) => {}
        Block::Stamp(s) => {
            digest.add(&[lbn, 1, s.ino, s.lbn, s.version, u64::from(s.off), u64::from(s.len)]);
        }
        _ => {
            digest.add(&[lbn, 2]);
            let bytes = block.to_bytes();
            let (words, rest) = bytes.as_chunks::<8>();
            words.iter().for_each(|word| digest.add(&[u64::from_le_bytes(*word)]));
            rest.iter().for_each(|byte| digest.add(&[u64::from(*byte)]));
        }
    }
}

impl ModelFs {
    /// The tree that the model holds now.
    pub fn dump(&self) -> Dump {
        let mut dump = Dump::default();
        let mut left = vec![(Box::from(*b"/"), ROOT_INO)];
        while let Some((path, ino)) = left.pop() {
            let inode = &self.inodes[&ino];
            if let Body::Dir(dir) = &inode.body {
                let names = dir.names.iter();
                left.extend(names.map(|(name, slot)| (child_of(&path, name), slot.ino)));
            }
            dump.nodes.insert(path, self.dump_node(inode));
        }
        dump.link_up()
    }

    pub(super) fn dump_node(&self, inode: &Inode) -> DumpNode {
        let block_size = u64::from(self.settings.block_size);
        let mut digest = EventDigest::default();
        if let Body::File(content) = &inode.body {
            for (lbn, block) in content.blocks().filter(|(n, _)| n * block_size < inode.attr.size) {
                let len = block_size.min(inode.attr.size - lbn * block_size) as usize;
                add_content(&mut digest, lbn, &block.slice(0, len));
            }
        }
        DumpNode {
            attr: inode.attr.clone(),
            target: match &inode.body {
                Body::Symlink(target) => Some(target.clone()),
                _ => None,
            },
            xattrs: inode.xattrs.clone(),
            content: digest.value(),
            same_as: None,
        }
    }
}

/// Dumps the tree of any file system by walking it as root, and leaves no reference behind.
/// `next_id` numbers the requests. Holes are skipped if the file system can seek. The walk checks
/// that listings begin with `.` and `..`, contain no name twice, and agree with lookups.
///
/// # Errors
/// The first operation that fails, or contradicts another, with its path.
pub async fn dump<F: FileSystem>(fs: &F, next_id: &mut u64) -> Result<Dump, DumpError> {
    let mut walker = Walker { fs, next_id, block_size: 4096 };
    let root = Box::from(*b"/");
    let at_root = |error| DumpError { path: Box::from(*b"/"), error };
    walker.block_size = match walker.ask(Op::StatFs).await.map_err(at_root)? {
        Reply::Stat(stat) if stat.io_size > 0 => u64::from(stat.io_size),
        _ => return Err(at_root(unexpected())),
    };
    let Reply::Attr(attr) = walker.ask(Op::GetAttr { ino: ROOT_INO }).await.map_err(at_root)?
    else {
        return Err(at_root(unexpected()));
    };
    let mut dump = Dump::default();
    let mut left = vec![(root, attr, ROOT_INO)];
    while let Some((path, attr, parent)) = left.pop() {
        let visited = walker.visit(&path, &attr, parent, &mut left).await;
        if attr.ino != ROOT_INO {
            let forget = Op::Forget { ino: attr.ino, count: 1 };
            walker.ask(forget).await.map_err(|error| DumpError { path: path.clone(), error })?;
        }
        let node = visited.map_err(|error| DumpError { path: path.clone(), error })?;
        dump.nodes.insert(path, node);
    }
    Ok(dump.link_up())
}

fn unexpected() -> FsError {
    FsError::inconsistent("a reply of the wrong kind")
}

struct Walker<'a, F> {
    fs: &'a F,
    next_id: &'a mut u64,
    block_size: u64,
}

/// A path that is still to be visited, its attributes, and its directory's inode.
type Left = (Box<[u8]>, Attr, Ino);

/// Read at a time, in blocks.
const READ_BLOCKS: u64 = 64;
/// The number of lost blocks after which the rest of a file is not read: a damaged inode may have any size,
/// and a damaged pointer stands for millions of blocks.
const LOST_MOST: u64 = 4096;

impl<F: FileSystem> Walker<'_, F> {
    async fn ask(&mut self, op: Op) -> Result<Reply> {
        let id = *self.next_id;
        *self.next_id += 1;
        self.fs.execute(Request::root(id, op)).await
    }

    async fn visit(
        &mut self,
        path: &[u8],
        attr: &Attr,
        parent: Ino,
        left: &mut Vec<Left>,
    ) -> Result<DumpNode> {
        let ino = attr.ino;
        let (mut target, mut content) = (None, EventDigest::default().value());
        match attr.kind() {
            mode::DIRECTORY => self.visit_dir(path, ino, parent, left).await?,
            mode::REGULAR => content = self.content(ino, attr.size).await?,
            mode::SYMLINK => match self.ask(Op::ReadLink { ino }).await? {
                Reply::Bytes(bytes) => target = Some(bytes),
                _ => return Err(unexpected()),
            },
            _ => {}
        }
        let xattrs = self.xattrs(ino).await?;
        Ok(DumpNode { attr: attr.clone(), target, xattrs, content, same_as: None })
    }

    async fn list(&mut self, dir: Ino) -> Result<Vec<DirEntry>> {
        let mut all: Vec<DirEntry> = Vec::new();
        loop {
            let cookie = all.last().map_or(0, |entry| entry.next);
            let op = Op::ReadDir { dir, cookie, max_bytes: 16384, plus: false };
            match self.ask(op).await? {
                Reply::Dir(list) if list.is_empty() => return Ok(all),
                Reply::Dir(list) => all.extend(list),
                _ => return Err(unexpected()),
            }
        }
    }

    async fn visit_dir(
        &mut self,
        path: &[u8],
        ino: Ino,
        parent: Ino,
        left: &mut Vec<Left>,
    ) -> Result<()> {
        let list = self.list(ino).await?;
        let first: Vec<(&[u8], Ino, u32)> =
            list.iter().take(2).map(|entry| (&*entry.name, entry.ino, entry.kind)).collect();
        let dot = (&b"."[..], ino, mode::DIRECTORY);
        if first != [dot, (b"..", parent, mode::DIRECTORY)] {
            return Err(FsError::inconsistent(format!("the listing begins with {first:?}")));
        }
        let mut seen = std::collections::BTreeSet::new();
        for listed in &list[2..] {
            let name = listed.name.escape_ascii();
            if is_dot(&listed.name) || !seen.insert(&listed.name) {
                return Err(FsError::inconsistent(format!("{name} is listed twice")));
            }
            let lookup = Op::Lookup { dir: ino, name: listed.name.clone() };
            let Reply::Entry(entry) = self.ask(lookup).await? else { return Err(unexpected()) };
            let attr = entry.attr;
            left.push((child_of(path, &listed.name), attr.clone(), ino));
            if (attr.ino, attr.kind()) != (listed.ino, listed.kind) {
                let (a, b) = (listed.ino, attr.ino);
                let what = format!("{name} is listed as inode {a} and found as inode {b}");
                return Err(FsError::inconsistent(what));
            }
        }
        Ok(())
    }

    /// The first byte of data at or after `off`; `off` itself if the file system cannot tell.
    async fn next_data(&mut self, ino: Ino, off: u64, size: u64) -> Result<u64> {
        match self.ask(Op::Seek { ino, off, what: SeekFor::Data }).await {
            Ok(Reply::Offset(at)) if at >= off => Ok(at),
            Ok(_) => Err(unexpected()),
            Err(FsError::NoSuchOffset) => Ok(size),
            Err(FsError::NotSupported(_)) => Ok(off),
            Err(error) => Err(error),
        }
    }

    async fn content(&mut self, ino: Ino, size: u64) -> Result<u64> {
        let mut digest = EventDigest::default();
        let (mut off, mut lost) = (0, 0);
        while off < size {
            let data = self.next_data(ino, off, size).await?;
            off = data - data % self.block_size;
            if data >= size {
                break;
            }
            let mut len = (READ_BLOCKS * self.block_size).min(size - off);
            let mut read = self.ask(Op::Read { ino, off, len: len as u32 }).await;
            if matches!(&read, Err(error) if error.is_lost()) {
                // Block by block, since the others are there.
                len = self.block_size.min(size - off);
                read = self.ask(Op::Read { ino, off, len: len as u32 }).await;
            }
            if matches!(&read, Err(error) if error.is_lost()) {
                // No content that a file may have: neither data nor zeros.
                digest.add(&[off / self.block_size, 3]);
                (off, lost) = (off + len, lost + 1);
                if lost == LOST_MOST {
                    break;
                }
                continue;
            }
            let Reply::Data(pieces) = read? else { return Err(unexpected()) };
            let got: usize = pieces.iter().map(Block::len).sum();
            if got as u64 != len {
                let what = format!("{got} of {len} bytes read at {off}, size {size}");
                return Err(FsError::inconsistent(what));
            }
            for at in (0..len).step_by(self.block_size as usize) {
                let n = self.block_size.min(len - at);
                let block = gather(&pieces, at as usize, n as usize);
                add_content(&mut digest, (off + at) / self.block_size, &block);
            }
            off += len;
        }
        Ok(digest.value())
    }

    async fn xattrs(&mut self, ino: Ino) -> Result<BTreeMap<Name, Box<[u8]>>> {
        let names = match self.ask(Op::ListXattr { ino }).await {
            Ok(Reply::Bytes(names)) => names,
            Err(FsError::NotSupported(_)) => return Ok(BTreeMap::new()),
            Ok(_) => return Err(unexpected()),
            Err(error) => return Err(error),
        };
        let mut xattrs = BTreeMap::new();
        for name in names.split_inclusive(|b| *b == 0) {
            let name = Name::from(&name[..name.len() - 1]);
            let Reply::Bytes(value) = self.ask(Op::GetXattr { ino, name: name.clone() }).await?
            else {
                return Err(unexpected());
            };
            xattrs.insert(name, value);
        }
        Ok(xattrs)
    }
}

/// The first difference of two trees, in words; `None` if they are equal. `names` names the two.
pub fn diff(a: &Dump, b: &Dump, names: [&str; 2], compare: &Compare) -> Option<String> {
    let paths: std::collections::BTreeSet<_> = a.nodes.keys().chain(b.nodes.keys()).collect();
    paths.into_iter().find_map(|path| {
        let what = match (a.nodes.get(path), b.nodes.get(path)) {
            (Some(x), Some(y)) => node_diff(x, y, names, compare)?,
            (Some(_), _) => format!("it is in the {}, not in the {}", names[0], names[1]),
            (None, _) => format!("it is in the {}, not in the {}", names[1], names[0]),
        };
        Some(format!("{}: {what}", path.escape_ascii()))
    })
}

/// The first difference of what a path leads to, in words.
pub(super) fn node_diff(
    a: &DumpNode,
    b: &DumpNode,
    names: [&str; 2],
    compare: &Compare,
) -> Option<String> {
    let differ = |what: &str, x: &dyn fmt::Debug, y: &dyn fmt::Debug| {
        Some(readable(&format!("{what} is {x:?} in the {}, {y:?} in the {}", names[0], names[1])))
    };
    macro_rules! same {
        ($what:literal, $($field:tt)+) => {
            if a.$($field)+ != b.$($field)+ {
                return differ($what, &a.$($field)+, &b.$($field)+);
            }
        };
    }
    if a.attr.mode != b.attr.mode {
        let octal = |mode: u32| format!("{mode:o}");
        return differ("the mode", &octal(a.attr.mode), &octal(b.attr.mode));
    }
    same!("the owner", attr.uid);
    same!("the group", attr.gid);
    same!("the device number", attr.rdev);
    same!("the first path of its inode", same_as);
    same!("the number of links", attr.nlink);
    same!("the target", target);
    if compare.content && a.attr.kind() == mode::REGULAR {
        same!("the size", attr.size);
        same!("the digest of the content", content);
    }
    if compare.xattrs {
        same!("the list of extended attributes", xattrs);
    }
    if compare.inos {
        same!("the inode number", attr.ino);
    }
    if compare.times {
        same!("the access time", attr.atime);
        same!("the modification time", attr.mtime);
        same!("the change time", attr.ctime);
        same!("the birth time", attr.btime);
    }
    None
}
