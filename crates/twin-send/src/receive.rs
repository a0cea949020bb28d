//! Applies records to a file system.
//!
//! Contract: the [`Mark`] of the root says *receiving* before the first change, and *received* after all is durable. Names
//! are looked up one after another, each in the directory that was found before it, and only directories are entered, so
//! a symbolic link on the way ends the work instead of leading elsewhere. Applying the same records again from the
//! beginning gives the same tree, wherever they were cut off.

use std::fmt;

use twin_disk::Bytes;
use twin_fs::{
    Attr, Data, Fallocate, FileSystem, FsError, Ino, LookupEntry, Name, Op, ROOT_INO, Reply,
    Request, Result, SetAttr, SetTime, XattrMode, mode,
};

use crate::mark::{MARK_ATTRIBUTE, Mark, Progress, Refusal};
use crate::record::{Attributes, DATA_MAX, Header, Record};

/// Bytes of names that are read at a time.
const NAMES_BYTES: u32 = 64 << 10;
/// Permission bits of what is made, until its attributes come.
const CLOSED: u32 = 0o700;

/// Why a record was not applied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReceiveError {
    /// The stream does not belong here. Nothing was changed.
    Refused(Refusal),
    /// The directory cannot keep the mark. Nothing was changed.
    NoMark(FsError),
    /// An operation failed.
    Failed {
        /// The path.
        path: Vec<u8>,
        /// The extended attribute, if it is about one.
        xattr: Option<Vec<u8>>,
        /// Why.
        error: FsError,
    },
}

impl fmt::Display for ReceiveError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ReceiveError::Refused(refusal) => refusal.fmt(f),
            ReceiveError::NoMark(error) => {
                write!(f, "the attribute that says what was received cannot be set: {error}")
            }
            ReceiveError::Failed { path, xattr, error } => {
                let path = if path.is_empty() { b"." } else { path.as_slice() };
                write!(f, "{}: ", path.escape_ascii())?;
                if let Some(name) = xattr {
                    write!(f, "the attribute {}: ", name.escape_ascii())?;
                }
                error.fmt(f)
            }
        }
    }
}

impl std::error::Error for ReceiveError {}

impl From<Refusal> for ReceiveError {
    fn from(refusal: Refusal) -> Self {
        ReceiveError::Refused(refusal)
    }
}

/// Applies records. See the module.
#[derive(Debug)]
pub struct Receiver<F> {
    fs: F,
    header: Option<Header>,
    /// The path of the last record that names one.
    path: Vec<u8>,
    /// The directories on the way to the last path, from the root's on.
    way: Vec<(Vec<u8>, Ino)>,
    /// The file to which data goes, which is open.
    file: Option<Ino>,
    /// What attributes belong to, which is held.
    node: Option<Ino>,
}

impl<F: FileSystem> Receiver<F> {
    /// Nothing has been applied.
    pub fn new(fs: F) -> Receiver<F> {
        Receiver { fs, header: None, path: Vec::new(), way: Vec::new(), file: None, node: None }
    }

    /// True from the moment on when the stream was admitted, so that the file system may have changed.
    pub fn has_begun(&self) -> bool {
        self.header.is_some()
    }

    /// Applies the next record of a [`Reader`](crate::Reader).
    ///
    /// # Errors
    /// If the stream does not belong here, or an operation fails. What was applied stays.
    pub async fn apply(&mut self, record: Record) -> Result<(), ReceiveError> {
        if let Record::Header(header) = record {
            return self.begin(header).await;
        }
        if let Some(path) = record.path() {
            self.path = path.to_vec();
        }
        let xattr = match &record {
            Record::Xattr { name, .. } => Some(name.clone()),
            _ => None,
        };
        let applied = self.change(record).await;
        applied.map_err(|error| ReceiveError::Failed { path: self.path.clone(), xattr, error })
    }

    async fn begin(&mut self, header: Header) -> Result<(), ReceiveError> {
        let unmarked = ReceiveError::NoMark;
        let name: Name = MARK_ATTRIBUTE.into();
        let mark: Option<Mark> = match self.ask(Op::GetXattr { ino: ROOT_INO, name }).await {
            Ok(Reply::Bytes(text)) => {
                let text = std::str::from_utf8(&text).ok().and_then(|text| text.parse().ok());
                let unknown = FsError::Invalid("it is there, and this program cannot read it");
                Some(text.ok_or(unmarked(unknown))?)
            }
            Ok(_) => return Err(unmarked(unexpected())),
            Err(FsError::NoAttribute) => None,
            Err(error) => return Err(unmarked(error)),
        };
        let names = self.names(ROOT_INO).await;
        let is_empty = names.map_err(unmarked)?.is_empty();
        Mark::admits(mark.as_ref(), is_empty, &header)?;
        self.set_mark(Progress::Receiving, &header).await.map_err(unmarked)?;
        self.header = Some(header);
        Ok(())
    }

    /// Sets the mark and makes it durable.
    async fn set_mark(&self, progress: Progress, header: &Header) -> Result<()> {
        let value = Mark { progress, header: header.clone() }.to_string().into_bytes().into();
        let (ino, name) = (ROOT_INO, MARK_ATTRIBUTE.into());
        self.ask(Op::SetXattr { ino, name, value, mode: XattrMode::Any }).await?;
        self.ask(Op::Fsync { ino: ROOT_INO, data_only: false }).await?;
        Ok(())
    }

    async fn change(&mut self, record: Record) -> Result<()> {
        if !matches!(record, Record::Data { .. } | Record::Hole { .. }) {
            self.close_file().await?;
        }
        if !matches!(record, Record::Xattr { .. }) {
            self.let_go(self.node).await?;
            self.node = None;
        }
        match record {
            // A reader gives one header, first.
            Record::Header(_) => Ok(()),
            Record::Remove(path) => self.clear(&path).await.map(|_| ()),
            Record::Directory(path) => {
                let (dir, name) = self.clear(&path).await?;
                self.make(Op::MakeDir { dir, name, mode: CLOSED }).await
            }
            Record::File { path, size } => {
                let (dir, name) = self.clear(&path).await?;
                let create = Op::Create { dir, name, mode: CLOSED, exclusive: true };
                let ino = self.entry(create).await?.attr.ino;
                self.file = Some(ino);
                self.set_size(ino, size).await
            }
            Record::Update { path, size } => {
                let ino = self.find_file(&path).await?;
                let opened = self.ask(Op::Open { ino, read: false, write: true, truncate: false });
                if let Err(error) = opened.await {
                    self.let_go(Some(ino)).await?;
                    return Err(error);
                }
                self.file = Some(ino);
                self.set_size(ino, size).await
            }
            Record::Data { off, data } => self.write(off, &data).await,
            Record::Hole { off, len } => self.punch(off, len).await,
            Record::Symlink { path, target } => {
                let (dir, name) = self.clear(&path).await?;
                self.make(Op::Symlink { dir, name, target: target.into() }).await
            }
            Record::Node { path, mode, rdev } => {
                let (dir, name) = self.clear(&path).await?;
                let mode = mode & mode::TYPE | CLOSED;
                self.make(Op::MakeNode { dir, name, mode, rdev }).await
            }
            Record::Link { path, to } => {
                let target = self.find(&to).await?;
                let linked = self.link(&target, &path).await;
                self.let_go(Some(target.ino)).await?;
                linked
            }
            Record::Attributes(attributes) => self.set_attributes(&attributes).await,
            Record::Xattr { name, value } => {
                let ino = self.node.ok_or_else(unexpected)?;
                let (name, value) = (name.into(), value.into());
                self.ask(Op::SetXattr { ino, name, value, mode: XattrMode::Any }).await.map(|_| ())
            }
            Record::End(_) => self.end().await,
        }
    }

    async fn end(&mut self) -> Result<()> {
        self.leave_to(0).await?;
        self.ask(Op::Sync).await?;
        match self.header.clone() {
            Some(header) => self.set_mark(Progress::Received, &header).await,
            None => Err(unexpected()),
        }
    }

    async fn link(&mut self, target: &Attr, path: &[u8]) -> Result<()> {
        if target.is_dir() {
            return Err(FsError::IsDirectory);
        }
        let (dir, name) = self.clear(path).await?;
        self.make(Op::Link { ino: target.ino, dir, name }).await
    }

    async fn set_size(&self, ino: Ino, size: u64) -> Result<()> {
        let set = SetAttr { size: Some(size), ..SetAttr::default() };
        self.ask(Op::SetAttr { ino, set }).await.map(|_| ())
    }

    async fn write(&self, off: u64, data: &[u8]) -> Result<()> {
        let ino = self.file.ok_or_else(unexpected)?;
        let mut done = 0;
        while done < data.len() {
            let rest = Data::Bytes(Bytes::copy_of(&data[done..]));
            let write = Op::Write { ino, off: off + done as u64, data: rest };
            match self.ask(write).await? {
                Reply::Written(0) => return Err(FsError::NoSpace),
                Reply::Written(count) => done += count as usize,
                _ => return Err(unexpected()),
            }
        }
        Ok(())
    }

    /// Makes a hole, or zeros where there are no holes.
    async fn punch(&self, off: u64, len: u64) -> Result<()> {
        let ino = self.file.ok_or_else(unexpected)?;
        match self.ask(Op::Fallocate { ino, off, len, mode: Fallocate::PunchHole }).await {
            Ok(_) => Ok(()),
            Err(FsError::NotSupported(_)) => {
                let mut at = off;
                while at < off + len {
                    let part = (off + len - at).min(DATA_MAX as u64);
                    self.write(at, &vec![0; part as usize]).await?;
                    at += part;
                }
                Ok(())
            }
            Err(error) => Err(error),
        }
    }

    async fn set_attributes(&mut self, attributes: &Attributes) -> Result<()> {
        let Attributes { path, mode, uid, gid, atime, mtime, xattrs } = attributes;
        let attr = self.find(path).await?;
        let ino = attr.ino;
        self.node = Some(ino);
        if attr.kind() != mode & mode::TYPE {
            return Err(FsError::Invalid("here is a file of another kind"));
        }
        if (attr.uid, attr.gid) != (*uid, *gid) {
            let set = SetAttr { uid: Some(*uid), gid: Some(*gid), ..SetAttr::default() };
            self.ask(Op::SetAttr { ino, set }).await?;
        }
        self.remove_xattrs(ino, xattrs).await?;
        let is_symlink = attr.kind() == mode::SYMLINK;
        let set = SetAttr {
            mode: (!is_symlink).then_some(mode & mode::PERMISSIONS),
            ..SetAttr::default()
        };
        if set.mode.is_some() {
            self.ask(Op::SetAttr { ino, set }).await?;
        }
        let at = |time| Some(SetTime::At(time));
        let set = SetAttr { atime: at(*atime), mtime: at(*mtime), ..SetAttr::default() };
        self.ask(Op::SetAttr { ino, set }).await.map(|_| ())
    }

    /// Removes the extended attributes that are not named.
    async fn remove_xattrs(&self, ino: Ino, keep: &[Vec<u8>]) -> Result<()> {
        let names = match self.ask(Op::ListXattr { ino }).await {
            Ok(Reply::Bytes(names)) => names,
            Err(FsError::NotSupported(_)) => return Ok(()),
            Ok(_) => return Err(unexpected()),
            Err(error) => return Err(error),
        };
        for name in names.split(|&byte| byte == 0).filter(|name| !name.is_empty()) {
            // Labels of the host's security modules are its own.
            let is_label = name.starts_with(b"security.") && name != b"security.capability";
            let is_mark = ino == ROOT_INO && name == MARK_ATTRIBUTE;
            if is_label || is_mark || keep.iter().any(|kept| kept == name) {
                continue;
            }
            self.ask(Op::RemoveXattr { ino, name: name.into() }).await?;
        }
        Ok(())
    }

    /// Finds what a path leads to, and holds it.
    async fn find(&mut self, path: &[u8]) -> Result<Attr> {
        if path.is_empty() {
            return match self.ask(Op::GetAttr { ino: ROOT_INO }).await? {
                Reply::Attr(attr) => Ok(attr),
                _ => Err(unexpected()),
            };
        }
        let (dir, name) = self.enter(path).await?;
        Ok(self.entry(Op::Lookup { dir, name }).await?.attr)
    }

    /// Finds a regular file, and holds it.
    async fn find_file(&mut self, path: &[u8]) -> Result<Ino> {
        let attr = self.find(path).await?;
        if attr.kind() == mode::REGULAR {
            return Ok(attr.ino);
        }
        self.let_go(Some(attr.ino)).await?;
        Err(FsError::Invalid("here is no regular file"))
    }

    /// Removes what a path leads to, if anything, and returns its directory and name.
    async fn clear(&mut self, path: &[u8]) -> Result<(Ino, Name)> {
        let (dir, name) = self.enter(path).await?;
        let found = match self.entry(Op::Lookup { dir, name: name.clone() }).await {
            Err(FsError::NotFound) => return Ok((dir, name)),
            found => found?.attr,
        };
        if found.is_dir() {
            self.remove_tree(dir, &name, found.ino).await?;
        } else {
            self.let_go(Some(found.ino)).await?;
            self.ask(Op::Unlink { dir, name: name.clone() }).await?;
        }
        Ok((dir, name))
    }

    /// Removes a directory, which is held, and everything in it.
    async fn remove_tree(&self, dir: Ino, name: &Name, ino: Ino) -> Result<()> {
        let mut open = vec![(dir, name.clone(), ino)];
        let mut result = Ok(());
        while let (Some((dir, name, ino)), Ok(())) = (open.last().cloned(), &result) {
            result = match self.empty(ino).await {
                Ok(Some((below, at))) => {
                    open.push((ino, below, at));
                    Ok(())
                }
                Ok(None) => {
                    open.pop();
                    self.let_go(Some(ino)).await?;
                    self.ask(Op::RemoveDir { dir, name }).await.map(|_| ())
                }
                Err(error) => Err(error),
            };
        }
        for (_, _, ino) in open {
            self.let_go(Some(ino)).await?;
        }
        result
    }

    /// Removes what is in a directory until a directory is met there, which is returned, held.
    async fn empty(&self, dir: Ino) -> Result<Option<(Name, Ino)>> {
        loop {
            let names = self.names(dir).await?;
            if names.is_empty() {
                return Ok(None);
            }
            for name in names {
                let attr = self.entry(Op::Lookup { dir, name: name.clone() }).await?.attr;
                if attr.is_dir() {
                    return Ok(Some((name, attr.ino)));
                }
                self.let_go(Some(attr.ino)).await?;
                self.ask(Op::Unlink { dir, name }).await?;
            }
        }
    }

    /// The first names of a directory, without `.` and `..`.
    async fn names(&self, dir: Ino) -> Result<Vec<Name>> {
        let (mut cookie, mut names) = (0, Vec::new());
        while names.is_empty() {
            let read = Op::ReadDir { dir, cookie, max_bytes: NAMES_BYTES, plus: false };
            let Reply::Dir(entries) = self.ask(read).await? else { return Err(unexpected()) };
            let Some(last) = entries.last() else { break };
            cookie = last.next;
            names.extend(entries.into_iter().map(|entry| entry.name));
            names.retain(|name| !matches!(&**name, b"." | b".."));
        }
        Ok(names)
    }

    /// Goes to the directory of a path and returns it, with the name in it. Nothing but directories is entered.
    async fn enter(&mut self, path: &[u8]) -> Result<(Ino, Name)> {
        let mut names: Vec<&[u8]> = path.split(|&byte| byte == b'/').collect();
        let last = names.pop().unwrap_or_default();
        let is_shared = |(name, (way, _)): &(&&[u8], &(Vec<u8>, Ino))| **name == way.as_slice();
        let shared = names.iter().zip(&self.way).take_while(is_shared).count();
        self.leave_to(shared).await?;
        for name in &names[shared..] {
            let dir = self.way.last().map_or(ROOT_INO, |(_, ino)| *ino);
            let attr = self.entry(Op::Lookup { dir, name: (*name).into() }).await?.attr;
            if !attr.is_dir() {
                self.let_go(Some(attr.ino)).await?;
                return Err(FsError::NotDirectory);
            }
            self.way.push((name.to_vec(), attr.ino));
        }
        Ok((self.way.last().map_or(ROOT_INO, |(_, ino)| *ino), last.into()))
    }

    async fn leave_to(&mut self, depth: usize) -> Result<()> {
        while self.way.len() > depth {
            let left = self.way.pop().map(|(_, ino)| ino);
            self.let_go(left).await?;
        }
        Ok(())
    }

    async fn close_file(&mut self) -> Result<()> {
        let Some(ino) = self.file.take() else { return Ok(()) };
        self.ask(Op::Release { ino }).await?;
        self.let_go(Some(ino)).await
    }

    /// Makes something that nobody holds.
    async fn make(&self, op: Op) -> Result<()> {
        let made = self.entry(op).await?;
        self.let_go(Some(made.attr.ino)).await
    }

    /// Drops a reference. The root has none.
    async fn let_go(&self, ino: Option<Ino>) -> Result<()> {
        match ino {
            Some(ino) if ino != ROOT_INO => {
                self.ask(Op::Forget { ino, count: 1 }).await.map(|_| ())
            }
            _ => Ok(()),
        }
    }

    async fn entry(&self, op: Op) -> Result<LookupEntry> {
        match self.ask(op).await? {
            Reply::Entry(entry) => Ok(entry),
            _ => Err(unexpected()),
        }
    }

    async fn ask(&self, op: Op) -> Result<Reply> {
        self.fs.execute(Request::root(1, op)).await
    }
}

fn unexpected() -> FsError {
    FsError::inconsistent("a reply of the wrong kind")
}
