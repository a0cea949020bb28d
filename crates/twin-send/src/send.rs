//! Walks a state, beside its base if there is one, and gives the records of what the base has not.
//!
//! Contract: applied in order to a tree that is that of the base, or to an empty one, the records make the tree of the
//! state. A path of both states is *kept* if it leads to the same inode in both; what is at other paths is removed and
//! made. A kept file is changed in place. Of a file with several names, the first that is met has the content, and the
//! others become links to it, unless both are kept, since they are links then. So nothing has to be known of what comes
//! later, and the records may be applied again from the beginning to a tree that has some of them.
//!
//! What both states share is not read, as far as the layout sees it ([`Shared`]). Memory: the names of the directories
//! on the way to the path that is sent, and a path for each inode with several names.

use std::collections::BTreeMap;
use std::fmt;
use std::vec::IntoIter;

use twin_fs::snapshots::Shared;
use twin_fs::{
    Attr, FileSystem, FsError, Ino, LookupEntry, Op, ROOT_INO, Reply, Request, Result, SeekFor,
    mode,
};

use crate::mark::MARK_ATTRIBUTE;
use crate::record::{Attributes, DATA_MAX, Record};

/// Bytes of names that are read at a time.
const NAMES_BYTES: u32 = 64 << 10;

/// Why a state was not sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SendError {
    /// A path cannot be read.
    Read {
        /// The path.
        path: Vec<u8>,
        /// Why.
        error: FsError,
    },
    /// Whoever takes the records refused one.
    Refused(String),
}

impl fmt::Display for SendError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SendError::Read { path, error } => write!(f, "/{}: {error}", path.escape_ascii()),
            SendError::Refused(why) => f.write_str(why),
        }
    }
}

impl std::error::Error for SendError {}

/// A directory whose names are being sent.
struct Directory {
    /// The length of its path, and its inodes.
    path_len: usize,
    inos: [Option<Ino>; 2],
    /// Names that are left, with their inodes in the base and in the state.
    names: IntoIter<(Vec<u8>, [Option<Ino>; 2])>,
    /// Whether its attributes have to be sent: they differ, or a record changed its times.
    is_touched: bool,
}

/// What a path of an inode that may have several names needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Name {
    /// It is the first one of the inode.
    First,
    /// It leads to the inode as it was sent already.
    Done,
    /// It was made a link, which changed its directory.
    Linked,
}

/// Where the inode of several names has been sent.
struct Sent {
    path: Vec<u8>,
    /// The path is kept, so other kept ones are links to it already.
    is_kept: bool,
}

struct Walk<'a, F> {
    /// The base and the state.
    sides: [Option<&'a F>; 2],
    shared: Option<&'a dyn Shared>,
    path: Vec<u8>,
    sent: BTreeMap<Ino, Sent>,
    out: &'a mut dyn FnMut(Record) -> Result<(), String>,
}

type Sending<T> = Result<T, SendError>;

/// Gives the records of `state` to `out`: all of it, or what `base` has not. The header and the end are not among them.
///
/// # Errors
/// If a state cannot be read, or `out` refuses a record.
pub async fn send<F: FileSystem>(
    base: Option<&F>,
    state: &F,
    shared: Option<&dyn Shared>,
    out: &mut dyn FnMut(Record) -> Result<(), String>,
) -> Sending<()> {
    let shared = shared.filter(|_| base.is_some());
    let sides = [base, Some(state)];
    let mut walk = Walk { sides, shared, path: Vec::new(), sent: BTreeMap::new(), out };
    let mut open = Vec::new();
    walk.enter([base.map(|_| ROOT_INO), Some(ROOT_INO)], base.is_none(), &mut open).await?;
    while let Some(mut dir) = open.pop() {
        walk.path.truncate(dir.path_len);
        let Some((name, inos)) = dir.names.next() else {
            walk.leave(dir.inos, dir.is_touched).await?;
            continue;
        };
        if !walk.path.is_empty() {
            walk.path.push(b'/');
        }
        walk.path.extend_from_slice(&name);
        let place = open.len();
        open.push(dir);
        let touches = walk.visit(inos, &mut open).await?;
        open[place].is_touched |= touches;
    }
    Ok(())
}

impl<F: FileSystem> Walk<'_, F> {
    /// Sends what the path leads to. True if a record changes its directory.
    async fn visit(&mut self, inos: [Option<Ino>; 2], open: &mut Vec<Directory>) -> Sending<bool> {
        let [old, new] = inos;
        let Some(ino) = new else {
            self.put(Record::Remove(self.path.clone()))?;
            return Ok(true);
        };
        if old == Some(ino) && self.is_same_inode(ino).await? {
            return self.visit_same(ino, open).await;
        }
        let now = self.attr(1, ino).await?;
        let before = match old {
            Some(old) if old == ino => {
                let before = self.attr(0, ino).await?;
                let is_kept = before.generation == now.generation
                    && before.attr.kind() == now.attr.kind()
                    && before.attr.rdev == now.attr.rdev;
                is_kept.then_some(before.attr)
            }
            _ => None,
        };
        let now = now.attr;
        if let Some(before) = before {
            if now.is_dir() {
                self.enter(inos, false, open).await?;
                return Ok(false);
            }
            return match self.link(ino, now.nlink, true)? {
                Name::First => self.change(&before, &now).await,
                name => Ok(name == Name::Linked),
            };
        }
        if now.is_dir() {
            self.put(Record::Directory(self.path.clone()))?;
            self.enter([None, new], true, open).await?;
            return Ok(true);
        }
        if self.link(ino, now.nlink, false)? == Name::First {
            self.make(&now).await?;
        }
        Ok(true)
    }

    /// Goes on at a path that leads to the same inode, which has not changed. True if a record changes its directory.
    async fn visit_same(&mut self, ino: Ino, open: &mut Vec<Directory>) -> Sending<bool> {
        let now = self.attr(1, ino).await?.attr;
        if now.is_dir() {
            self.enter([Some(ino); 2], false, open).await?;
            return Ok(false);
        }
        Ok(self.link(ino, now.nlink, true)? == Name::Linked)
    }

    /// Sends a link if the inode has been sent under another name and the path is no link to that one yet.
    fn link(&mut self, ino: Ino, nlink: u32, is_kept: bool) -> Sending<Name> {
        if nlink < 2 {
            return Ok(Name::First);
        }
        let Some(sent) = self.sent.get(&ino) else {
            self.sent.insert(ino, Sent { path: self.path.clone(), is_kept });
            return Ok(Name::First);
        };
        if is_kept && sent.is_kept {
            return Ok(Name::Done);
        }
        let to = sent.path.clone();
        self.put(Record::Link { path: self.path.clone(), to })?;
        Ok(Name::Linked)
    }

    /// Makes what the path leads to, which is no directory.
    async fn make(&mut self, attr: &Attr) -> Sending<()> {
        let path = self.path.clone();
        match attr.kind() {
            mode::REGULAR => {
                self.put(Record::File { path, size: attr.size })?;
                self.send_data(attr.ino, 0, attr.size).await?;
            }
            mode::SYMLINK => {
                let target = self.ask_bytes(1, Op::ReadLink { ino: attr.ino }).await?;
                self.put(Record::Symlink { path, target })?;
            }
            _ => self.put(Record::Node { path, mode: attr.mode, rdev: attr.rdev })?,
        }
        self.put_attributes(attr).await
    }

    /// Changes what the path leads to in both states, which is no directory. True if a record changes its directory.
    async fn change(&mut self, before: &Attr, now: &Attr) -> Sending<bool> {
        if now.kind() == mode::SYMLINK {
            let targets = [
                self.ask_bytes(0, Op::ReadLink { ino: now.ino }).await?,
                self.ask_bytes(1, Op::ReadLink { ino: now.ino }).await?,
            ];
            if targets[0] != targets[1] {
                self.make(now).await?;
                return Ok(true);
            }
        }
        let mut is_changed = self.has_other_attributes(before, now).await?;
        if now.kind() == mode::REGULAR {
            is_changed |= self.send_changes(before, now).await?;
        }
        if is_changed {
            self.put_attributes(now).await?;
        }
        Ok(false)
    }

    /// Sends what differs in the content of a file, and returns whether anything does.
    async fn send_changes(&mut self, before: &Attr, now: &Attr) -> Sending<bool> {
        let update = Record::Update { path: self.path.clone(), size: now.size };
        let mut is_open = before.size != now.size;
        if is_open {
            self.put(update.clone())?;
        }
        let block_size = self.shared.map_or(DATA_MAX as u64, Shared::block_size).max(1);
        let mut at = 0;
        while at < now.size {
            let from = at;
            while at < now.size && !self.is_same_block(now.ino, at / block_size).await? {
                at += block_size;
            }
            if at > from {
                if !is_open {
                    self.put(update.clone())?;
                    is_open = true;
                }
                self.send_range(now.ino, from, at.min(now.size)).await?;
            }
            at += block_size;
        }
        Ok(is_open)
    }

    /// Sends a range of a file that was there, with its holes.
    async fn send_range(&mut self, ino: Ino, from: u64, end: u64) -> Sending<()> {
        let mut at = from;
        while at < end {
            let data = self.seek(ino, at, SeekFor::Data).await?.unwrap_or(end).min(end);
            if data > at {
                self.put(Record::Hole { off: at, len: data - at })?;
            }
            let hole = match data < end {
                true => self.seek(ino, data, SeekFor::Hole).await?.unwrap_or(end).min(end),
                false => end,
            };
            self.copy(ino, data, hole).await?;
            at = hole.max(at + 1);
        }
        Ok(())
    }

    /// Sends the data in a range of a new file; its holes are there already.
    async fn send_data(&mut self, ino: Ino, from: u64, end: u64) -> Sending<()> {
        let mut at = from;
        while at < end {
            let Some(data) = self.seek(ino, at, SeekFor::Data).await? else { break };
            let hole = self.seek(ino, data, SeekFor::Hole).await?.unwrap_or(end).min(end);
            self.copy(ino, data, hole).await?;
            at = hole.max(data + 1);
        }
        Ok(())
    }

    /// Sends data.
    async fn copy(&mut self, ino: Ino, from: u64, end: u64) -> Sending<()> {
        let mut off = from;
        while off < end {
            // Blocks of files begin where they do on the volume, so that none is read twice.
            let len = (DATA_MAX as u64 - off % DATA_MAX as u64).min(end - off) as u32;
            let Reply::Data(blocks) = self.ask(1, Op::Read { ino, off, len }).await? else {
                return Err(self.unexpected());
            };
            let data: Vec<u8> = blocks.iter().flat_map(|b| b.to_bytes().to_vec()).collect();
            if data.len() != len as usize {
                return Err(self.unexpected());
            }
            self.put(Record::Data { off, data })?;
            off += u64::from(len);
        }
        Ok(())
    }

    async fn is_same_inode(&self, ino: Ino) -> Sending<bool> {
        match self.shared {
            Some(shared) => shared.is_same_inode(ino).await.map_err(|error| self.failed(error)),
            None => Ok(false),
        }
    }

    async fn is_same_block(&self, ino: Ino, lbn: u64) -> Sending<bool> {
        match self.shared {
            Some(shared) => {
                shared.is_same_block(ino, lbn).await.map_err(|error| self.failed(error))
            }
            None => Ok(false),
        }
    }

    /// Begins with the names of a directory, which the path leads to.
    async fn enter(
        &mut self,
        inos: [Option<Ino>; 2],
        is_touched: bool,
        open: &mut Vec<Directory>,
    ) -> Sending<()> {
        let mut names: BTreeMap<Vec<u8>, [Option<Ino>; 2]> = BTreeMap::new();
        for (side, ino) in inos.into_iter().enumerate() {
            let Some(dir) = ino else { continue };
            let mut cookie = 0;
            loop {
                let op = Op::ReadDir { dir, cookie, max_bytes: NAMES_BYTES, plus: false };
                let Reply::Dir(entries) = self.ask(side, op).await? else {
                    return Err(self.unexpected());
                };
                let Some(last) = entries.last() else { break };
                cookie = last.next;
                let real = entries.iter().filter(|entry| !matches!(&*entry.name, b"." | b".."));
                for entry in real {
                    names.entry(entry.name.to_vec()).or_default()[side] = Some(entry.ino);
                }
            }
        }
        let names: Vec<_> = names.into_iter().collect();
        let path_len = self.path.len();
        open.push(Directory { path_len, inos, names: names.into_iter(), is_touched });
        Ok(())
    }

    /// Ends with a directory: sends its attributes if they differ or were changed by what was sent.
    async fn leave(&mut self, inos: [Option<Ino>; 2], is_touched: bool) -> Sending<()> {
        let [old, Some(ino)] = inos else { return Ok(()) };
        let now = self.attr(1, ino).await?.attr;
        let is_changed = match old {
            Some(old) if !is_touched => {
                let before = self.attr(0, old).await?.attr;
                !self.is_same_inode(ino).await? && self.has_other_attributes(&before, &now).await?
            }
            _ => true,
        };
        if is_changed {
            self.put_attributes(&now).await?;
        }
        Ok(())
    }

    /// True if attributes differ. The time of the last access does not count, nor do the permission bits of symbolic links,
    /// which mean nothing and cannot be set everywhere.
    async fn has_other_attributes(&mut self, before: &Attr, now: &Attr) -> Sending<bool> {
        let mode = |attr: &Attr| if attr.kind() == mode::SYMLINK { 0 } else { attr.mode };
        let of = |attr: &Attr| (mode(attr), attr.uid, attr.gid, attr.mtime);
        if of(before) != of(now) {
            return Ok(true);
        }
        Ok(self.xattrs(0, before.ino).await? != self.xattrs(1, now.ino).await?)
    }

    async fn put_attributes(&mut self, attr: &Attr) -> Sending<()> {
        let xattrs = self.xattrs(1, attr.ino).await?;
        let Attr { mode, uid, gid, atime, mtime, .. } = *attr;
        let names = xattrs.keys().cloned().collect();
        let path = self.path.clone();
        self.put(Record::Attributes(Attributes {
            path,
            mode,
            uid,
            gid,
            atime,
            mtime,
            xattrs: names,
        }))?;
        for (name, value) in xattrs {
            self.put(Record::Xattr { name, value })?;
        }
        Ok(())
    }

    /// The extended attributes of an inode, besides the mark of a directory to which a stream was applied.
    async fn xattrs(&mut self, side: usize, ino: Ino) -> Sending<BTreeMap<Vec<u8>, Vec<u8>>> {
        let names = match self.try_ask(side, Op::ListXattr { ino }).await {
            Ok(Reply::Bytes(names)) => names,
            Err(FsError::NotSupported(_)) => return Ok(BTreeMap::new()),
            Ok(_) => return Err(self.unexpected()),
            Err(error) => return Err(self.failed(error)),
        };
        let mut xattrs = BTreeMap::new();
        for name in names.split(|&byte| byte == 0).filter(|name| !name.is_empty()) {
            if ino == ROOT_INO && name == MARK_ATTRIBUTE {
                continue;
            }
            let value = self.ask_bytes(side, Op::GetXattr { ino, name: name.into() }).await?;
            xattrs.insert(name.to_vec(), value);
        }
        Ok(xattrs)
    }

    /// The attributes of an inode with its generation.
    async fn attr(&self, side: usize, ino: Ino) -> Sending<LookupEntry> {
        let op = Op::Lookup { dir: ino, name: b".".as_slice().into() };
        let Reply::Entry(entry) = self.ask(side, op).await? else { return Err(self.unexpected()) };
        self.ask(side, Op::Forget { ino, count: 1 }).await?;
        Ok(entry)
    }

    /// The next byte of data or of a hole; `None` if there is none.
    async fn seek(&self, ino: Ino, off: u64, what: SeekFor) -> Sending<Option<u64>> {
        match self.try_ask(1, Op::Seek { ino, off, what }).await {
            Ok(Reply::Offset(found)) => Ok(Some(found)),
            Err(FsError::NoSuchOffset) => Ok(None),
            // Whoever has no holes has data everywhere.
            Err(FsError::NotSupported(_)) => Ok((what == SeekFor::Data).then_some(off)),
            Ok(_) => Err(self.unexpected()),
            Err(error) => Err(self.failed(error)),
        }
    }

    async fn ask_bytes(&self, side: usize, op: Op) -> Sending<Vec<u8>> {
        match self.ask(side, op).await? {
            Reply::Bytes(bytes) => Ok(bytes.into()),
            _ => Err(self.unexpected()),
        }
    }

    async fn ask(&self, side: usize, op: Op) -> Sending<Reply> {
        self.try_ask(side, op).await.map_err(|error| self.failed(error))
    }

    async fn try_ask(&self, side: usize, op: Op) -> Result<Reply> {
        match self.sides[side] {
            Some(volume) => volume.execute(Request::root(1, op)).await,
            None => Err(FsError::NotFound),
        }
    }

    fn put(&mut self, record: Record) -> Sending<()> {
        (self.out)(record).map_err(SendError::Refused)
    }

    fn failed(&self, error: FsError) -> SendError {
        SendError::Read { path: self.path.clone(), error }
    }

    fn unexpected(&self) -> SendError {
        self.failed(FsError::inconsistent("a reply of the wrong kind"))
    }
}
