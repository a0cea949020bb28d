//! The oracle: the meaning of every operation, in the plainest possible form.
//!
//! [`ModelFs`] executes requests on maps in memory, at once, without a disk, a cache or a crash.
//! What it answers is right by definition; a volume is tested by giving both the same requests
//! ([`ModelFs::follow`] compares the replies) and comparing the trees ([`Dump`]). [`History`] keeps the state after each
//! request, to find the one that a crash went back to. Written to be read, not to be fast; but a
//! clone shares all inodes with its origin.
//!
//! What POSIX leaves open it decides as Linux does on ext4 (see [`twin_fs::perm`] for rights).
//! Decisions of our own, which volumes follow:
//! * Reading changes no access time: that is the mount's matter.
//! * Reading, writing, listing, `fallocate` and seeking ask no permission: opening did.
//! * Errors are looked for in this order: the inode exists and is of the right kind; the directory
//!   may be searched; it has not been removed; the name is possible; the name exists, or does
//!   not; the rules of [`twin_fs::perm`]; link counts; emptiness. A rename looks at both
//!   directories, then at the old name, then at the new one.
//! * A setting of the size always sets both times, even if it is the size already.
//! * Seeking and punching are exact to the block: a block that was written is data until all its
//!   bytes within the file are punched or zeroed, which makes it a hole. Promised blocks
//!   ([`twin_fs::Fallocate::Allocate`]) are holes, or data if the settings say so.
//! * A directory that has been removed is empty, even of `.` and `..`: everything asked of its
//!   names is [`FsError::NotFound`].
//!
//! **Stamps.** With [`DataMode::Stamps`] the model keeps, instead of bytes, which request changed
//! a block last: any change of any byte within the file makes the whole block the stamp (inode,
//! logical block, version: request id, offset 0, length: block size). So do a cut in the middle
//! of a block, and punching or zeroing a part of one. Extending a file changes no block. Data that
//! an inode holds itself are bytes all the same, and stay so until their block is written again.

mod attrs;
mod content;
mod dump;
mod files;
mod follow;
pub mod generate;
mod history;
mod mounted;
mod names;
mod nfs_bug;
mod words;

use std::collections::BTreeMap;
use std::rc::Rc;

use twin_disk::Block;
use twin_rt::Time;

pub use content::DataMode;
pub use dump::{Compare, Dump, DumpError, DumpNode, diff, dump};
pub use follow::Followed;
pub use history::{History, Match};
pub use mounted::Mounted;
pub use nfs_bug::NfsBug;

use content::Content;
use twin_fs::dir::{LINK_MAX, SYMLINK_MAX, XATTR_VALUE_MAX};
use twin_fs::{
    Attr, FsError, Ino, LookupEntry, NAME_MAX, Name, Op, ROOT_INO, Reply, Request, Result,
    Timestamp, VolumeStat, mode,
};

/// The properties of the volume that a model stands for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Bytes of a block: the grain of stamps, holes and `Attr::blocks`.
    pub block_size: u32,
    /// Whether files hold bytes or stamps.
    pub data: DataMode,
    /// The longest file, in bytes.
    pub file_size_max: u64,
    /// The most names of an inode.
    pub link_max: u32,
    /// The longest target of a symbolic link, in bytes.
    pub symlink_max: usize,
    /// The longest value of an extended attribute, in bytes.
    pub xattr_value_max: usize,
    /// The most bytes that an inode's extended attributes have in all, names and values.
    pub xattr_total_max: usize,
    /// Whether there are extended attributes at all.
    pub xattrs: bool,
    /// Whether inodes have a time of birth; otherwise it is zero.
    pub birth_times: bool,
    /// The most data that an inode holds itself, in bytes. Such data are bytes, never stamps.
    pub inline_max: u64,
    /// Promised blocks are data from then on, not holes.
    pub promised_is_data: bool,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            block_size: 4096,
            data: DataMode::Bytes,
            file_size_max: i64::MAX as u64,
            link_max: LINK_MAX,
            symlink_max: SYMLINK_MAX,
            xattr_value_max: XATTR_VALUE_MAX,
            xattr_total_max: usize::MAX,
            xattrs: true,
            birth_times: true,
            inline_max: 0,
            promised_is_data: false,
        }
    }
}

/// Numbers from here on are the model's own stand-ins, until a reply of the volume tells the
/// inode's real one: see [`ModelFs::apply_with_ino`].
const PROVISIONAL: Ino = 1 << 62;

/// A file system in memory.
#[derive(Clone, Debug)]
pub struct ModelFs {
    settings: Rc<Settings>,
    inodes: BTreeMap<Ino, Rc<Inode>>,
    next_ino: Ino,
    next_provisional: Ino,
}

#[derive(Clone, Debug)]
struct Inode {
    attr: Attr,
    body: Body,
    xattrs: BTreeMap<Name, Box<[u8]>>,
    /// References that clients hold by entries.
    refs: u64,
    opens: u64,
}

#[derive(Clone, Debug, PartialEq)]
enum Body {
    File(Content),
    Dir(Directory),
    Symlink(Box<[u8]>),
    Special,
}

#[derive(Clone, Debug, PartialEq)]
struct Directory {
    parent: Ino,
    names: BTreeMap<Name, Slot>,
    next_place: u64,
}

/// A name's inode, and the name's place in listings, which it keeps.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Slot {
    ino: Ino,
    place: u64,
}

/// The context of one request, which all its steps share.
struct Call<'a> {
    request: &'a Request,
    now: Timestamp,
    /// The number for an inode that the request makes.
    ino: Option<Ino>,
}

impl ModelFs {
    /// An empty volume: a root directory of root with mode 755, made at time `now`.
    pub fn new(settings: Settings, now: Time) -> ModelFs {
        let now = Timestamp::from(now);
        let attr = Attr {
            ino: ROOT_INO,
            mode: mode::DIRECTORY | 0o755,
            nlink: 2,
            atime: now,
            mtime: now,
            ctime: now,
            btime: now,
            ..Attr::default()
        };
        let body = Body::Dir(Directory::new(ROOT_INO));
        let root = Inode { attr, body, xattrs: BTreeMap::new(), refs: 0, opens: 0 };
        ModelFs {
            settings: Rc::new(settings),
            inodes: BTreeMap::from([(ROOT_INO, Rc::new(root))]),
            next_ino: ROOT_INO + 1,
            next_provisional: PROVISIONAL,
        }
    }

    /// The properties of the volume that the model stands for.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Makes the root's attributes those of a volume that was made elsewhere.
    pub fn set_root_attr(&mut self, attr: &Attr) {
        let root = self.edit(ROOT_INO);
        let acl = root.attr.acl.clone();
        root.attr = Attr { ino: ROOT_INO, nlink: 2, acl, ..attr.clone() };
    }

    /// Executes one request. New inodes get the numbers 3, 4, and so on.
    ///
    /// # Errors
    /// What the operation may fail with; then nothing has changed.
    pub fn apply(&mut self, now: Time, request: &Request) -> Result<Reply> {
        self.apply_with_ino(now, request, None)
    }

    /// Executes one request that a volume has executed. `ino` is the inode number in the volume's
    /// reply, if it has one: an inode that the request makes gets it, so that both go on with the
    /// same numbers, and stamps agree. A whiteout is made without a reply that names it; it gets
    /// a stand-in number until a lookup tells the real one.
    ///
    /// # Errors
    /// What the operation may fail with; then nothing has changed.
    pub fn apply_with_ino(
        &mut self,
        now: Time,
        request: &Request,
        ino: Option<Ino>,
    ) -> Result<Reply> {
        let call = Call { request, now: Timestamp::from(now), ino };
        let reply = self.run(&call);
        match (&reply, ino) {
            (Ok(Reply::Entry(entry)), Some(real)) if self.may_become(entry.attr.ino, real) => {
                let mut entry = entry.clone();
                self.renumber(entry.attr.ino, real);
                entry.attr.ino = real;
                Ok(Reply::Entry(entry))
            }
            _ => reply,
        }
    }

    fn run(&mut self, call: &Call<'_>) -> Result<Reply> {
        match &call.request.op {
            Op::Lookup { dir, name } => self.lookup(call, *dir, name),
            Op::Forget { ino, count } => self.forget(*ino, *count),
            Op::GetAttr { ino } => Ok(Reply::Attr(self.inode(*ino)?.attr.clone())),
            Op::SetAttr { ino, set } => self.set_attr(call, *ino, set),
            Op::ReadLink { ino } => self.read_link(*ino),
            Op::MakeNode { dir, name, mode, rdev } => {
                self.make_node(call, *dir, name, *mode, *rdev)
            }
            Op::MakeDir { dir, name, mode } => self.make_dir(call, *dir, name, *mode),
            Op::Symlink { dir, name, target } => self.symlink(call, *dir, name, target),
            Op::Create { dir, name, mode, exclusive } => {
                self.create(call, *dir, name, *mode, *exclusive)
            }
            Op::Unlink { dir, name } => self.unlink(call, *dir, name),
            Op::RemoveDir { dir, name } => self.remove_dir(call, *dir, name),
            Op::Rename { dir, name, to_dir, to_name, mode } => {
                self.rename(call, (*dir, name), (*to_dir, to_name), *mode)
            }
            Op::Link { ino, dir, name } => self.link(call, *ino, *dir, name),
            Op::Open { ino, read, write, truncate } => {
                self.open(call, *ino, *read, *write, *truncate)
            }
            Op::Release { ino } => self.release(*ino),
            Op::Read { ino, off, len } => self.read(*ino, *off, *len),
            Op::Write { ino, off, data } => self.write(call, *ino, *off, data, true),
            Op::Append { ino, data, .. } => {
                let size = self.inode(*ino)?.attr.size;
                self.write(call, *ino, size, data, true)
            }
            Op::WriteBack { ino, off, data } => self.write(call, *ino, *off, data, false),
            Op::Fsync { ino, .. } => self.inode(*ino).map(|_| Reply::Done),
            Op::ReadDir { dir, cookie, max_bytes, plus } => {
                self.read_dir(*dir, *cookie, *max_bytes, *plus)
            }
            Op::StatFs => Ok(Reply::Stat(self.stat_fs())),
            Op::Access { ino, mask } => self.access(call, *ino, *mask),
            Op::SetXattr { .. }
            | Op::GetXattr { .. }
            | Op::ListXattr { .. }
            | Op::RemoveXattr { .. }
                if !self.settings.xattrs =>
            {
                Err(FsError::NotSupported("extended attributes"))
            }
            Op::SetXattr { ino, name, value, mode } => {
                self.set_xattr(call, *ino, name, value, *mode)
            }
            Op::GetXattr { ino, name } => self.get_xattr(call, *ino, name),
            Op::ListXattr { ino } => self.list_xattr(call, *ino),
            Op::RemoveXattr { ino, name } => self.remove_xattr(call, *ino, name),
            Op::Fallocate { ino, off, len, mode } => self.fallocate(call, *ino, *off, *len, *mode),
            Op::Seek { ino, off, what } => self.seek(*ino, *off, *what),
            Op::Sync => Ok(Reply::Done),
        }
    }

    /// A power failure: clients and what they held are gone, and with them the inodes that had
    /// no name. What was not durable is the caller's to know.
    pub fn crash(&mut self) {
        let inos: Vec<Ino> = self.inodes.keys().copied().collect();
        for ino in inos {
            let held = &self.inodes[&ino];
            if held.refs > 0 || held.opens > 0 {
                let inode = self.edit(ino);
                (inode.refs, inode.opens) = (0, 0);
            }
            self.drop_if_dead(ino);
        }
    }

    /// True if an inode is the same in both states, apart from what clients hold of it, or exists
    /// in neither.
    pub fn has_same(&self, other: &ModelFs, ino: Ino) -> bool {
        match (self.inodes.get(&ino), other.inodes.get(&ino)) {
            (Some(a), Some(b)) => {
                let same = |a: &Inode, b: &Inode| {
                    (&a.attr, &a.body, &a.xattrs) == (&b.attr, &b.body, &b.xattrs)
                };
                Rc::ptr_eq(a, b) || same(a, b)
            }
            (None, None) => true,
            _ => false,
        }
    }

    /// The inode with this number, if it exists.
    pub fn node(&self, ino: Ino) -> Option<DumpNode> {
        self.inodes.get(&ino).map(|inode| self.dump_node(inode))
    }

    /// The attributes of an inode, if it exists.
    pub fn attr(&self, ino: Ino) -> Option<&Attr> {
        self.inodes.get(&ino).map(|inode| &inode.attr)
    }

    /// The inode that a name leads to, if there is the directory and it has the name.
    pub fn leads_to(&self, dir: Ino, name: &[u8]) -> Option<Ino> {
        match &self.inodes.get(&dir)?.body {
            Body::Dir(directory) => directory.names.get(name).map(|slot| slot.ino),
            _ => None,
        }
    }

    /// A block of a regular file, whole; none if it is a hole, or there is no such file.
    pub fn block(&self, ino: Ino, lbn: u64) -> Option<&Block> {
        match &self.inodes.get(&ino)?.body {
            Body::File(content) => content.block(lbn),
            _ => None,
        }
    }

    /// Inodes that are not the same in the two states, or exist in one alone.
    pub fn changed_since(&self, before: &ModelFs) -> Vec<Ino> {
        let all: std::collections::BTreeSet<Ino> =
            self.inodes.keys().chain(before.inodes.keys()).copied().collect();
        all.into_iter().filter(|ino| !self.has_same(before, *ino)).collect()
    }

    /// True if `ino` stands for an inode number that no reply has shown yet.
    pub fn is_stand_in(ino: Ino) -> bool {
        ino >= PROVISIONAL
    }

    /// The number of inodes alive, with or without names.
    pub fn inode_count(&self) -> usize {
        self.inodes.len()
    }

    /// Whether a number is a stand-in for one that is free.
    fn may_become(&self, old: Ino, real: Ino) -> bool {
        old >= PROVISIONAL && !self.inodes.contains_key(&real)
    }

    /// Makes a stand-in number the real one, wherever it is.
    fn renumber(&mut self, old: Ino, real: Ino) {
        if let Some(mut inode) = self.inodes.remove(&old) {
            Rc::make_mut(&mut inode).attr.ino = real;
            self.inodes.insert(real, inode);
        }
        for inode in self.inodes.values_mut() {
            let names_it = match &inode.body {
                Body::Dir(dir) => dir.names.values().any(|slot| slot.ino == old),
                _ => false,
            };
            if names_it && let Body::Dir(dir) = &mut Rc::make_mut(inode).body {
                dir.names.values_mut().filter(|s| s.ino == old).for_each(|s| s.ino = real);
            }
        }
    }

    fn inode(&self, ino: Ino) -> Result<&Inode> {
        self.inodes.get(&ino).map(|inode| &**inode).ok_or(FsError::Stale)
    }

    /// An inode that is known to exist, for changing.
    fn edit(&mut self, ino: Ino) -> &mut Inode {
        match self.inodes.get_mut(&ino) {
            Some(inode) => Rc::make_mut(inode),
            None => unreachable!("inode {ino} was just seen"),
        }
    }

    /// Ends an inode that has neither names nor holders.
    fn drop_if_dead(&mut self, ino: Ino) {
        let dead = self
            .inodes
            .get(&ino)
            .is_some_and(|inode| inode.attr.nlink == 0 && inode.refs == 0 && inode.opens == 0);
        if dead {
            self.inodes.remove(&ino);
        }
    }

    /// The reply that names an inode, which holds it from now on.
    fn entry(&mut self, ino: Ino) -> LookupEntry {
        let inode = self.edit(ino);
        inode.refs += 1;
        LookupEntry { attr: inode.attr.clone(), generation: 1 }
    }

    fn forget(&mut self, ino: Ino, count: u64) -> Result<Reply> {
        if self.inodes.contains_key(&ino) {
            let inode = self.edit(ino);
            inode.refs = inode.refs.saturating_sub(count);
            self.drop_if_dead(ino);
        }
        Ok(Reply::Done)
    }

    fn stat_fs(&self) -> VolumeStat {
        VolumeStat {
            block_size: self.settings.block_size,
            io_size: self.settings.block_size,
            blocks: 1 << 40,
            free: 1 << 40,
            inodes: 1 << 40,
            free_inodes: (1 << 40) - self.inodes.len() as u64,
        }
    }
}

impl Directory {
    fn new(parent: Ino) -> Directory {
        Directory { parent, names: BTreeMap::new(), next_place: 3 }
    }
}

/// Checks that a name can be one.
fn check_name(name: &[u8]) -> Result<()> {
    if name.is_empty() || name.iter().any(|b| matches!(b, 0 | b'/')) {
        return Err(FsError::Invalid("a name is not empty and has no slash and no zero"));
    }
    if name.len() > NAME_MAX { Err(FsError::NameTooLong) } else { Ok(()) }
}

fn is_dot(name: &[u8]) -> bool {
    matches!(name, b"." | b"..")
}

#[cfg(test)]
mod tests;
