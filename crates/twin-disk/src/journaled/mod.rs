//! A journal on a faster device before a device: what is written is durable there, and comes to the device later.
//!
//! Contract: above it this is a device like any other. A write completes when its record is in the [ring](crate::ring), a flush
//! when all records before it are durable there; the device itself is not waited for. So a power failure leaves what was
//! flushed, and of what was written after that the first records, in their order. What is written twice before it was
//! moved (`moving`) comes to the device once. Reads come from wherever the newest content is. A full journal makes
//! writers wait.
//!
//! While the journal is in use the device bears a mark (`mark`), which names the journal: without it the content is old and may be
//! torn. Opening brings what the journal has to the device first. [`Journaled::close`] takes the mark away; then the device is whole
//! by itself.
//!
//! If either device fails, all later writes and flushes fail: what is in the journal stays there for the next opening.
//!
//! Source: the memory that survives of "Cut-and-paste file systems", section 5.1, as a file or device; Baker and others,
//! "Non-volatile memory for fast, reliable file systems" (1992), whose second case is such a buffer before a log.

mod main_device;
mod mark;
mod moving;
mod pieces;

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use twin_rt::{BoxFuture, Event, Rt, join_all};

use crate::local::UNIT;
use crate::ring::{Found, Record, Ring, RingError};
use crate::{
    Block, BlockDevice, Class, DeviceInfo, Io, IoError, IoErrorKind, IoKind, IoResult, Origin,
    Pending, ServiceBounds, cut, pending,
};
use main_device::MainDevice;
pub use mark::{JournalId, id_text, mark_of};
use pieces::Pieces;

/// The least bytes of a journal.
pub const LEAST_JOURNAL: u64 = 256 << 10;
/// Most bytes of a record: a longer write takes several.
const MOST_RECORD: u64 = 1 << 20;
/// Bytes that are read of a journal at once when it is opened.
const REPLAYED: u64 = 16 << 20;

/// What is in a journal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Waiting {
    /// Bytes that the device does not have yet.
    pub bytes: u64,
    /// Bytes of the journal that are in use, with what has been written again since.
    pub used: u64,
    /// Bytes of the journal.
    pub size: u64,
    /// Bytes that were written since it was opened.
    pub written: u64,
    /// Bytes that were moved to the device since then.
    pub moved: u64,
}

struct Inner {
    rt: Rt,
    main: MainDevice,
    ring: Ring,
    pieces: RefCell<Pieces<Rc<Record>>>,
    in_flight: Cell<usize>,
    failed: RefCell<Option<String>>,
    /// Notified when the task that moves may have something to do. Whoever waits for room waits for the ring's progress and
    /// not for this: two of them would wake each other for ever.
    work: Event,
    /// Somebody waits for room.
    is_wanted: Cell<bool>,
    /// Nobody has written for a while.
    is_idle: Cell<bool>,
    /// A task waits for that.
    is_watched: Cell<bool>,
    is_closing: Cell<bool>,
    written_bytes: Cell<u64>,
    moved_bytes: Cell<u64>,
}

/// A device behind a journal. Clones are the same.
#[derive(Clone)]
pub struct Journaled(Rc<Inner>);

/// What opening had to do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Replayed {
    /// Records that the journal had.
    pub records: usize,
    /// Their bytes.
    pub bytes: u64,
}

impl Journaled {
    /// Puts the journal on `local` before `main`, after bringing to `main` what it has. If the device has no journal yet,
    /// `id` becomes the identity of this one; it must be one that nobody else has.
    ///
    /// # Errors
    /// If `local` is too small or holds something else, the two do not belong together, or one of them fails. Nothing
    /// is lost then.
    pub async fn open(
        rt: &Rt,
        main: Rc<dyn BlockDevice>,
        local: Rc<dyn BlockDevice>,
        id: JournalId,
    ) -> Result<(Journaled, Replayed), RingError> {
        let info = local.info();
        if info.size < LEAST_JOURNAL {
            return Err(RingError::Unfit(format!(
                "{}: a journal has at least {LEAST_JOURNAL} bytes; this has {}",
                info.name, info.size
            )));
        }
        let found = Found::read(local).await?;
        let main = MainDevice::read_mark(main).await?;
        let id = fitting(&main, &found, id)?;
        let replayed = replay(&main, &found).await?;
        let ring = found.begin(&id_text(&id)).await?;
        if main.mark().is_none() && !main.set_mark(Some(id)).await? {
            return Err(RingError::Unfit(format!(
                "{}: its first sector has no room for the mark of a journal, so it is no volume of ours",
                main.info().name
            )));
        }
        let inner = Rc::new(Inner {
            rt: rt.clone(),
            main,
            ring,
            pieces: RefCell::new(Pieces::new()),
            in_flight: Cell::new(0),
            failed: RefCell::default(),
            work: Event::new(),
            is_wanted: Cell::new(false),
            is_idle: Cell::new(false),
            is_watched: Cell::new(false),
            is_closing: Cell::new(false),
            written_bytes: Cell::new(0),
            moved_bytes: Cell::new(0),
        });
        rt.spawn("journal to device", Rc::clone(&inner).move_out());
        Ok((Journaled(inner), replayed))
    }

    /// Brings everything to the device and takes the mark away. Nothing may be written afterwards.
    ///
    /// # Errors
    /// If a device failed, now or before. Then the mark stays, and the journal keeps what is not on the device.
    pub async fn close(&self) -> Result<(), IoError> {
        let inner = &self.0;
        inner.is_closing.set(true);
        inner.work.notify();
        let is_over = || inner.ring.used() == 0 || inner.failed.borrow().is_some();
        inner.ring.progress.wait_until(is_over).await;
        inner.check()?;
        inner.main.set_mark(None).await?;
        inner.ring.disown().await
    }

    /// What is in the journal now.
    pub fn waiting(&self) -> Waiting {
        let inner = &self.0;
        Waiting {
            bytes: inner.pieces.borrow().bytes(),
            used: inner.ring.used(),
            size: inner.ring.size(),
            written: inner.written_bytes.get(),
            moved: inner.moved_bytes.get(),
        }
    }
}

/// Takes the mark of a journal that is lost from a device. What only the journal had is gone, so what is on the device may be torn.
/// Returns false if there is no mark.
///
/// # Errors
/// If the device fails.
pub async fn forget_journal(main: Rc<dyn BlockDevice>) -> Result<bool, IoError> {
    let main = MainDevice::read_mark(main).await?;
    match main.mark() {
        Some(_) => main.set_mark(None).await,
        None => Ok(false),
    }
}

/// The identity under which the two go on, if they belong together.
fn fitting(main: &MainDevice, found: &Found, fresh: JournalId) -> Result<JournalId, RingError> {
    let owner = found.owner().filter(|owner| !owner.is_empty());
    let refuse = |why: String| Err(RingError::Unfit(why));
    match (main.mark(), owner) {
        (Some(mark), Some(owner)) if id_text(&mark) == owner => Ok(mark),
        (Some(mark), _) => refuse(format!(
            "{}: its newest content is in the journal {}, and {} is not that one: give the file that it was mounted with",
            main.info().name,
            id_text(&mark),
            found.name()
        )),
        (None, Some(_)) if !found.records().is_empty() => refuse(format!(
            "{}: it has {} writes of another volume, or of this one before it was replaced; give another file, or \
             remove this one if those writes are not needed",
            found.name(),
            found.records().len()
        )),
        (None, _) => Ok(fresh),
    }
}

/// Brings what was found to the device.
async fn replay(main: &MainDevice, found: &Found) -> Result<Replayed, RingError> {
    let mut pieces = Pieces::new();
    let mut replayed = Replayed::default();
    let info = main.info();
    for (number, record) in found.records().iter().enumerate() {
        let place = place_of(record).filter(|at| {
            let io = Io::read(*at, record.len(), Class::Mixed, Origin::Recovery);
            info.check(&io).is_ok() && !record.is_empty()
        });
        let Some(at) = place else {
            let why = format!("{}: a record has no place on the volume", found.name());
            return Err(RingError::Unfit(why));
        };
        pieces.insert(at, record.len(), number);
        replayed.records += 1;
        replayed.bytes += record.len();
    }
    let (mut placed, mut bytes) = (Vec::new(), 0);
    for part in pieces.look_up(0, info.size) {
        let Some((number, offset)) = part.place else { continue };
        let content = found.content(&found.records()[number]).await?;
        placed.push((part.at, cut(&content, offset, part.len)));
        bytes += part.len;
        if bytes >= REPLAYED {
            main.write_out(std::mem::take(&mut placed)).await?;
            bytes = 0;
        }
    }
    main.write_out(placed).await?;
    Ok(replayed)
}

/// The place on the device of a record's content.
fn place_of(record: &Record) -> Option<u64> {
    record.label().parse().ok()
}

impl Inner {
    fn error(&self, why: &str) -> IoError {
        let kind = IoErrorKind::Other(format!("the journal: {why}"));
        IoError { op: IoKind::Write, at: 0, len: 0, kind }
    }

    fn check(&self) -> Result<(), IoError> {
        match &*self.failed.borrow() {
            Some(why) => Err(self.error(why)),
            None => Ok(()),
        }
    }

    fn fail(&self, error: &IoError) {
        self.failed.borrow_mut().get_or_insert(error.to_string());
        self.work.notify();
        self.ring.progress.notify();
    }

    /// Makes everything durable that was written before.
    async fn make_durable(&self) -> Result<(), IoError> {
        let to = self.ring.next_serial();
        let is_whole = || self.ring.whole() >= to;
        self.ring.progress.wait_until(|| is_whole() || self.failed.borrow().is_some()).await;
        self.check()?;
        self.ring.flush().await.inspect_err(|error| self.fail(error))
    }

    async fn write(self: Rc<Self>, io: Io) -> IoResult {
        let most = MOST_RECORD.min(self.ring.size() / 8 / UNIT * UNIT);
        let parts = io.parts(most as u32).into_iter().map(|part| self.append(part.at, part.blocks));
        for written in join_all(parts).await {
            written?;
        }
        Ok(Vec::new())
    }

    /// Makes a record of some data, once there is room.
    async fn append(self: &Rc<Self>, at: u64, blocks: Vec<Block>) -> Result<(), IoError> {
        let label = at.to_string();
        let reserved = loop {
            self.check()?;
            self.ring.progress.wait_until(|| !self.ring.is_turning()).await;
            if let Some(reserved) = self.ring.reserve(&label, &blocks) {
                break reserved;
            }
            self.is_wanted.set(true);
            self.work.notify();
            self.ring.progress.wait().await;
        };
        let len = reserved.record.len();
        let written = self.ring.write(&reserved, blocks).await;
        written.inspect_err(|error| self.fail(error))?;
        let record = reserved.record;
        // Readers find it before the writer hears of it.
        self.pieces.borrow_mut().insert(at, len, Rc::clone(&record));
        self.written_bytes.set(self.written_bytes.get() + len);
        self.ring.set_whole(&record);
        self.work.notify();
        self.watch_idle();
        Ok(())
    }

    async fn read(self: Rc<Self>, io: Io) -> IoResult {
        let parts = self.pieces.borrow().look_up(io.at, io.len);
        let reads = parts.into_iter().map(|part| {
            let (inner, io) = (&self, &io);
            async move {
                match part.place {
                    Some((record, offset)) => inner.ring.read(&record, offset, part.len).await,
                    None => {
                        let (at, len) = (part.at, part.len);
                        let below = Io { at, len, blocks: Vec::new(), ..io.clone() };
                        inner.main.read(below).await
                    }
                }
            }
        });
        let read = join_all(reads).await;
        // The task that moves may wait for a record that was read.
        self.work.notify();
        let mut blocks = Vec::new();
        for part in read {
            blocks.extend(part?);
        }
        Ok(blocks)
    }

    async fn execute(self: Rc<Self>, io: Io) -> IoResult {
        match io.kind {
            IoKind::Read => self.read(io).await,
            IoKind::Write => self.write(io).await,
            IoKind::Flush => self.make_durable().await.map(|()| Vec::new()),
            // The mark must stay. A discard may always be left undone.
            IoKind::Discard if io.at < self.main.first_len() => Ok(Vec::new()),
            IoKind::Discard => {
                self.pieces.borrow_mut().remove(io.at, io.len);
                self.main.device().submit(io).await
            }
        }
    }
}

impl BlockDevice for Journaled {
    fn info(&self) -> DeviceInfo {
        self.0.main.info()
    }

    fn submit(&self, io: Io) -> Pending {
        let inner = &self.0;
        if io.kind != IoKind::Flush
            && let Err(error) = inner.main.info().check(&io)
        {
            return Pending::ready(Err(error));
        }
        let is_below = io.kind == IoKind::Read
            && io.at >= inner.main.first_len()
            && !inner.pieces.borrow().touches(io.at, io.len);
        if is_below {
            return inner.main.device().submit(io);
        }
        if io.len == 0 && io.kind != IoKind::Flush {
            return Pending::ready(Ok(Vec::new()));
        }
        let (completion, result) = pending();
        inner.in_flight.set(inner.in_flight.get() + 1);
        let executing = Rc::clone(inner);
        inner.rt.spawn("journaled request", async move {
            let (op, at, len) = (io.kind, io.at, io.len);
            let done = Rc::clone(&executing).execute(io).await;
            executing.in_flight.set(executing.in_flight.get() - 1);
            completion.done(done.map_err(|error| IoError { op, at, len, kind: error.kind }));
        });
        result
    }

    fn in_flight(&self) -> usize {
        self.0.in_flight.get() + self.0.main.device().in_flight()
    }

    fn bounds(&self) -> Option<ServiceBounds> {
        self.0.main.device().bounds()
    }

    fn grow(&self, to: Option<u64>) -> BoxFuture<'_, Result<u64, IoErrorKind>> {
        self.0.main.device().grow(to)
    }
}

#[cfg(test)]
mod tests;
