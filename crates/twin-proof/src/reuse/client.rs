//! A client of the campaign: makes, rewrites and removes things that have blocks of every kind,
//! and remembers what is promised of them.
//!
//! Contract: a client takes a file off its list before it sends a request that changes the file,
//! and puts it back when the reply has come. So whenever the run ends, the files on the list were
//! not being changed.

use std::cell::RefCell;
use std::rc::Rc;

use twin_disk::Bytes;
use twin_fs::{
    Data, DirEntry, FsError, Ino, Name, Op, ROOT_INO, Reply, Request, Result, VolumeOf, XattrMode,
    mode,
};
use twin_rt::Rng;

use super::super::Subject;
use super::content::Content;

/// Bytes of files that have indirect blocks.
const LONG: (u64, u64) = (98_000, 260_000);
/// The longest file that is fsynced.
const SHORT_MAX: u64 = 70_000;
/// Files that are rewritten, each client.
const SLOTS: u64 = 2;
/// What a step takes besides the device.
const STEP_NS: u64 = 10_000;
/// Requests between two fsyncs from which on a step takes longer: metadata that nothing waits for
/// lets the rewriters go round a hundred thousand times while a client waits for the disk, and
/// tells nothing new.
const AHEAD: u64 = 1_000;
/// What a step takes then.
const SLOW_STEP_NS: u64 = 1_000_000;
/// Directories that a client keeps.
const BUSHES: usize = 2;
/// Bytes in fsynced files that a client keeps.
const KEEP_MAX: usize = 200_000;

/// A file that a client knows.
#[derive(Clone, Debug)]
pub(super) struct File {
    pub(super) name: String,
    pub(super) content: Content,
    /// It outlives a power failure.
    pub(super) durable: bool,
}

/// What a client knows. It outlives the run that the client is in.
#[derive(Clone, Debug)]
pub(super) struct Memory {
    pub(super) number: u64,
    pub(super) files: Vec<File>,
    /// Fsynced files whose removal nobody made durable: they are whole, or gone.
    pub(super) removed: Vec<File>,
    /// Directories with things in them.
    bushes: Vec<String>,
    next: u64,
}

impl Memory {
    pub(super) fn new(number: u64) -> Memory {
        Memory { number, files: Vec::new(), removed: Vec::new(), bushes: Vec::new(), next: 0 }
    }

    pub(super) fn dir(&self) -> String {
        format!("client-{}", self.number)
    }

    /// After the power failed only what was durable is known.
    pub(super) fn forget_unsafe(&mut self) {
        self.files.retain(|file| file.durable);
        self.removed.clear();
        self.bushes.clear();
    }

    /// After the volume was closed everything is durable.
    pub(super) fn all_is_safe(&mut self) {
        self.files.iter_mut().for_each(|file| file.durable = true);
        self.removed.clear();
    }

    fn number_next(&mut self) -> u64 {
        self.next += 1;
        self.number << 32 | self.next
    }
}

/// What all clients of a run count.
#[derive(Debug, Default)]
pub(super) struct Board {
    /// Files fsynced.
    pub(super) fsynced: u64,
    /// Requests that were refused for want of room.
    pub(super) refused: u64,
    /// Clients are to end.
    pub(super) stop: bool,
    /// The first error that no client should see.
    pub(super) error: Option<String>,
    request: u64,
    /// The last request when a file was last fsynced.
    fsynced_at: u64,
}

impl Board {
    /// True if the clients that rewrite are far ahead of those that wait for the disk.
    fn is_ahead(&self) -> bool {
        self.request - self.fsynced_at > AHEAD
    }
}

/// A client at work.
pub(super) struct Client<L: Subject> {
    pub(super) volume: VolumeOf<L>,
    pub(super) board: Rc<RefCell<Board>>,
    pub(super) memory: Rc<RefCell<Memory>>,
    pub(super) rng: Rng,
    pub(super) rt: twin_rt::Rt,
    pub(super) think_ns: u64,
    /// An fsync makes a file outlive a power failure.
    pub(super) fsync_holds: bool,
}

impl<L: Subject> Client<L> {
    /// Works until it is told to stop. `done` is called after each fsync.
    pub(super) async fn run(mut self, rewrites: bool, done: impl Fn()) {
        let ended = self.work(rewrites, &done).await;
        if let Err(error) = ended {
            let what = format!("client {}: {error}", self.memory.borrow().number);
            self.board.borrow_mut().error.get_or_insert(what);
        }
        done();
    }

    async fn work(&mut self, rewrites: bool, done: &impl Fn()) -> Result<()> {
        let name = self.memory.borrow().dir();
        let dir = self.ensure_dir(&name).await?;
        self.clean(dir).await?;
        while !self.board.borrow().stop {
            // What needs no device would take no time, and nobody else would have a turn.
            let is_ahead = self.board.borrow().is_ahead();
            self.rt.sleep(if is_ahead { SLOW_STEP_NS } else { STEP_NS }).await;
            let step = match rewrites {
                true if self.rng.chance(0.7) => self.rewrite(dir).await,
                true => self.bush(dir).await,
                false => self.write_and_fsync(dir).await,
            };
            match step {
                Ok(()) => {}
                Err(FsError::NoSpace | FsError::NoInodes) => {
                    self.board.borrow_mut().refused += 1;
                    self.clean(dir).await?;
                }
                Err(error) => return Err(error),
            }
            if !rewrites {
                done();
            }
        }
        self.ask(Op::Forget { ino: dir, count: 1 }).await.map(drop)
    }

    async fn ask(&mut self, op: Op) -> Result<Reply> {
        if self.think_ns > 0 && self.rng.chance(0.3) {
            self.rt.sleep(self.rng.below(self.think_ns)).await;
        }
        self.rt.maybe_yield().await;
        let id = {
            let mut board = self.board.borrow_mut();
            board.request += 1;
            board.request
        };
        self.volume.execute(Request::root(id, op)).await
    }

    async fn entry(&mut self, op: Op) -> Result<Ino> {
        match self.ask(op).await? {
            Reply::Entry(entry) => Ok(entry.attr.ino),
            _ => Err(FsError::Invalid("no entry")),
        }
    }

    async fn ensure_dir(&mut self, name: &str) -> Result<Ino> {
        match self.entry(Op::Lookup { dir: ROOT_INO, name: named(name) }).await {
            Err(FsError::NotFound) => {
                self.entry(Op::MakeDir { dir: ROOT_INO, name: named(name), mode: 0o755 }).await
            }
            found => found,
        }
    }

    /// Removes what is not on the list: what a power failure brought back or cut short.
    async fn clean(&mut self, dir: Ino) -> Result<()> {
        for entry in self.list(dir).await? {
            let known = |files: &[File]| files.iter().any(|f| f.name.as_bytes() == &*entry.name);
            let is_known = known(&self.memory.borrow().files);
            if is_known || &*entry.name == b"." || &*entry.name == b".." {
                continue;
            }
            if entry.kind == mode::DIRECTORY {
                self.fell(dir, &entry.name).await?;
            } else {
                self.ask(Op::Unlink { dir, name: entry.name.clone() }).await?;
            }
        }
        self.memory.borrow_mut().bushes.clear();
        Ok(())
    }

    async fn list(&mut self, dir: Ino) -> Result<Vec<DirEntry>> {
        let (mut all, mut cookie) = (Vec::new(), 0);
        loop {
            let op = Op::ReadDir { dir, cookie, max_bytes: 4096, plus: false };
            let Reply::Dir(some) = self.ask(op).await? else { return Ok(all) };
            let Some(last) = some.last() else { return Ok(all) };
            cookie = last.next;
            all.extend(some);
        }
    }

    /// Rewrites or removes one of a few files with indirect blocks.
    async fn rewrite(&mut self, dir: Ino) -> Result<()> {
        let slot = self.rng.below(SLOTS);
        let name = format!("long-{slot}");
        let there = self.memory.borrow().files.iter().any(|file| file.name == name);
        self.memory.borrow_mut().files.retain(|file| file.name != name);
        if there && self.rng.chance(0.4) {
            return self.ask(Op::Unlink { dir, name: named(&name) }).await.map(drop);
        }
        let ino = if there {
            let ino = self.entry(Op::Lookup { dir, name: named(&name) }).await?;
            self.ask(Op::Open { ino, read: true, write: true, truncate: true }).await?;
            ino
        } else {
            let (name, mode) = (named(&name), 0o644);
            self.entry(Op::Create { dir, name, mode, exclusive: true }).await?
        };
        let version = self.memory.borrow_mut().number_next();
        // Its number stays: after a power failure any version of it may be there.
        let file = self.memory.borrow().number << 32 | 1 << 31 | slot;
        let len = self.rng.range(LONG.0, LONG.1) as usize;
        let content = Content { file, version, len };
        let written = self.write(ino, &content).await;
        self.release(ino).await?;
        written?;
        self.memory.borrow_mut().files.push(File { name, content, durable: false });
        Ok(())
    }

    /// Makes a file durable, and removes an older one after every third.
    async fn write_and_fsync(&mut self, dir: Ino) -> Result<()> {
        let version = self.memory.borrow_mut().number_next();
        let len = self.rng.range(1, SHORT_MAX) as usize;
        let content = Content { file: version, version, len };
        let name = version.to_string();
        let (create, durable) = (named(&name), self.fsync_holds);
        let create = Op::Create { dir, name: create, mode: 0o644, exclusive: true };
        let ino = self.entry(create).await?;
        let mut written = self.write(ino, &content).await;
        if written.is_ok() {
            written = self.ask(Op::Fsync { ino, data_only: false }).await.map(drop);
        }
        if written.is_ok() {
            self.memory.borrow_mut().files.push(File { name, content, durable });
            let mut board = self.board.borrow_mut();
            board.fsynced += 1;
            board.fsynced_at = board.request;
        }
        self.release(ino).await?;
        written?;
        let old = {
            let mut memory = self.memory.borrow_mut();
            let kept: usize = memory.files.iter().map(|file| file.content.len).sum();
            let nth = self.rng.below(memory.files.len() as u64) as usize;
            let remove = kept > KEEP_MAX || self.rng.chance(0.33);
            remove.then(|| memory.files.swap_remove(nth))
        };
        let Some(old) = old else { return Ok(()) };
        if old.durable {
            self.memory.borrow_mut().removed.push(old.clone());
        }
        self.ask(Op::Unlink { dir, name: named(&old.name) }).await.map(drop)
    }

    /// Makes a directory with names, links and attributes that have blocks of their own, or
    /// removes one with all of them.
    async fn bush(&mut self, dir: Ino) -> Result<()> {
        let there = self.memory.borrow().bushes.len();
        if there >= BUSHES || there > 0 && self.rng.chance(0.4) {
            let old = self.memory.borrow_mut().bushes.remove(0);
            return self.fell(dir, old.as_bytes()).await;
        }
        let number = self.memory.borrow_mut().number_next();
        let name = format!("bush-{number}");
        self.memory.borrow_mut().bushes.push(name.clone());
        let bush = self.entry(Op::MakeDir { dir, name: named(&name), mode: 0o755 }).await?;
        let grown = self.grow(bush).await;
        // What is held when the client gives up would stay in use.
        self.ask(Op::Forget { ino: bush, count: 1 }).await?;
        grown
    }

    async fn grow(&mut self, bush: Ino) -> Result<()> {
        let names = self.rng.range(4, 60);
        for nth in 0..names {
            let name = named(&format!("{nth:0100}"));
            let op = match self.rng.below(6) {
                0 => Op::Symlink { dir: bush, name, target: vec![b'/'; 900].into() },
                _ => Op::MakeNode { dir: bush, name, mode: mode::REGULAR | 0o644, rdev: 0 },
            };
            let ino = self.entry(op).await?;
            let mut set_note = Ok(());
            if self.rng.chance(0.1) {
                let (name, value) = (named("user.note"), vec![b'v'; 2000].into());
                let set = Op::SetXattr { ino, name, value, mode: XattrMode::Any };
                if let Err(error @ (FsError::NoSpace | FsError::NoInodes)) = self.ask(set).await {
                    set_note = Err(error);
                }
            }
            self.ask(Op::Forget { ino, count: 1 }).await?;
            set_note?;
        }
        Ok(())
    }

    /// Removes a directory with what is in it.
    async fn fell(&mut self, dir: Ino, name: &[u8]) -> Result<()> {
        let bush = self.entry(Op::Lookup { dir, name: name.into() }).await?;
        let felled = self.fell_held(dir, name, bush).await;
        self.ask(Op::Forget { ino: bush, count: 1 }).await?;
        felled
    }

    async fn fell_held(&mut self, dir: Ino, name: &[u8], bush: Ino) -> Result<()> {
        for entry in self.list(bush).await? {
            match &*entry.name {
                b"." | b".." => {}
                // A name that outlived its file, whose number became that of a directory.
                name if entry.kind == mode::DIRECTORY => Box::pin(self.fell(bush, name)).await?,
                _ => drop(self.ask(Op::Unlink { dir: bush, name: entry.name }).await?),
            }
        }
        self.ask(Op::RemoveDir { dir, name: name.into() }).await.map(drop)
    }

    async fn write(&mut self, ino: Ino, content: &Content) -> Result<()> {
        let bytes = content.bytes();
        let piece = self.rng.range(8_000, 70_000) as usize;
        for (nth, piece_bytes) in bytes.chunks(piece).enumerate() {
            let (off, data) = ((nth * piece) as u64, Data::Bytes(Bytes::copy_of(piece_bytes)));
            self.ask(Op::Write { ino, off, data }).await?;
        }
        Ok(())
    }

    async fn release(&mut self, ino: Ino) -> Result<()> {
        self.ask(Op::Release { ino }).await?;
        self.ask(Op::Forget { ino, count: 1 }).await.map(drop)
    }
}

pub(super) fn named(name: &str) -> Name {
    name.as_bytes().into()
}
