//! Trees of files in memory: what is on a volume at one moment.
//!
//! Contract: an [`Effect`] changes one thing, and never fails: an effect whose object is missing in this tree changes
//! what would be seen if the object were there. So any subset of the effects of a history, in their order, gives a
//! tree. Clones share all that is equal; two trees with one [`Tree::digest`] have the same content below the root.
//! Times of files are not kept.

use std::collections::BTreeMap;
use std::hash::Hasher;
use std::sync::Arc;

use twin_fs::mode;
use twin_rt::FixedHasher;

/// The number of an inode within a history. Unlike those of a volume no number is used twice.
pub type Id = u64;
/// The number of the root.
pub const ROOT: Id = 0;
/// The number of a device as a file of a tree.
pub const DEVICE: Id = Id::MAX;
/// Bytes of a block: what the page cache of a kernel writes at once.
pub const BLOCK: u64 = 4096;
/// A name in a directory.
pub type Name = Box<[u8]>;

/// What an inode is and whose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Meta {
    /// Type and permission bits.
    pub mode: u32,
    /// Its owner.
    pub uid: u32,
    /// Its group.
    pub gid: u32,
    /// The device number of a special file.
    pub rdev: u64,
}

/// A block of a file with the digest of its bytes.
#[derive(Debug, PartialEq, Eq)]
pub struct Block {
    /// Exactly [`BLOCK`] bytes.
    pub bytes: Box<[u8]>,
    digest: u64,
}

/// What an inode holds.
#[derive(Clone, Debug)]
pub enum Body {
    /// A regular file: its length, and its blocks; those that are missing are zeros. Blocks may lie beyond the end,
    /// where nobody sees them.
    File {
        /// Length in bytes.
        size: u64,
        /// The blocks by number.
        blocks: BTreeMap<u64, Arc<Block>>,
    },
    /// A directory: the inodes by name.
    Dir(BTreeMap<Name, Id>),
    /// A symbolic link with its target.
    Symlink(Box<[u8]>),
    /// A special file.
    Special,
}

/// An inode.
#[derive(Clone, Debug)]
pub struct Node {
    /// What it is and whose.
    pub meta: Meta,
    /// What it holds.
    pub body: Body,
    /// Its extended attributes.
    pub xattrs: BTreeMap<Name, Box<[u8]>>,
}

/// A change of one thing.
#[derive(Clone, Debug, PartialEq)]
pub enum Effect {
    /// An inode comes into being, without a name.
    Make {
        /// Its number.
        id: Id,
        /// What it is.
        meta: Meta,
        /// The target, if it is a symbolic link.
        target: Option<Box<[u8]>>,
    },
    /// A name leads to an inode from now on, or to nothing.
    Name {
        /// The directory.
        dir: Id,
        /// The name in it.
        name: Name,
        /// The inode.
        id: Option<Id>,
    },
    /// Bytes of one block of a file.
    Data {
        /// The file.
        id: Id,
        /// Where they begin in the file.
        off: u64,
        /// The bytes of the whole write.
        bytes: Arc<[u8]>,
        /// Those of them that are meant: first and length.
        part: (usize, usize),
        /// The file reaches to their end at least.
        extends: bool,
    },
    /// The length of a file. With `grows` it becomes no shorter.
    Size {
        /// The file.
        id: Id,
        /// The length.
        size: u64,
        /// Only ever longer.
        grows: bool,
    },
    /// A range becomes zeros.
    Zero {
        /// The file.
        id: Id,
        /// Its first byte.
        off: u64,
        /// Bytes.
        len: u64,
    },
    /// Permission bits, owner and group.
    Attr {
        /// The inode.
        id: Id,
        /// The new permission bits.
        mode: Option<u32>,
        /// The new owner.
        uid: Option<u32>,
        /// The new group.
        gid: Option<u32>,
    },
    /// An extended attribute is set or removed.
    Xattr {
        /// The inode.
        id: Id,
        /// The attribute.
        name: Name,
        /// The value.
        value: Option<Box<[u8]>>,
    },
}

/// A tree of files.
#[derive(Clone, Debug)]
pub struct Tree {
    nodes: BTreeMap<Id, Arc<Node>>,
}

impl Block {
    /// A block with these bytes.
    pub(crate) fn new(bytes: Box<[u8]>) -> Block {
        let mut hasher = FixedHasher::default();
        hasher.write(&bytes);
        Block { digest: hasher.finish(), bytes }
    }
}

/// Puts a block into a file; one of zeros is none.
fn put_block(blocks: &mut BTreeMap<u64, Arc<Block>>, number: u64, bytes: Box<[u8]>) {
    match bytes.iter().all(|&byte| byte == 0) {
        true => blocks.remove(&number),
        false => blocks.insert(number, Arc::new(Block::new(bytes))),
    };
}

impl Default for Tree {
    fn default() -> Tree {
        Tree::new(Meta { mode: mode::DIRECTORY | 0o755, uid: 0, gid: 0, rdev: 0 })
    }
}

impl Tree {
    /// A tree with an empty root.
    pub fn new(root: Meta) -> Tree {
        let body = Body::Dir(BTreeMap::new());
        let root = Node { meta: root, body, xattrs: BTreeMap::new() };
        Tree { nodes: BTreeMap::from([(ROOT, Arc::new(root))]) }
    }

    /// An inode.
    pub fn node(&self, id: Id) -> Option<&Node> {
        self.nodes.get(&id).map(|node| &**node)
    }

    /// The inode to which a name leads.
    pub fn find(&self, dir: Id, name: &[u8]) -> Option<Id> {
        match &self.node(dir)?.body {
            Body::Dir(names) => names.get(name).copied(),
            _ => None,
        }
    }

    /// The names of a directory, in order.
    pub fn names(&self, dir: Id) -> impl Iterator<Item = (&[u8], Id)> {
        let names = match self.node(dir).map(|node| &node.body) {
            Some(Body::Dir(names)) => Some(names.iter()),
            _ => None,
        };
        names.into_iter().flatten().map(|(name, id)| (&**name, *id))
    }

    /// The length of a file; nothing for other inodes.
    pub fn size(&self, id: Id) -> u64 {
        match self.node(id).map(|node| &node.body) {
            Some(Body::File { size, .. }) => *size,
            _ => 0,
        }
    }

    /// Whether an inode is a regular file.
    pub fn is_file(&self, id: Id) -> bool {
        matches!(self.node(id).map(|node| &node.body), Some(Body::File { .. }))
    }

    /// The regular files with their lengths.
    pub fn files(&self) -> impl Iterator<Item = (Id, u64)> {
        let sizes = self.nodes.iter().map(|(&id, node)| match &node.body {
            Body::File { size, .. } => Some((id, *size)),
            _ => None,
        });
        sizes.flatten()
    }

    /// All inodes, with and without names.
    pub fn nodes(&self) -> impl Iterator<Item = (Id, &Node)> {
        self.nodes.iter().map(|(&id, node)| (id, &**node))
    }

    /// Adds an inode as it is: for trees that were read from a volume.
    pub fn put(&mut self, id: Id, node: Node) {
        self.nodes.insert(id, Arc::new(node));
    }

    /// The body of a file with these bytes.
    pub fn file(bytes: &[u8]) -> Body {
        let blocks = bytes
            .chunks(BLOCK as usize)
            .enumerate()
            .filter(|(_, chunk)| chunk.iter().any(|&byte| byte != 0));
        let padded = |chunk: &[u8]| {
            let mut block = vec![0; BLOCK as usize];
            block[..chunk.len()].copy_from_slice(chunk);
            Arc::new(Block::new(block.into()))
        };
        let blocks = blocks.map(|(number, chunk)| (number as u64, padded(chunk))).collect();
        Body::File { size: bytes.len() as u64, blocks }
    }

    fn edit(&mut self, id: Id) -> Option<&mut Node> {
        self.nodes.get_mut(&id).map(Arc::make_mut)
    }

    /// Carries an effect out.
    pub fn apply(&mut self, effect: &Effect) {
        match effect {
            Effect::Make { id, meta, target } => {
                let body = match meta.mode & mode::TYPE {
                    mode::DIRECTORY => Body::Dir(BTreeMap::new()),
                    mode::REGULAR => Body::File { size: 0, blocks: BTreeMap::new() },
                    mode::SYMLINK => Body::Symlink(target.clone().unwrap_or_default()),
                    _ => Body::Special,
                };
                self.put(*id, Node { meta: *meta, body, xattrs: BTreeMap::new() });
            }
            Effect::Name { dir, name, id } => {
                if let Some(Body::Dir(names)) = self.edit(*dir).map(|node| &mut node.body) {
                    match id {
                        Some(id) => names.insert(name.clone(), *id),
                        None => names.remove(name),
                    };
                }
            }
            Effect::Data { id, off, bytes, part, extends } => {
                self.write(*id, *off, &bytes[part.0..part.0 + part.1], *extends);
            }
            Effect::Size { id, size, grows } => self.resize(*id, *size, *grows),
            Effect::Zero { id, off, len } => self.zero(*id, *off, *len),
            Effect::Attr { id, mode: bits, uid, gid } => {
                let Some(node) = self.edit(*id) else { return };
                let meta = &mut node.meta;
                meta.mode = bits
                    .map_or(meta.mode, |bits| meta.mode & mode::TYPE | bits & mode::PERMISSIONS);
                meta.uid = uid.unwrap_or(meta.uid);
                meta.gid = gid.unwrap_or(meta.gid);
            }
            Effect::Xattr { id, name, value } => {
                let Some(node) = self.edit(*id) else { return };
                match value {
                    Some(value) => node.xattrs.insert(name.clone(), value.clone()),
                    None => node.xattrs.remove(name),
                };
            }
        }
    }

    fn write(&mut self, id: Id, off: u64, bytes: &[u8], extends: bool) {
        let Some(Body::File { size, blocks }) = self.edit(id).map(|node| &mut node.body) else {
            return;
        };
        let end = off + bytes.len() as u64;
        let mut done = 0;
        while done < bytes.len() {
            let at = off + done as u64;
            let (number, within) = (at / BLOCK, (at % BLOCK) as usize);
            let len = (BLOCK as usize - within).min(bytes.len() - done);
            let old = blocks.get(&number).map(|block| block.bytes.clone());
            let mut block = old.unwrap_or_else(|| vec![0; BLOCK as usize].into());
            block[within..within + len].copy_from_slice(&bytes[done..done + len]);
            put_block(blocks, number, block);
            done += len;
        }
        if extends {
            *size = end.max(*size);
        }
    }

    fn resize(&mut self, id: Id, to: u64, grows: bool) {
        let Some(Body::File { size, .. }) = self.edit(id).map(|node| &mut node.body) else {
            return;
        };
        if grows {
            *size = to.max(*size);
            return;
        }
        let was = std::mem::replace(size, to);
        if to < was {
            self.zero(id, to, u64::MAX - to);
        }
    }

    fn zero(&mut self, id: Id, off: u64, len: u64) {
        let Some(Body::File { blocks, .. }) = self.edit(id).map(|node| &mut node.body) else {
            return;
        };
        let end = off.saturating_add(len);
        let touched: Vec<u64> =
            blocks.range(off / BLOCK..end.div_ceil(BLOCK)).map(|(&number, _)| number).collect();
        for number in touched {
            let start = number * BLOCK;
            let (from, to) = (off.max(start) - start, end.min(start + BLOCK) - start);
            if (from, to) == (0, BLOCK) {
                blocks.remove(&number);
            } else if let Some(block) = blocks.get(&number) {
                let mut bytes = block.bytes.clone();
                bytes[from as usize..to as usize].fill(0);
                put_block(blocks, number, bytes);
            }
        }
    }

    /// The bytes of a file.
    pub fn bytes(&self, id: Id) -> Vec<u8> {
        let Some(Body::File { size, blocks }) = self.node(id).map(|node| &node.body) else {
            return Vec::new();
        };
        let mut all = vec![0; *size as usize];
        for (number, block) in blocks.range(..size.div_ceil(BLOCK)) {
            let at = (number * BLOCK) as usize;
            let len = (all.len() - at).min(BLOCK as usize);
            all[at..at + len].copy_from_slice(&block.bytes[..len]);
        }
        all
    }

    /// A digest of all that can be seen below the root. Inodes with several names count as such.
    pub fn digest(&self) -> u64 {
        let mut hasher = FixedHasher::default();
        let mut numbers: BTreeMap<Id, u64> = BTreeMap::new();
        self.add_digest(ROOT, &mut numbers, &mut hasher);
        hasher.finish()
    }

    fn add_digest(&self, id: Id, numbers: &mut BTreeMap<Id, u64>, hasher: &mut FixedHasher) {
        let next = numbers.len() as u64;
        if let Some(known) = numbers.get(&id) {
            hasher.write_u64(*known);
            return;
        }
        numbers.insert(id, next);
        let Some(node) = self.node(id) else { return hasher.write_u64(u64::MAX) };
        let Meta { mode, uid, gid, rdev } = node.meta;
        [mode.into(), uid.into(), gid.into(), rdev]
            .into_iter()
            .for_each(|word| hasher.write_u64(word));
        for (name, value) in &node.xattrs {
            hasher.write(name);
            hasher.write(value);
        }
        match &node.body {
            Body::File { size, blocks } => {
                hasher.write_u64(*size);
                for (number, block) in blocks.range(..size.div_ceil(BLOCK)) {
                    let within = (size - number * BLOCK).min(BLOCK) as usize;
                    let seen = &block.bytes[..within];
                    if seen.iter().all(|&byte| byte == 0) {
                        continue;
                    }
                    hasher.write_u64(*number);
                    match within as u64 == BLOCK {
                        true => hasher.write_u64(block.digest),
                        false => hasher.write(seen),
                    }
                }
            }
            Body::Dir(names) => {
                hasher.write_u64(names.len() as u64);
                for (name, child) in names {
                    hasher.write_u64(name.len() as u64);
                    hasher.write(name);
                    self.add_digest(*child, numbers, hasher);
                }
            }
            Body::Symlink(target) => hasher.write(target),
            Body::Special => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with_file() -> Tree {
        let mut tree = Tree::default();
        let meta = Meta { mode: mode::REGULAR | 0o644, uid: 0, gid: 0, rdev: 0 };
        tree.apply(&Effect::Make { id: 1, meta, target: None });
        tree.apply(&Effect::Name { dir: ROOT, name: (*b"a").into(), id: Some(1) });
        tree
    }

    fn write(tree: &mut Tree, off: u64, bytes: &[u8]) {
        let part = (0, bytes.len());
        tree.apply(&Effect::Data { id: 1, off, bytes: bytes.into(), part, extends: true });
    }

    #[test]
    fn what_is_written_is_read_and_what_is_cut_off_reads_as_zeros_when_the_file_grows_again() {
        let mut tree = with_file();
        write(&mut tree, 4090, b"twelve bytes");
        assert_eq!(tree.size(1), 4102);
        assert_eq!(&tree.bytes(1)[4090..], b"twelve bytes");
        tree.apply(&Effect::Size { id: 1, size: 4093, grows: false });
        tree.apply(&Effect::Size { id: 1, size: 4100, grows: true });
        assert_eq!(&tree.bytes(1)[4090..], b"twe\0\0\0\0\0\0\0");
    }

    #[test]
    fn a_clone_keeps_its_content_and_equal_content_has_one_digest() {
        let mut tree = with_file();
        write(&mut tree, 0, b"old");
        let old = tree.clone();
        write(&mut tree, 0, b"new");
        assert_eq!((&old.bytes(1)[..], &tree.bytes(1)[..]), (&b"old"[..], &b"new"[..]));
        assert_ne!(old.digest(), tree.digest());
        write(&mut tree, 0, b"old");
        assert_eq!(old.digest(), tree.digest());
    }

    #[test]
    fn bytes_beyond_the_end_change_no_digest() {
        let mut tree = with_file();
        write(&mut tree, 0, b"ab");
        let before = tree.digest();
        let bytes: Arc<[u8]> = (*b"cd").into();
        tree.apply(&Effect::Data { id: 1, off: 2, bytes, part: (0, 2), extends: false });
        assert_eq!(tree.digest(), before);
        tree.apply(&Effect::Size { id: 1, size: 4, grows: true });
        assert_eq!(tree.bytes(1), b"abcd");
    }
}
