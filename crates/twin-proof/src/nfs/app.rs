//! An application on a client, and what it may rely on.
//!
//! Contract: one operation at a time, in a directory of its own. After each it knows what must be on the
//! server's disk ([`Piece::durable`]), what may be there too, and which names may or may not be there,
//! because their operation was told to have failed.

use std::cell::RefCell;
use std::rc::Rc;

use twin_disk::Bytes;
use twin_fs::{Data, FileSystem, FsError, Ino, Op, ROOT_INO, RenameMode, Reply, Request};
use twin_nfs::client::Client;
use twin_rt::{MILLIS, Rng, Rt};

use super::{Handles, Names, PAUSE_NS, Shared};

pub(super) type Verdict<T> = Result<T, String>;

/// Bytes of a piece of a file, the unit of contents: a sector, so that a disk writes it whole.
pub(super) const PIECE: u64 = 512;
/// Pieces of a file: some share a page of the client.
const PIECES: u64 = 20;
const NAMES: u64 = 4;

/// A piece. Contents are numbers: 0 is a hole.
#[derive(Clone, Debug, Default)]
pub(super) struct Piece {
    pub(super) durable: u64,
    /// What was written after it, in order.
    pub(super) later: Vec<u64>,
    /// An fsync failed after the last write, which may be lost.
    told: bool,
    /// Nothing was ever written here, and a failure may have left anything: see
    /// [`File::failed`].
    unknown: bool,
}

/// Pieces of a block of a volume without a journal.
const BLOCK_PIECES: usize = 8192 / PIECE as usize;

#[derive(Clone, Debug)]
pub(super) struct File {
    pub(super) ino: Ino,
    /// The handle with which the client knows it. The number may be another file's later.
    handle: Vec<u8>,
    open: bool,
    pub(super) pieces: Vec<Piece>,
}

impl File {
    /// The server ended without closing a volume that has no journal. Such a volume promises what was
    /// synced. A block that was new, or longer than before, may be on the disk in name only: the
    /// parts of it in which nothing was written then hold what was in that place before. What lies
    /// before a synced piece of the same block was synced with it.
    pub(super) fn failed(&mut self) {
        let block = |nth: usize| nth / BLOCK_PIECES;
        let Some(last) = self.pieces.iter().rposition(|piece| !piece.later.is_empty()) else {
            return;
        };
        for nth in (0..self.pieces.len()).filter(|&nth| block(nth) <= block(last)) {
            let end = ((block(nth) + 1) * BLOCK_PIECES).min(self.pieces.len());
            let kept = self.pieces[nth..end].iter().any(|piece| piece.durable != 0);
            let piece = &mut self.pieces[nth];
            piece.unknown |= piece.durable == 0 && !kept;
        }
    }
}

/// A change of names that was told to have failed: it may have happened.
#[derive(Clone, Debug)]
enum Doubt {
    Create(String),
    Remove(String),
    Rename(String, String),
}

#[derive(Clone, Debug)]
pub(super) enum Act {
    Create(String, bool),
    Write(String, u64, u64),
    Fsync(String),
    /// Closes the file, or opens it again.
    Turn(String),
    Read(String, u64, u64),
    Look(String),
    Rename(String, String),
    Remove(String),
}

pub(super) struct App {
    pub(super) number: usize,
    client: Client,
    handles: Handles,
    shared: Rc<Shared>,
    rng: Rng,
    may_fail: bool,
    pub(super) dir: Option<Ino>,
    pub(super) files: Names<File>,
    doubts: Vec<(u64, Doubt)>,
    /// What is being done.
    pub(super) doing: Option<Act>,
    /// The server's life in which that began.
    since: u64,
    content: u64,
    course: Option<std::vec::IntoIter<Act>>,
    pub(super) ended: bool,
}

fn bytes(content: u64) -> Vec<u8> {
    content.to_le_bytes().repeat(PIECE as usize / 8)
}

/// The course of an application that follows one: everything once, and names used again.
fn course() -> Vec<Act> {
    let (a, b) = (|| "f0".to_string(), || "f1".to_string());
    vec![
        Act::Create(a(), true),
        Act::Write(a(), 0, 2),
        Act::Write(a(), 9, 1),
        Act::Fsync(a()),
        Act::Write(a(), 0, 1),
        Act::Read(a(), 0, 3),
        Act::Turn(a()),
        Act::Rename(a(), b()),
        Act::Create(a(), false),
        Act::Write(a(), 0, 1),
        Act::Fsync(a()),
        Act::Turn(a()),
        Act::Remove(a()),
        Act::Create(a(), true),
        Act::Turn(b()),
        Act::Write(b(), 1, 1),
        Act::Look(b()),
    ]
}

impl App {
    pub(super) fn new(
        number: usize,
        (client, handles): (Client, Handles),
        shared: &Rc<Shared>,
        rng: Rng,
        (may_fail, fixed): (bool, bool),
    ) -> App {
        let (shared, content) = (Rc::clone(shared), (number as u64 + 1) << 32);
        let course = fixed.then(|| course().into_iter());
        let (dir, files, doubts, doing, since, ended) = Default::default();
        App {
            number,
            client,
            handles,
            shared,
            rng,
            may_fail,
            dir,
            files,
            doubts,
            doing,
            since,
            content,
            course,
            ended,
        }
    }

    /// The name of its directory.
    pub(super) fn own(&self) -> String {
        format!("c{}", self.number)
    }

    /// Names that may or may not be there.
    pub(super) fn open_names(&self) -> Vec<String> {
        let of_doubt = self.doubts.iter().flat_map(|(_, doubt)| match doubt {
            Doubt::Create(name) | Doubt::Remove(name) => vec![name.clone()],
            Doubt::Rename(from, to) => vec![from.clone(), to.clone()],
        });
        let of_act = match &self.doing {
            Some(Act::Create(name, _) | Act::Remove(name)) => vec![name.clone()],
            Some(Act::Rename(from, to)) => vec![from.clone(), to.clone()],
            _ => Vec::new(),
        };
        of_doubt.chain(of_act).collect()
    }

    /// Works until it is told to end, or its course is over; then syncs everything.
    pub(super) async fn work(this: &Rc<RefCell<App>>, rt: &Rt) -> Verdict<()> {
        let shared = Rc::clone(&this.borrow().shared);
        while this.borrow().dir.is_none() {
            let own = this.borrow().own();
            let op = Op::MakeDir { dir: ROOT_INO, name: own.as_bytes().into(), mode: 0o755 };
            let made = App::ask(this, op).await;
            match made {
                Ok(Reply::Entry(entry)) => this.borrow_mut().dir = Some(entry.attr.ino),
                // An earlier try that was told to have failed.
                Err(FsError::Exists) if this.borrow().may_fail => {
                    let op = Op::Lookup { dir: ROOT_INO, name: own.as_bytes().into() };
                    if let Ok(Reply::Entry(entry)) = App::ask(this, op).await {
                        this.borrow_mut().dir = Some(entry.attr.ino);
                    }
                }
                Err(error) => {
                    this.borrow().allowed("making its directory", &error)?;
                    App::wait_for_next(&shared, rt).await;
                }
                Ok(other) => return Err(format!("making its directory: {other:?}")),
            }
        }
        loop {
            let fixed = this.borrow().course.is_some();
            let pause = if fixed { PAUSE_NS } else { this.borrow_mut().rng.below(2 * MILLIS) };
            rt.sleep(pause).await;
            App::resolve(this).await?;
            let next = match &mut this.borrow_mut().course {
                Some(course) => course.next(),
                None => None,
            };
            let act = match next {
                Some(act) => Some(act),
                None if fixed || shared.ending.get() => break,
                None => this.borrow_mut().choose(),
            };
            let Some(act) = act else { continue };
            if this.borrow().is_possible(&act) {
                App::perform(this, act).await?;
            }
        }
        App::end(this, rt).await
    }

    async fn wait_for_next(shared: &Rc<Shared>, rt: &Rt) {
        let life = shared.life.get();
        while shared.life.get() == life && !shared.ending.get() {
            rt.sleep(5 * MILLIS).await;
        }
    }

    /// Syncs all files.
    async fn end(this: &Rc<RefCell<App>>, rt: &Rt) -> Verdict<()> {
        let names: Vec<String> = this.borrow().files.keys().cloned().collect();
        for name in names {
            let act = Act::Fsync(name);
            if this.borrow().is_possible(&act) {
                App::perform(this, act).await?;
            }
        }
        rt.sleep(MILLIS).await;
        this.borrow_mut().ended = true;
        Ok(())
    }

    async fn ask(this: &Rc<RefCell<App>>, op: Op) -> twin_fs::Result<Reply> {
        let client = this.borrow().client.clone();
        this.borrow().shared.count(|ran| ran.operations += 1);
        client.execute(Request::root(1, op)).await
    }

    /// Judges an error that the application was told.
    fn allowed(&self, what: &str, error: &FsError) -> Verdict<()> {
        let of_device = matches!(error, FsError::ReadOnly | FsError::NoSpace) || error.is_damage();
        if self.may_fail && of_device {
            return Ok(());
        }
        Err(format!("client {}: {what}: {error}", self.number))
    }

    fn is_possible(&self, act: &Act) -> bool {
        let doubtful = self.open_names();
        let there = |name: &String| self.files.contains_key(name) && !doubtful.contains(name);
        let free = |name: &String| !self.files.contains_key(name) && !doubtful.contains(name);
        match act {
            Act::Create(name, _) => free(name),
            Act::Rename(from, to) => there(from) && free(to),
            Act::Write(name, ..)
            | Act::Fsync(name)
            | Act::Turn(name)
            | Act::Read(name, ..)
            | Act::Look(name)
            | Act::Remove(name) => there(name),
        }
    }

    fn choose(&mut self) -> Option<Act> {
        let name = format!("f{}", self.rng.below(NAMES));
        if !self.files.contains_key(&name) {
            return Some(Act::Create(name, self.rng.chance(0.5)));
        }
        let (piece, count) = (self.rng.below(PIECES), self.rng.range(1, 5));
        let count = count.min(PIECES - piece);
        Some(match self.rng.below(20) {
            0..9 => Act::Write(name, piece, count),
            9..12 => Act::Fsync(name),
            12..14 => Act::Turn(name),
            14..16 => Act::Read(name, piece, count),
            16 => Act::Look(name),
            17 => Act::Rename(name, format!("f{}", self.rng.below(NAMES))),
            _ => Act::Remove(name),
        })
    }

    async fn perform(this: &Rc<RefCell<App>>, act: Act) -> Verdict<()> {
        {
            let mut app = this.borrow_mut();
            (app.since, app.doing) = (app.shared.life.get(), Some(act.clone()));
        }
        let op = this.borrow_mut().op(&act);
        let reply = App::ask(this, op).await;
        let done = this.borrow_mut().learn(&act, reply);
        this.borrow_mut().doing = None;
        let number = this.borrow().number;
        done.map_err(|what| format!("client {number}: {act:?}: {what}"))
    }

    /// The operation of an act, which is noted as begun.
    fn op(&mut self, act: &Act) -> Op {
        let dir = self.dir.unwrap_or(ROOT_INO);
        let of = |name: &String| twin_fs::Name::from(name.as_bytes());
        let ino = |app: &App, name: &String| app.files.get(name).map_or(0, |file| file.ino);
        match act {
            Act::Create(name, exclusive) => {
                Op::Create { dir, name: of(name), mode: 0o644, exclusive: *exclusive }
            }
            Act::Write(name, piece, count) => {
                let mut data = Vec::new();
                let ino = ino(self, name);
                for n in *piece..piece + count {
                    self.content += 1;
                    data.extend(bytes(self.content));
                    if let Some(file) = self.files.get_mut(name) {
                        file.pieces[n as usize].later.push(self.content);
                        file.pieces[n as usize].told = false;
                    }
                }
                Op::Write { ino, off: piece * PIECE, data: Data::Bytes(Bytes::copy_of(&data)) }
            }
            Act::Fsync(name) => Op::Fsync { ino: ino(self, name), data_only: false },
            Act::Turn(name) => match self.files.get(name) {
                Some(file) if file.open => Op::Release { ino: file.ino },
                _ => Op::Open { ino: ino(self, name), read: true, write: true, truncate: false },
            },
            Act::Read(name, piece, count) => {
                Op::Read { ino: ino(self, name), off: piece * PIECE, len: (count * PIECE) as u32 }
            }
            Act::Look(name) => Op::Lookup { dir, name: of(name) },
            Act::Rename(from, to) => Op::Rename {
                dir,
                name: of(from),
                to_dir: dir,
                to_name: of(to),
                mode: RenameMode::Replace,
            },
            Act::Remove(name) => Op::Unlink { dir, name: of(name) },
        }
    }

    /// Takes the answer to an act.
    fn learn(&mut self, act: &Act, reply: twin_fs::Result<Reply>) -> Verdict<()> {
        let reply = match reply {
            Ok(reply) => reply,
            Err(error) => return self.failed(act, &error),
        };
        match (act, reply) {
            (Act::Create(name, _), Reply::Entry(entry)) => self.add(name, entry.attr.ino, true),
            (Act::Fsync(name), _) => {
                let file = self.files.get_mut(name).ok_or("no such file")?;
                file.pieces.iter_mut().for_each(Piece::settle);
            }
            (Act::Turn(name), _) => {
                let file = self.files.get_mut(name).ok_or("no such file")?;
                file.open = !file.open;
            }
            (Act::Read(name, piece, _), Reply::Data(blocks)) => {
                let file = self.files.get(name).ok_or("no such file")?;
                let data = super::joined(&blocks);
                for (at, chunk) in data.chunks(PIECE as usize).enumerate() {
                    let nth = *piece as usize + at;
                    file.pieces[nth]
                        .newest(chunk, self.may_fail)
                        .map_err(|what| format!("piece {nth}: {what}"))?;
                }
            }
            (Act::Look(name), Reply::Entry(entry))
                if self.files.get(name).map(|file| file.ino) != Some(entry.attr.ino) =>
            {
                return Err("another file has its name".into());
            }
            (Act::Rename(from, to), _) => self.renamed(from, to),
            (Act::Remove(name), _) => self.gone(name, self.since != self.shared.life.get()),
            _ => {}
        }
        Ok(())
    }

    fn failed(&mut self, act: &Act, error: &FsError) -> Verdict<()> {
        self.allowed("", error)?;
        let life = self.shared.life.get();
        let doubt = match act {
            Act::Create(name, _) => Doubt::Create(name.clone()),
            Act::Remove(name) => Doubt::Remove(name.clone()),
            Act::Rename(from, to) => Doubt::Rename(from.clone(), to.clone()),
            Act::Fsync(name) | Act::Write(name, ..) | Act::Turn(name) => {
                let file = self.files.get_mut(name).ok_or("no such file")?;
                file.pieces.iter_mut().for_each(|piece| piece.told |= !piece.later.is_empty());
                return Ok(());
            }
            _ => return Ok(()),
        };
        self.doubts.push((life, doubt));
        Ok(())
    }

    fn add(&mut self, name: &str, ino: Ino, open: bool) {
        let pieces = vec![Piece::default(); PIECES as usize];
        let handle = self.handles.borrow().get(&ino).cloned().unwrap_or_default();
        self.files.insert(name.into(), File { ino, handle, open, pieces });
    }

    fn renamed(&mut self, from: &str, to: &str) {
        if let Some(file) = self.files.remove(from) {
            self.files.insert(to.into(), file);
        }
    }

    fn gone(&mut self, name: &str, interrupted: bool) {
        let Some(file) = self.files.remove(name) else { return };
        // While it is open it only has another name.
        if !file.open {
            self.shared.dead.borrow_mut().push((file.handle, interrupted));
        }
    }

    /// Finds out about names that are in doubt, from a server that was started since.
    async fn resolve(this: &Rc<RefCell<App>>) -> Verdict<()> {
        let life = this.borrow().shared.life.get();
        let due = this.borrow().doubts.iter().position(|(since, _)| *since != life);
        let Some(at) = due else { return Ok(()) };
        let (_, doubt) = this.borrow().doubts[at].clone();
        let name = match &doubt {
            Doubt::Create(name) | Doubt::Remove(name) => name,
            Doubt::Rename(_, to) => to,
        };
        let dir = this.borrow().dir.unwrap_or(ROOT_INO);
        let op = Op::Lookup { dir, name: name.as_bytes().into() };
        let found = match App::ask(this, op).await {
            Ok(Reply::Entry(entry)) => Some(entry.attr.ino),
            Err(FsError::NotFound) => None,
            Err(error) => return this.borrow().allowed("looking a name up", &error),
            Ok(other) => return Err(format!("looking a name up: {other:?}")),
        };
        let mut app = this.borrow_mut();
        app.doubts.remove(at);
        match (&doubt, found) {
            (Doubt::Create(name), Some(ino)) => app.add(name, ino, false),
            (Doubt::Remove(name), None) => app.gone(name, true),
            (Doubt::Rename(from, to), Some(_)) => app.renamed(from, to),
            _ => {}
        }
        Ok(())
    }
}

impl Piece {
    /// Everything is durable now, except what may have been lost.
    fn settle(&mut self) {
        if !self.told
            && let Some(last) = self.later.last()
        {
            self.durable = *last;
            self.later.clear();
            self.unknown = false;
        }
    }

    /// The content that a piece of data stands for; `None` if it is no whole content.
    fn content(data: &[u8]) -> Option<u64> {
        let first = u64::from_le_bytes(data.first_chunk().copied().unwrap_or_default());
        let whole = data.chunks(8).all(|chunk| chunk == &first.to_le_bytes()[..chunk.len()]);
        whole.then_some(first)
    }

    fn wrong(&self, data: &[u8]) -> String {
        let is = Piece::content(data);
        format!("has {is:x?}, durable is {:#x}, later {:x?}", self.durable, self.later)
    }

    /// Compares with what the application must read: the last it wrote.
    fn newest(&self, data: &[u8], lenient: bool) -> Verdict<()> {
        if lenient {
            return self.possible(data);
        }
        let last = self.later.last().unwrap_or(&self.durable);
        let fine = Piece::content(data) == Some(*last) || self.is_open();
        if fine { Ok(()) } else { Err(self.wrong(data)) }
    }

    /// True if it may hold anything.
    fn is_open(&self) -> bool {
        self.unknown && self.later.is_empty()
    }

    /// Compares with what a server may have: durable content, or what was written after it.
    pub(super) fn possible(&self, data: &[u8]) -> Verdict<()> {
        let is = Piece::content(data);
        let fine = is.is_some_and(|is| is == self.durable || self.later.contains(&is));
        let fine = fine || self.is_open();
        if fine { Ok(()) } else { Err(self.wrong(data)) }
    }
}
