//! An application on a machine: it reads, writes and syncs files that others use too.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use twin_disk::Bytes;
use twin_fs::{Data, FileSystem, FsError, Ino, Op, ROOT_INO, Reply, Request};
use twin_nfs::client::Client;
use twin_rt::{MILLIS, Nanos, Rng, Rt};

use super::history::History;

/// Bytes of a piece, the unit of contents.
pub(super) const PIECE: u64 = 512;
/// Pieces of a file: some share a page of the client.
pub(super) const PIECES: u64 = 9;
/// Files.
pub(super) const FILES: usize = 2;

/// What applications share.
#[derive(Default)]
pub(super) struct Shared {
    pub(super) history: RefCell<History>,
    /// The first promise that was broken.
    pub(super) broken: RefCell<Option<String>>,
    /// Applications are to end.
    pub(super) ending: Cell<bool>,
    pub(super) reported: Cell<u64>,
    next_value: Cell<u64>,
    pub(super) digest: RefCell<twin_rt::EventDigest>,
}

impl Shared {
    pub(super) fn breaks(&self, what: String) {
        self.broken.borrow_mut().get_or_insert(what);
    }

    pub(super) fn note(&self, words: &[u64]) {
        self.digest.borrow_mut().add(words);
    }
}

/// An application.
pub(super) struct App {
    pub(super) rt: Rt,
    /// The number of its machine's life.
    pub(super) who: u64,
    pub(super) client: Client,
    pub(super) shared: Rc<Shared>,
    /// The machine has crashed.
    pub(super) dead: Rc<Cell<bool>>,
    /// It syncs; of those on a machine one does.
    pub(super) syncs: bool,
    /// Each write is durable when it ends.
    pub(super) plain: bool,
    /// It only reads.
    pub(super) reads: bool,
    /// No error may be reported.
    pub(super) calm: bool,
    /// The longest pause.
    pub(super) pause_ns: Nanos,
    pub(super) ended: Rc<Cell<bool>>,
    /// The other application of its machine has ended.
    pub(super) other_ended: Rc<Cell<bool>>,
}

/// The name of a file.
pub(super) fn name(nth: usize) -> twin_fs::Name {
    format!("f{nth}").into_bytes().into()
}

/// The content of a piece.
fn bytes(value: u64) -> Vec<u8> {
    value.to_le_bytes().repeat(PIECE as usize / 8)
}

/// The value that a piece has; `None` if it is no whole content.
pub(super) fn value(piece: &[u8]) -> Option<u64> {
    let first = u64::from_le_bytes(*piece.first_chunk()?);
    let whole = piece.len() as u64 == PIECE && piece.chunks(8).all(|c| c == first.to_le_bytes());
    whole.then_some(first)
}

impl App {
    /// Works until it is to end, or its machine crashes.
    pub(super) async fn work(self, mut rng: Rng) {
        let worked = self.work_on(&mut rng).await;
        if let Err(what) = worked
            && !self.dead.get()
        {
            self.shared.breaks(format!("client {}: {what}", self.who));
        }
        self.ended.set(true);
    }

    async fn work_on(&self, rng: &mut Rng) -> Result<(), String> {
        let mut inodes = Vec::new();
        for nth in 0..FILES {
            let op = Op::Lookup { dir: ROOT_INO, name: name(nth) };
            match self.ask(op).await {
                Ok(Reply::Entry(entry)) => inodes.push(entry.attr.ino),
                other => return Err(format!("looking a file up: {other:?}")),
            }
        }
        while !self.shared.ending.get() && !self.dead.get() {
            self.rt.sleep(rng.below(self.pause_ns)).await;
            if self.dead.get() {
                break;
            }
            let file = rng.below(FILES as u64) as usize;
            let piece = rng.below(PIECES);
            let count = rng.range(1, 4).min(PIECES - piece);
            match rng.below(12) {
                0..10 if self.reads => self.read(inodes[file], file, piece, count).await?,
                0..6 => self.read(inodes[file], file, piece, count).await?,
                6..10 => self.write(inodes[file], file, piece, count).await?,
                10 => self.turn(inodes[file]).await?,
                _ if self.syncs => self.sync(inodes[file], file).await?,
                _ => {}
            }
        }
        if self.syncs && !self.dead.get() {
            // What the other one writes is synced, too.
            while !self.other_ended.get() {
                self.rt.sleep(MILLIS).await;
            }
            for (file, &ino) in inodes.iter().enumerate() {
                self.sync(ino, file).await?;
            }
        }
        Ok(())
    }

    async fn ask(&self, op: Op) -> twin_fs::Result<Reply> {
        self.client.execute(Request::root(1, op)).await
    }

    /// Notes that a loss was reported to the application.
    fn reported(&self, what: &str, error: &FsError) -> Result<(), String> {
        if self.calm || !error.is_damage() {
            return Err(format!("{what}: {error}"));
        }
        self.shared.reported.set(self.shared.reported.get() + 1);
        Ok(())
    }

    pub(super) async fn read(
        &self,
        ino: Ino,
        file: usize,
        piece: u64,
        count: u64,
    ) -> Result<(), String> {
        let begin = self.rt.now();
        let op = Op::Read { ino, off: piece * PIECE, len: (count * PIECE) as u32 };
        let data = match self.ask(op).await {
            Ok(Reply::Data(blocks)) => super::super::joined(&blocks),
            other => return Err(format!("reading: {other:?}")),
        };
        if self.dead.get() {
            // The crash came before the program had the data.
            return Ok(());
        }
        if data.len() as u64 != count * PIECE {
            return Err(format!("{} bytes were read instead of {}", data.len(), count * PIECE));
        }
        let now = self.rt.now();
        for (nth, chunk) in data.chunks(PIECE as usize).enumerate() {
            let place = (file, piece + nth as u64);
            let value = value(chunk).ok_or_else(|| format!("{place:?} has parts of two writes"))?;
            self.shared.note(&[1, self.who, place.0 as u64, place.1, value]);
            self.shared.history.borrow_mut().read(self.who, place, value, begin, now);
        }
        Ok(())
    }

    async fn write(&self, ino: Ino, file: usize, piece: u64, count: u64) -> Result<(), String> {
        let begin = self.rt.now();
        let (mut data, mut deeds) = (Vec::new(), Vec::new());
        for nth in piece..piece + count {
            let value = self.shared.next_value.get() + 1;
            self.shared.next_value.set(value);
            data.extend(bytes(value));
            let mut history = self.shared.history.borrow_mut();
            deeds.push(history.writes(self.who, (file, nth), value, begin));
        }
        let data = Data::Bytes(Bytes::copy_of(&data));
        let reply = self.ask(Op::Write { ino, off: piece * PIECE, data }).await;
        if self.dead.get() {
            return Ok(());
        }
        if let Err(error) = reply {
            self.reported("writing", &error)?;
            self.shared.history.borrow_mut().doubts(self.who, Some(file));
            return Ok(());
        }
        let now = self.rt.now();
        let mut history = self.shared.history.borrow_mut();
        deeds.iter().for_each(|&deed| history.wrote(deed, now));
        if self.plain {
            history.synced(self.who, &deeds);
        }
        Ok(())
    }

    /// Opens and closes a file.
    async fn turn(&self, ino: Ino) -> Result<(), String> {
        let open = Op::Open { ino, read: true, write: true, truncate: false };
        for op in [open, Op::Release { ino }] {
            if let Err(error) = self.ask(op).await {
                return Err(format!("opening: {error}"));
            }
        }
        Ok(())
    }

    async fn sync(&self, ino: Ino, file: usize) -> Result<(), String> {
        let owed = self.shared.history.borrow().owed(self.who, file);
        let reply = self.ask(Op::Fsync { ino, data_only: false }).await;
        if self.dead.get() {
            return Ok(());
        }
        match reply {
            Ok(_) => self.shared.history.borrow_mut().synced(self.who, &owed),
            Err(error) => {
                self.reported("syncing", &error)?;
                self.shared.history.borrow_mut().doubts(self.who, Some(file));
            }
        }
        Ok(())
    }
}
