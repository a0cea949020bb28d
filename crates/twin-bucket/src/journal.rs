//! A journal on a local device before a store: what is written is durable there, and goes to the store in the background.
//!
//! Contract: a pack counts as written when its record is durable on the local device, and so are all records before it.
//! Records go to the store side by side; a head is written only when all before it are there, so what others see of the
//! volume is what it was at some flush. Until then their packs are read from here. Whoever opens the journal brings to the
//! store what is not there yet, before the volume itself is opened. While the store is silent, writing goes on until the
//! ring is full, and then waits.
//!
//! The price: what was acknowledged and is not in the store yet is on this machine alone. If another writer replaces this one,
//! it never gets there, and opening says so.
//!
//! On the device: two copies of a start (where the oldest record is that may be needed), written in turn, and a ring of
//! records, each a header of a unit and the pack. A record is known by its serial number, which never comes again, and by
//! checksums of both parts, so what a power failure cut off ends the journal.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt;
use std::rc::Rc;

use twin_disk::{Block, BlockDevice, IoError, gather, total};
use twin_rt::{Event, Nanos, Rt, RwLock, SECS};

use crate::counted::Counted;
use crate::counts::Counts;
use crate::fields::{Reader, Writer};
use crate::local::{LocalDevice, UNIT};
use crate::objects::{OpenError, block, read_head};
use crate::pack::{Header, PREFIX};
use crate::planted::PlantedFault;
use crate::requests::{Requests, Unwritten};
use crate::settings::OPENING_PATIENCE;
use crate::store::{Condition, Content, Listed, ObjectStore, StoreError, Stored, Version};

const START_MAGIC: &[u8; 8] = b"twbjrnl1";
const RECORD_MAGIC: &[u8; 8] = b"twbjrec1";
/// The first byte of the ring.
const RING: u64 = 2 * UNIT;
/// Most bytes of a record's pack: the largest shape's, with its header.
const MOST_BYTES: u64 = 1 << 29;
/// Packs that are sent at once.
const UPLOADS: u32 = 16;
/// How long one attempt to bring a record to the store lasts. Then those that wait for room hear of it.
const ATTEMPT: Nanos = 10 * SECS;

const FENCED: &str = "another writer has taken the volume over; what the journal had not brought to the store is lost to it";

/// Why a journal was not opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum JournalError {
    /// The device is too small, of another volume, or not a journal.
    Unfit(String),
    /// Another writer has taken the volume over. What was acknowledged here and had not reached the store is lost to the
    /// volume, and still in the journal: packs, and their bytes.
    Lost {
        /// Packs that are only here.
        packs: usize,
        /// Their bytes.
        bytes: u64,
    },
    /// The local device failed.
    Device(String),
    /// The store failed.
    Store(StoreError),
}

impl fmt::Display for JournalError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            JournalError::Unfit(why) => f.write_str(why),
            JournalError::Lost { packs, bytes } => write!(
                f,
                "another writer took the volume over before {packs} packs ({bytes} bytes) that were acknowledged in this \
                 journal had reached the store: the volume is without them. They stay in the journal; move it away \
                 to go on with the volume as it is"
            ),
            JournalError::Device(why) => write!(f, "the journal: {why}"),
            JournalError::Store(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for JournalError {}

impl From<IoError> for JournalError {
    fn from(error: IoError) -> JournalError {
        JournalError::Device(error.to_string())
    }
}

/// What waits in a journal.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct JournalStatus {
    /// Packs that the store does not have yet.
    pub packs: usize,
    /// Their bytes.
    pub bytes: u64,
    /// What the store's last silence was about, if it has not answered since.
    pub silent: Option<String>,
}

/// The oldest record that may be needed: its serial number, and where it is or will be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Start {
    generation: u64,
    serial: u64,
    at: u64,
}

impl Start {
    fn encode(&self, volume: &str) -> Vec<u8> {
        let mut out = Writer::new(START_MAGIC);
        out.u64(self.generation);
        out.u64(self.serial);
        out.u64(self.at);
        out.text(volume);
        framed(out)
    }

    fn decode(bytes: &[u8]) -> Option<(Start, String)> {
        let mut fields = Reader::new(START_MAGIC, unframed(bytes)?).ok()?;
        let (generation, serial, at) = (fields.u64().ok()?, fields.u64().ok()?, fields.u64().ok()?);
        // Nobody counts that far: a file that says so is none of ours.
        let can_be = generation.max(serial).max(at) < 1 << 60 && at >= RING;
        Some((Start { generation, serial, at }, fields.text().ok()?)).filter(|_| can_be)
    }
}

/// Fields behind their length, for a unit that is longer.
fn framed(fields: Writer) -> Vec<u8> {
    let fields = fields.end();
    let mut out = (fields.len() as u32).to_le_bytes().to_vec();
    out.extend(fields);
    out
}

fn unframed(bytes: &[u8]) -> Option<&[u8]> {
    let (len, rest) = bytes.split_first_chunk::<4>()?;
    rest.get(..u32::from_le_bytes(*len) as usize)
}

/// A pack in the ring.
#[derive(Debug)]
struct Record {
    serial: u64,
    /// Where its header is. The pack follows after a unit.
    at: u64,
    len: u64,
    crc: u32,
    name: String,
    /// The store has it.
    is_uploaded: Cell<bool>,
}

impl Record {
    fn end(&self) -> u64 {
        self.at + UNIT + self.len.next_multiple_of(UNIT)
    }

    fn encode(&self, done: u64) -> Vec<u8> {
        let mut out = Writer::new(RECORD_MAGIC);
        out.u64(self.serial);
        out.u64(done);
        out.u64(self.len);
        out.u32(self.crc);
        out.text(&self.name);
        framed(out)
    }

    /// The record at `at`, and the serial number before which all were in the store when it was written.
    fn decode(at: u64, bytes: &[u8]) -> Option<(Record, u64)> {
        let mut fields = Reader::new(RECORD_MAGIC, unframed(bytes)?).ok()?;
        let (serial, done, len) = (fields.u64().ok()?, fields.u64().ok()?, fields.u64().ok()?);
        let (crc, name) = (fields.u32().ok()?, fields.text().ok()?);
        if len > MOST_BYTES {
            return None;
        }
        let is_uploaded = Cell::new(false);
        Some((Record { serial, at, len, crc, name, is_uploaded }, done))
    }
}

struct State {
    /// As it is on the device.
    start: Start,
    /// The place and the serial number of the next record.
    at: u64,
    serial: u64,
    /// Records in the ring from the start on, by their serial numbers.
    records: VecDeque<Rc<Record>>,
    /// Those of them that the store does not have.
    waiting: BTreeMap<String, Rc<Record>>,
    /// Those of these that no task has taken yet, in order.
    to_send: VecDeque<Rc<Record>>,
    /// All records before this one are durable here.
    durable: u64,
    /// Those after it that are, too.
    durable_early: BTreeSet<u64>,
    silent: Option<String>,
    /// The ring begins anew, and nothing gets a place until the device says so.
    is_turning: bool,
}

impl State {
    /// Where a record of `need` bytes goes, if there is room for it before what the start needs.
    fn place(&self, need: u64, size: u64) -> Option<u64> {
        let (at, from) = (self.at, self.start.at);
        let is_empty = self.serial == self.start.serial;
        match is_empty || at > from {
            true if at + need <= size => Some(at),
            true => (RING + need <= from).then_some(RING),
            false => (at + need <= from).then_some(at),
        }
    }

    /// Forgets records at the beginning of the ring that the store has and that nobody reads, and returns the first
    /// that is left. The start may be moved to it.
    fn trim(&mut self) -> Option<(u64, u64)> {
        while let Some(first) = self.records.front() {
            if !first.is_uploaded.get() || Rc::strong_count(first) > 1 {
                return Some((first.serial, first.at));
            }
            self.records.pop_front();
        }
        None
    }
}

struct Shared {
    rt: Rt,
    requests: Requests,
    device: LocalDevice,
    state: RefCell<State>,
    /// Notified when a record is durable or in the store, when the store is silent, and at the end.
    progress: Event,
    /// Tasks that bring records to the store.
    uploaders: Cell<u32>,
    /// Held while the start is written.
    starting: RwLock,
    /// Another writer has taken over.
    is_fenced: Cell<bool>,
    /// The store's silence is no longer waited for.
    is_closing: Cell<bool>,
    failed: RefCell<Option<String>>,
}

/// A store behind a journal.
pub struct Journal(Rc<Shared>);

impl Journal {
    /// Opens the journal of `store` on `device`, or makes one there if the device has zeros, and brings to the store what
    /// had not reached it. The volume is opened after that.
    ///
    /// # Errors
    /// If the device cannot be, another writer has the volume, or one of the two fails. The journal is as it was.
    pub async fn open(
        rt: &Rt,
        store: Rc<dyn ObjectStore>,
        device: Rc<dyn BlockDevice>,
    ) -> Result<Journal, JournalError> {
        let device = LocalDevice::new(device).map_err(JournalError::Unfit)?;
        if device.size() < RING + 2 * UNIT {
            return Err(JournalError::Unfit(format!("{}: too small for a journal", device.name())));
        }
        let volume = store.name();
        let store = Counted::of(store);
        let (patience, planted) = (OPENING_PATIENCE, PlantedFault::None);
        let requests = Requests { rt: rt.clone(), store, patience, planted };
        let start = read_start(&device, &volume).await?;
        let (records, serial) = read_records(&device, start).await?;
        send_all(&requests, &device, &records).await?;
        // What a power failure cut off may have left records after a gap, whose numbers must not come again.
        let serial = serial + device.size() / UNIT;
        let start = Start { generation: start.generation + 1, serial, at: RING };
        let state = State {
            start,
            at: RING,
            serial,
            records: VecDeque::new(),
            waiting: BTreeMap::new(),
            to_send: VecDeque::new(),
            durable: serial,
            durable_early: BTreeSet::new(),
            silent: None,
            is_turning: false,
        };
        let shared = Shared {
            rt: rt.clone(),
            requests: Requests { patience: ATTEMPT, ..requests },
            device,
            state: RefCell::new(state),
            progress: Event::new(),
            uploaders: Cell::new(0),
            starting: RwLock::new(),
            is_fenced: Cell::new(false),
            is_closing: Cell::new(false),
            failed: RefCell::default(),
        };
        shared.write_start(start).await?;
        Ok(Journal(Rc::new(shared)))
    }

    /// From now on a silent store is an error to whoever writes a head, after the usual patience: for a volume that is
    /// being closed. What has not reached the store stays here for the next writer.
    pub fn begin_close(&self) {
        self.0.is_closing.set(true);
        self.0.progress.notify();
    }

    /// What waits in it.
    pub fn status(&self) -> JournalStatus {
        let state = self.0.state.borrow();
        let bytes = state.waiting.values().map(|record| record.len).sum();
        JournalStatus { packs: state.waiting.len(), bytes, silent: state.silent.clone() }
    }
}

async fn read_start(device: &LocalDevice, volume: &str) -> Result<Start, JournalError> {
    let mut newest: Option<(Start, String)> = None;
    let mut is_zero = true;
    for at in [0, UNIT] {
        let bytes = device.read(at, UNIT).await?.to_bytes();
        is_zero &= bytes.iter().all(|byte| *byte == 0);
        if let Some(found) = Start::decode(&bytes)
            && newest.as_ref().is_none_or(|(start, _)| start.generation < found.0.generation)
        {
            newest = Some(found);
        }
    }
    match newest {
        Some((start, of)) if of == volume => Ok(start),
        Some((_, of)) => Err(JournalError::Unfit(format!(
            "{}: it is the journal of {of}; give {volume} one of its own",
            device.name()
        ))),
        None if is_zero => Ok(Start { generation: 0, serial: 1, at: RING }),
        None => Err(JournalError::Unfit(format!(
            "{}: it is neither empty nor a journal; give another file",
            device.name()
        ))),
    }
}

/// The records from a start on that the store may not have, and the serial number after the last.
async fn read_records(
    device: &LocalDevice,
    start: Start,
) -> Result<(Vec<Record>, u64), JournalError> {
    let (mut records, mut serial, mut at, mut done) = (Vec::new(), start.serial, start.at, 0);
    loop {
        let mut found = None;
        // The next one may have had no room before the end.
        for place in [at, RING] {
            if found.is_none() {
                found = read_record(device, place, serial).await?;
            }
        }
        let Some((record, done_then)) = found else { break };
        (at, serial, done) = (record.end(), serial + 1, done_then);
        records.push(record);
    }
    records.retain(|record| record.serial >= done);
    Ok((records, serial))
}

/// The record at a place, if it is whole and has this serial number.
async fn read_record(
    device: &LocalDevice,
    at: u64,
    serial: u64,
) -> Result<Option<(Record, u64)>, JournalError> {
    if at + UNIT > device.size() {
        return Ok(None);
    }
    let header = device.read(at, UNIT).await?.to_bytes();
    let Some((record, done)) = Record::decode(at, &header) else { return Ok(None) };
    let fits = record.len <= device.size() && record.end() <= device.size();
    if record.serial != serial || !fits {
        return Ok(None);
    }
    let content = device.read(at + UNIT, record.len).await?;
    Ok((content.crc32c() == record.crc).then_some((record, done)))
}

/// That a record is of the volume that is in the store: another may have been made there under the same name, in whose
/// sequence it would take a place.
async fn is_of_volume(
    requests: &Requests,
    device: &LocalDevice,
    record: &Record,
) -> Result<(), JournalError> {
    let there = match read_head(requests).await {
        Ok((head, _)) => Some(head.volume),
        Err(OpenError::NoVolume) => None,
        Err(OpenError::Store(error)) => return Err(JournalError::Store(error)),
        Err(error) => return Err(JournalError::Unfit(error.to_string())),
    };
    let content = device.read(record.at + UNIT, record.len).await?.to_bytes();
    let header = Header::len_in(&content).ok().and_then(|len| content.get(..len as usize));
    let of = header.and_then(|header| Header::decode(header).ok()).map(|header| header.volume);
    match of == there {
        true => Ok(()),
        false => Err(JournalError::Unfit(format!(
            "{}: it has packs of a volume that is no longer in {}; give another file, or none if those packs are not needed",
            device.name(),
            requests.store.name()
        ))),
    }
}

/// Brings records to the store, in order.
async fn send_all(
    requests: &Requests,
    device: &LocalDevice,
    records: &[Record],
) -> Result<(), JournalError> {
    if let Some(first) = records.first() {
        is_of_volume(requests, device, first).await?;
    }
    for (at, record) in records.iter().enumerate() {
        let content = device.read(record.at + UNIT, record.len).await?;
        match requests.write(&record.name, vec![content], Condition::Absent).await {
            Ok(_) => {}
            Err(Unwritten::Taken) => {
                let rest = &records[at..];
                let bytes = rest.iter().map(|record| record.len).sum();
                return Err(JournalError::Lost { packs: rest.len(), bytes });
            }
            Err(Unwritten::Store(error)) => return Err(JournalError::Store(error)),
        }
    }
    Ok(())
}

impl Shared {
    fn check(&self) -> Result<(), StoreError> {
        match &*self.failed.borrow() {
            Some(why) => Err(StoreError::Refused(why.clone())),
            // Not a conflict: whoever gets one looks for the pack, and would find it here.
            None if self.is_fenced.get() => Err(StoreError::Refused(FENCED.into())),
            None => Ok(()),
        }
    }

    fn fail(&self, why: String) -> StoreError {
        let why = format!("the journal: {why}");
        self.failed.borrow_mut().get_or_insert(why.clone());
        self.progress.notify();
        StoreError::Refused(why)
    }

    async fn write_start(&self, start: Start) -> Result<(), IoError> {
        // Everything that the old start was needed for is in the store, or behind the new one.
        let copy = start.generation % 2 * UNIT;
        let bytes = start.encode(&self.requests.store.name());
        self.device.write(copy, vec![block(bytes)]).await?;
        self.device.flush().await?;
        self.state.borrow_mut().start = start;
        Ok(())
    }

    /// Moves the start to the oldest record that is needed, if it is not there.
    async fn move_start(&self) -> Result<(), StoreError> {
        let _alone = self.starting.write().await;
        let (now, (serial, at)) = {
            let state = &mut *self.state.borrow_mut();
            let oldest = state.trim();
            // Without a record the ring begins anew, so that the next has all of it.
            state.is_turning = oldest.is_none() && state.at != RING;
            if state.is_turning {
                state.at = RING;
            }
            (state.start, oldest.unwrap_or((state.serial, state.at)))
        };
        if (serial, at) == (now.serial, now.at) {
            return Ok(());
        }
        let start = Start { generation: now.generation + 1, serial, at };
        let written = self.write_start(start).await;
        self.state.borrow_mut().is_turning = false;
        self.progress.notify();
        written.map_err(|error| self.fail(error.to_string()))
    }

    /// A place for a pack.
    async fn reserve(&self, name: &str, blocks: &[Block]) -> Result<(Rc<Record>, u64), StoreError> {
        let len = total(blocks);
        let need = UNIT + len.next_multiple_of(UNIT);
        loop {
            self.check()?;
            let is_turning = || self.state.borrow().is_turning;
            self.progress.wait_until(|| !is_turning()).await;
            {
                let state = &mut *self.state.borrow_mut();
                if let Some(at) = state.place(need, self.device.size()) {
                    let crc = gather(blocks, 0, len as usize).crc32c();
                    let (serial, name) = (state.serial, name.to_string());
                    let is_uploaded = Cell::new(false);
                    let record = Rc::new(Record { serial, at, len, crc, name, is_uploaded });
                    (state.at, state.serial) = (record.end(), serial + 1);
                    let done = state.trim().map_or(serial, |(oldest, _)| oldest);
                    state.records.push_back(Rc::clone(&record));
                    return Ok((record, done));
                }
            }
            let before = self.state.borrow().start;
            self.move_start().await?;
            // Whoever writes a head moves it, too.
            if self.state.borrow().start == before {
                if let Some(why) = &self.state.borrow().silent {
                    let words = format!("{why}; the journal is full of what it has not taken");
                    return Err(StoreError::Unknown(words));
                }
                self.progress.wait().await;
            }
        }
    }

    /// Makes a pack durable here.
    async fn append(self: &Rc<Self>, name: &str, blocks: Vec<Block>) -> Result<(), StoreError> {
        let (record, done) = self.reserve(name, &blocks).await?;
        let mut header = block(record.encode(done)).to_bytes().to_vec();
        header.resize(UNIT as usize, 0);
        let mut all = vec![block(header)];
        all.extend(blocks);
        let written = async {
            self.device.write(record.at, all).await?;
            self.device.flush().await
        };
        written.await.map_err(|error: IoError| self.fail(error.to_string()))?;
        {
            let state = &mut *self.state.borrow_mut();
            state.waiting.insert(name.into(), Rc::clone(&record));
            state.durable_early.insert(record.serial);
            while state.durable_early.first() == Some(&state.durable) {
                state.durable_early.pop_first();
                state.durable += 1;
            }
        }
        self.progress.notify();
        let serial = record.serial;
        self.send_on(record);
        // A record behind one that is not there would not be found.
        let is_durable = || self.state.borrow().durable > serial;
        self.progress.wait_until(|| is_durable() || self.failed.borrow().is_some()).await;
        self.check()
    }

    /// Has a record brought to the store. While that is silent, a few tasks wait for it and not one for each record.
    fn send_on(self: &Rc<Self>, record: Rc<Record>) {
        self.state.borrow_mut().to_send.push_back(record);
        if self.uploaders.get() == UPLOADS {
            return;
        }
        self.uploaders.set(self.uploaders.get() + 1);
        let shared = Rc::clone(self);
        self.rt.spawn("journal upload", async move {
            while let Some(record) = shared.next_to_send() {
                shared.upload(&record).await;
                // Somebody may wait for its place.
                drop(record);
                shared.progress.notify();
            }
            shared.uploaders.set(shared.uploaders.get() - 1);
        });
    }

    fn next_to_send(&self) -> Option<Rc<Record>> {
        self.state.borrow_mut().to_send.pop_front()
    }

    /// Brings a record to the store, as often as it takes.
    async fn upload(&self, record: &Record) {
        while self.check().is_ok() {
            let content = match self.device.read(record.at + UNIT, record.len).await {
                Ok(content) if content.crc32c() == record.crc => content,
                Ok(_) => return drop(self.fail(format!("{} has changed in it", record.name))),
                Err(error) => return drop(self.fail(error.to_string())),
            };
            match self.requests.write(&record.name, vec![content], Condition::Absent).await {
                Ok(_) => {
                    record.is_uploaded.set(true);
                    let mut state = self.state.borrow_mut();
                    state.waiting.remove(&record.name);
                    state.silent = None;
                }
                Err(Unwritten::Taken) => self.is_fenced.set(true),
                Err(Unwritten::Store(StoreError::Unknown(why))) => {
                    self.state.borrow_mut().silent = Some(why);
                }
                Err(Unwritten::Store(error)) => drop(self.fail(error.to_string())),
            }
            self.progress.notify();
            if record.is_uploaded.get() {
                return;
            }
        }
    }

    /// Waits until the store has all that was written so far.
    async fn all_uploaded(&self, waits: bool) -> Result<(), StoreError> {
        let to = self.state.borrow().serial;
        let is_there = || self.state.borrow().waiting.values().all(|record| record.serial >= to);
        let gives_up = || !waits || self.is_closing.get();
        let silent = || self.state.borrow().silent.clone().filter(|_| gives_up());
        let is_over = || is_there() || silent().is_some() || self.check().is_err();
        self.progress.wait_until(is_over).await;
        match silent().filter(|_| !is_there()) {
            Some(why) => Err(StoreError::Unknown(why)),
            None => self.check(),
        }
    }

    /// Writes an object behind all packs: a head may refer to them. While the store is silent this waits, because packs go
    /// on without it, but not for a pack that the ring is too small for.
    async fn put_behind(
        &self,
        name: &str,
        blocks: Vec<Block>,
        when: Condition,
    ) -> Result<Version, StoreError> {
        let waits = !name.starts_with(PREFIX);
        loop {
            self.all_uploaded(waits).await?;
            self.move_start().await?;
            match self.requests.store.put(name, blocks.clone(), when.clone()).await {
                Err(StoreError::Unknown(_)) if waits && !self.is_closing.get() => {
                    self.rt.sleep(ATTEMPT).await
                }
                answered => return answered,
            }
        }
    }

    /// Bytes of a pack that waits here.
    async fn read(
        &self,
        record: &Record,
        range: Option<(u64, u64)>,
    ) -> Result<Content, StoreError> {
        let (at, len) = range.unwrap_or((0, record.len));
        let at = at.min(record.len);
        let len = len.min(record.len - at);
        let read = self.device.read(record.at + UNIT + at, len).await;
        let block = read.map_err(|error| StoreError::Refused(format!("the journal: {error}")))?;
        Ok(Content { blocks: vec![block], version: Version(String::new()) })
    }
}

impl ObjectStore for Journal {
    fn name(&self) -> String {
        self.0.requests.store.name()
    }

    fn requested(&self) -> Option<Counts> {
        self.0.requests.store.requested()
    }

    fn get(&self, name: &str, range: Option<(u64, u64)>) -> Stored<Content> {
        let record = self.0.state.borrow().waiting.get(name).cloned();
        match record {
            Some(record) => {
                let shared = Rc::clone(&self.0);
                Box::pin(async move {
                    let read = shared.read(&record, range).await;
                    // Somebody may wait for its place.
                    drop(record);
                    shared.progress.notify();
                    read
                })
            }
            None => self.0.requests.store.get(name, range),
        }
    }

    fn put(&self, name: &str, blocks: Vec<Block>, when: Condition) -> Stored<Version> {
        let (shared, name) = (Rc::clone(&self.0), name.to_string());
        let len = total(&blocks);
        let fits =
            len <= MOST_BYTES && UNIT + len.next_multiple_of(UNIT) <= shared.device.size() - RING;
        if name.starts_with(PREFIX) && when == Condition::Absent && fits {
            return Box::pin(async move {
                shared.append(&name, blocks).await?;
                Ok(Version(String::new()))
            });
        }
        Box::pin(async move { shared.put_behind(&name, blocks, when).await })
    }

    fn delete(&self, name: &str) -> Stored<()> {
        let shared = Rc::clone(&self.0);
        let name = name.to_string();
        Box::pin(async move {
            let waits = || shared.state.borrow().waiting.contains_key(&name);
            shared.progress.wait_until(|| !waits() || shared.check().is_err()).await;
            shared.requests.store.delete(&name).await
        })
    }

    fn list(&self, prefix: &str, after: Option<&str>) -> Stored<Vec<Listed>> {
        self.0.requests.store.list(prefix, after)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_no_journal_says_is_not_believed() {
        let start = Start { generation: 3, serial: 7, at: RING };
        let read = |start: Start| Start::decode(&start.encode("s3://b/v"));
        assert_eq!(read(start), Some((start, "s3://b/v".into())));
        for hostile in [
            Start { at: u64::MAX - 100, ..start },
            Start { at: 0, ..start },
            Start { serial: u64::MAX, ..start },
            Start { generation: u64::MAX, ..start },
        ] {
            assert_eq!(read(hostile), None, "{hostile:?}");
        }
        let record = |len| {
            let name = "data/1-1".to_string();
            let record =
                Record { serial: 7, at: RING, len, crc: 0, name, is_uploaded: Cell::new(false) };
            Record::decode(RING, &record.encode(5)).map(|(record, done)| (record.len, done))
        };
        assert_eq!(record(100), Some((100, 5)));
        assert_eq!((record(u64::MAX), record(MOST_BYTES + 1)), (None, None));
        assert_eq!(unframed(&[255; 8]), None);
    }
}
