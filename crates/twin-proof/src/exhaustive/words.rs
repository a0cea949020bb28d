//! The words that workloads are made of: operations on few names, and what makes them durable.
//!
//! Contract: a word has a name, which is its text in a scenario, and means the same on every volume with the
//! files of [`begin`]. A word that fails, because an earlier one took its file away, is a word all the same: its
//! error is compared with the model's. Each word looks its files up and lets go of them, as a kernel does that
//! keeps nothing; a file that is opened stays open until [`Client::end`].

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use twin_fs::{
    Data, Fallocate, FsError, Ino, Name, Op, ROOT_INO, RenameMode, Reply, Request, Result, SetAttr,
    SetTime, Timestamp, XattrMode, mode,
};
use twin_rt::{SECS, Time};

use super::covered::Covered;
use super::served::Remote;
use crate::Subject;
use crate::drive::Notes;

/// What one word does.
#[derive(Clone, Copy, Debug)]
pub(super) enum Act {
    Create(&'static str),
    MakeNode(&'static str, u32),
    MakeDir(&'static str),
    Symlink(&'static str, usize),
    Write(&'static str, u64, u64),
    Append(&'static str, u64),
    /// What was stored to mapped memory, as the kernel hands it on, with the times that it gives.
    Mapped(&'static str, u64, u64),
    Truncate(&'static str, u64),
    OpenTruncating(&'static str),
    Fallocate(&'static str, u64, u64, Fallocate),
    Link(&'static str, &'static str),
    Rename(&'static str, &'static str, RenameMode),
    Unlink(&'static str),
    /// Opened, its name removed, and written to while only the opener has it.
    OpenUnlinked(&'static str, u64),
    RemoveDir(&'static str),
    SetXattr(&'static str, &'static str, usize),
    RemoveXattr(&'static str, &'static str),
    Mode(&'static str, u32),
    Times(&'static str),
}

use Act::*;

const KEEP: Fallocate = Fallocate::Allocate { keep_size: true };
const GROW: Fallocate = Fallocate::Allocate { keep_size: false };
const ZERO: Fallocate = Fallocate::ZeroRange { keep_size: true };
const ZERO_GROW: Fallocate = Fallocate::ZeroRange { keep_size: false };

/// The operations. `a` has blocks and a fragment, `b` is short and has an attribute, `h` has an indirect block
/// behind a hole, `d` holds `c`, `e` is empty, `l` leads to `a`; `n` is not there.
pub(super) const ACTS: &[(&str, Act)] = &[
    ("create-n", Create("n")),
    ("create-dn", Create("d/n")),
    ("fifo-n", MakeNode("n", mode::FIFO | 0o600)),
    ("mkdir-n", MakeDir("n")),
    ("mkdir-en", MakeDir("e/n")),
    ("symlink-n", Symlink("n", 20)),
    ("symlink-long", Symlink("d/n", 800)),
    ("write-a", Write("a", 0, 4096)),
    ("write-a-part", Write("a", 1000, 5000)),
    ("write-a-far", Write("a", 120_000, 5000)),
    ("write-b", Write("b", 10, 50)),
    ("write-c", Write("d/c", 0, 9000)),
    ("append-a", Append("a", 3000)),
    ("append-b", Append("b", 5000)),
    ("append-h", Append("h", 100)),
    ("mapped-a", Mapped("a", 4096, 4096)),
    ("mapped-h", Mapped("h", 61_440, 4096)),
    ("cut-a", Truncate("a", 0)),
    ("cut-a-part", Truncate("a", 5001)),
    ("cut-h", Truncate("h", 30_000)),
    ("grow-a", Truncate("a", 20_000)),
    ("grow-b", Truncate("b", 4096)),
    ("open-trunc-c", OpenTruncating("d/c")),
    ("punch-a", Fallocate("a", 4096, 4096, Fallocate::PunchHole)),
    ("punch-a-part", Fallocate("a", 1000, 8500, Fallocate::PunchHole)),
    ("punch-h", Fallocate("h", 49_152, 40_000, Fallocate::PunchHole)),
    ("zero-a", Fallocate("a", 2000, 6000, ZERO)),
    ("zero-b-grow", Fallocate("b", 0, 8192, ZERO_GROW)),
    ("alloc-h", Fallocate("h", 0, 16_384, KEEP)),
    ("alloc-b-grow", Fallocate("b", 100, 12_000, GROW)),
    ("link-a-n", Link("a", "n")),
    ("link-c-n", Link("d/c", "n")),
    ("link-b-dn", Link("b", "d/n")),
    ("rename-a-n", Rename("a", "n", RenameMode::Replace)),
    ("rename-a-b", Rename("a", "b", RenameMode::Replace)),
    ("rename-b-c", Rename("b", "d/c", RenameMode::Replace)),
    ("rename-c-n", Rename("d/c", "n", RenameMode::NoReplace)),
    ("rename-d-n", Rename("d", "n", RenameMode::Replace)),
    ("rename-d-e", Rename("d", "e", RenameMode::Replace)),
    ("rename-e-dn", Rename("e", "d/n", RenameMode::Replace)),
    ("exchange-a-b", Rename("a", "b", RenameMode::Exchange)),
    ("exchange-a-d", Rename("a", "d", RenameMode::Exchange)),
    ("exchange-c-e", Rename("d/c", "e", RenameMode::Exchange)),
    ("whiteout-b-n", Rename("b", "n", RenameMode::Whiteout)),
    ("unlink-a", Unlink("a")),
    ("unlink-c", Unlink("d/c")),
    ("unlink-h", Unlink("h")),
    ("open-unlink-a", OpenUnlinked("a", 6000)),
    ("open-unlink-n", OpenUnlinked("n", 3000)),
    ("rmdir-e", RemoveDir("e")),
    ("rmdir-d", RemoveDir("d")),
    ("xattr-a", SetXattr("a", "user.x", 20)),
    ("xattr-b-long", SetXattr("b", "user.y", 3000)),
    ("xattr-d", SetXattr("d", "user.x", 300)),
    ("no-xattr-b", RemoveXattr("b", "user.b")),
    ("chmod-b", Mode("b", 0o600)),
    ("times-d", Times("d")),
    // More than a segment of a log takes.
    ("write-h-long", Write("h", 50_000, 90_000)),
];

/// What follows an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Then {
    Nothing,
    Fsync,
    Fdatasync,
    /// An fsync of the directory of the name.
    FsyncDir,
    Sync,
    /// Time passes until all is written because of its age.
    Age,
}

/// What follows, with its names.
pub(super) const THENS: &[(&str, Then)] = &[
    ("none", Then::Nothing),
    ("fsync", Then::Fsync),
    ("sync", Then::Sync),
    ("fsyncdir", Then::FsyncDir),
    ("fdatasync", Then::Fdatasync),
    ("age", Then::Age),
];

/// A client of a volume, which makes one request after the other.
pub(super) struct Client<'a, L: Subject> {
    notes: Rc<Notes<L>>,
    /// The way to the volume, if it is not the direct one.
    remote: Option<Remote<L>>,
    covered: &'a RefCell<Covered>,
    next_id: Cell<u64>,
    held: RefCell<Vec<Ino>>,
    open: RefCell<Vec<Ino>>,
}

/// What [`begin`] and the words write to a file of this name counts its stamps from.
const LETTERS: u64 = 26;

impl<'a, L: Subject> Client<'a, L> {
    /// A client whose requests have numbers from `next_id` on.
    pub(super) fn new(
        notes: &Rc<Notes<L>>,
        covered: &'a RefCell<Covered>,
        next_id: u64,
    ) -> Client<'a, L> {
        let (held, open) = (RefCell::default(), RefCell::default());
        let (notes, next_id) = (Rc::clone(notes), Cell::new(next_id));
        Client { notes, remote: None, covered, next_id, held, open }
    }

    /// The same through a server of NFS, which may be one that answers too early.
    ///
    /// # Errors
    /// If the volume's root cannot be read.
    pub(super) async fn through_nfs(self, early: bool) -> Result<Client<'a, L>> {
        Ok(Client { remote: Some(Remote::start(&self.notes, early).await?), ..self })
    }

    async fn ask(&self, op: Op) -> Result<Reply> {
        let request = Request::root(self.next_id.get(), op);
        self.next_id.set(request.id + 1);
        let op = request.op.clone();
        let reply = match &self.remote {
            None => self.notes.ask(&request).await,
            Some(remote) => remote.ask(request).await,
        };
        self.covered.borrow_mut().note(&op, &reply);
        reply
    }

    /// Asks for what gives an entry, and holds its inode until the word is done.
    async fn entry(&self, op: Op) -> Result<Ino> {
        match self.ask(op).await? {
            Reply::Entry(entry) => {
                self.held.borrow_mut().push(entry.attr.ino);
                Ok(entry.attr.ino)
            }
            _ => Err(FsError::Invalid("no entry")),
        }
    }

    /// The directory of a path, and the name in it.
    async fn place(&self, path: &str) -> Result<(Ino, Name)> {
        match path.split_once('/') {
            None => Ok((ROOT_INO, path.as_bytes().into())),
            Some((dir, name)) => {
                let op = Op::Lookup { dir: ROOT_INO, name: dir.as_bytes().into() };
                Ok((self.entry(op).await?, name.as_bytes().into()))
            }
        }
    }

    async fn find(&self, path: &str) -> Result<Ino> {
        let (dir, name) = self.place(path).await?;
        self.entry(Op::Lookup { dir, name }).await
    }

    async fn create(&self, path: &str) -> Result<Ino> {
        let (dir, name) = self.place(path).await?;
        let ino = self.entry(Op::Create { dir, name, mode: 0o644, exclusive: false }).await?;
        self.open.borrow_mut().push(ino);
        Ok(ino)
    }

    async fn open_writing(&self, ino: Ino, truncate: bool) -> Result<()> {
        self.ask(Op::Open { ino, read: true, write: true, truncate }).await?;
        self.open.borrow_mut().push(ino);
        Ok(())
    }

    /// Performs a word. Its own error is an answer like any other.
    pub(super) async fn word(&self, act: Act, then: Then) {
        let did = self.act(act).await;
        // What cannot be found is not synced either.
        let _ = match (then, did) {
            (Then::Fsync, Ok((ino, _))) => self.ask(Op::Fsync { ino, data_only: false }).await,
            (Then::Fdatasync, Ok((ino, _))) => self.ask(Op::Fsync { ino, data_only: true }).await,
            (Then::FsyncDir, Ok((_, ino))) => self.ask(Op::Fsync { ino, data_only: false }).await,
            (Then::Sync, _) => self.ask(Op::Sync).await,
            (Then::Age, _) => {
                self.notes.rest(5 * SECS).await;
                Ok(Reply::Done)
            }
            (_, Ok(_)) => Ok(Reply::Done),
            (_, Err(error)) => Err(error),
        };
        let held = std::mem::take(&mut *self.held.borrow_mut());
        for ino in held {
            let _ = self.ask(Op::Forget { ino, count: 1 }).await;
        }
    }

    /// Closes what is open.
    pub(super) async fn end(&self) {
        let open = std::mem::take(&mut *self.open.borrow_mut());
        for ino in open {
            let _ = self.ask(Op::Release { ino }).await;
        }
    }

    /// Performs the operation. Gives the inode that it was about, and the directory of its name.
    async fn act(&self, act: Act) -> Result<(Ino, Ino)> {
        match act {
            Create(path) => {
                let ino = self.create(path).await?;
                Ok((ino, self.place(path).await?.0))
            }
            MakeNode(path, mode) => {
                let (dir, name) = self.place(path).await?;
                Ok((self.entry(Op::MakeNode { dir, name, mode, rdev: 0 }).await?, dir))
            }
            MakeDir(path) => {
                let (dir, name) = self.place(path).await?;
                Ok((self.entry(Op::MakeDir { dir, name, mode: 0o755 }).await?, dir))
            }
            Symlink(path, len) => {
                let (dir, name) = self.place(path).await?;
                let target = vec![b'a' + (len % LETTERS as usize) as u8; len].into();
                Ok((self.entry(Op::Symlink { dir, name, target }).await?, dir))
            }
            Link(path, to) => {
                let ino = self.find(path).await?;
                let (dir, name) = self.place(to).await?;
                Ok((self.entry(Op::Link { ino, dir, name }).await?, dir))
            }
            Rename(path, to, mode) => self.rename(path, to, mode).await,
            Unlink(path) => {
                let ino = self.find(path).await?;
                let (dir, name) = self.place(path).await?;
                self.ask(Op::Unlink { dir, name }).await?;
                Ok((ino, dir))
            }
            OpenUnlinked(path, len) => self.open_unlinked(path, len).await,
            RemoveDir(path) => {
                let (dir, name) = self.place(path).await?;
                self.ask(Op::RemoveDir { dir, name }).await?;
                Ok((dir, dir))
            }
            _ => {
                let ino = self.find(file_of(act)).await?;
                let (dir, _) = self.place(file_of(act)).await?;
                self.change(ino, act).await?;
                Ok((ino, dir))
            }
        }
    }

    /// Changes a file's content or attributes.
    async fn change(&self, ino: Ino, act: Act) -> Result<()> {
        match act {
            Write(_, off, len) => {
                self.ask(Op::Write { ino, off, data: Data::Synthetic(len) }).await?;
            }
            Append(_, len) => {
                let off = self.size(ino).await?;
                self.ask(Op::Append { ino, off, data: Data::Synthetic(len) }).await?;
            }
            Mapped(_, off, len) => {
                let now = Some(SetTime::At(Timestamp { secs: 1_000_000, nanos: 0 }));
                self.ask(Op::WriteBack { ino, off, data: Data::Synthetic(len) }).await?;
                let set = SetAttr { mtime: now, ..SetAttr::default() };
                self.ask(Op::SetAttr { ino, set }).await?;
            }
            Truncate(_, size) => {
                let set = SetAttr { size: Some(size), ..SetAttr::default() };
                self.ask(Op::SetAttr { ino, set }).await?;
            }
            OpenTruncating(_) => self.open_writing(ino, true).await?,
            Act::Fallocate(_, off, len, mode) => {
                self.ask(Op::Fallocate { ino, off, len, mode }).await?;
            }
            SetXattr(_, name, len) => {
                let (name, value) = (name.as_bytes().into(), vec![b'v'; len].into());
                self.ask(Op::SetXattr { ino, name, value, mode: XattrMode::Any }).await?;
            }
            RemoveXattr(_, name) => {
                self.ask(Op::RemoveXattr { ino, name: name.as_bytes().into() }).await?;
            }
            Mode(_, mode) => {
                let set = SetAttr { mode: Some(mode), uid: Some(7), ..SetAttr::default() };
                self.ask(Op::SetAttr { ino, set }).await?;
            }
            _ => {
                let at = Some(SetTime::At(Timestamp::from(Time(3 * SECS))));
                let set = SetAttr { atime: at, mtime: Some(SetTime::Now), ..SetAttr::default() };
                self.ask(Op::SetAttr { ino, set }).await?;
            }
        }
        Ok(())
    }

    async fn size(&self, ino: Ino) -> Result<u64> {
        match self.ask(Op::GetAttr { ino }).await? {
            Reply::Attr(attr) => Ok(attr.size),
            _ => Err(FsError::Invalid("no attributes")),
        }
    }

    async fn rename(&self, path: &str, to: &str, mode: RenameMode) -> Result<(Ino, Ino)> {
        let ino = self.find(path).await?;
        let (dir, name) = self.place(path).await?;
        let (to_dir, to_name) = self.place(to).await?;
        self.ask(Op::Rename { dir, name, to_dir, to_name, mode }).await?;
        Ok((ino, to_dir))
    }

    /// A file that is not there is made first.
    async fn open_unlinked(&self, path: &str, len: u64) -> Result<(Ino, Ino)> {
        let ino = match self.find(path).await {
            Ok(ino) => {
                self.open_writing(ino, false).await?;
                ino
            }
            Err(_) => self.create(path).await?,
        };
        let (dir, name) = self.place(path).await?;
        self.ask(Op::Unlink { dir, name }).await?;
        self.ask(Op::Write { ino, off: 2000, data: Data::Synthetic(len) }).await?;
        Ok((ino, dir))
    }
}

/// The file that an operation changes.
fn file_of(act: Act) -> &'static str {
    match act {
        Write(path, ..)
        | Append(path, ..)
        | Mapped(path, ..)
        | Truncate(path, ..)
        | OpenTruncating(path)
        | Act::Fallocate(path, ..)
        | SetXattr(path, ..)
        | RemoveXattr(path, ..)
        | Mode(path, ..)
        | Times(path)
        | Create(path)
        | MakeNode(path, ..)
        | MakeDir(path)
        | Symlink(path, ..)
        | Link(path, ..)
        | Rename(path, ..)
        | Unlink(path)
        | OpenUnlinked(path, ..)
        | RemoveDir(path) => path,
    }
}

/// What every workload begins with.
const BEGINNING: &[Act] = &[
    Create("a"),
    Write("a", 0, 10_000),
    Create("b"),
    Write("b", 0, 100),
    SetXattr("b", "user.b", 40),
    Create("h"),
    Write("h", 57_344, 12_000),
    MakeDir("d"),
    MakeDir("e"),
    Create("d/c"),
    Write("d/c", 0, 5_000),
    Symlink("l", 1),
];

/// Makes the files that the words are about.
pub(super) async fn begin<L: Subject>(client: &Client<'_, L>) {
    for act in BEGINNING {
        client.word(*act, Then::Nothing).await;
    }
    client.end().await;
}
