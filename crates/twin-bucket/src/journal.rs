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
//! The local device holds a [`Ring`], whose records are packs under their names.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::rc::Rc;

use twin_disk::ring::{Found, Record, Reserved, Ring, RingError};
use twin_disk::{Block, BlockDevice, IoError, total};
use twin_rt::{Nanos, Rt, SECS};

use crate::counted::Counted;
use crate::counts::Counts;
use crate::objects::{OpenError, read_head};
use crate::pack::{Header, PREFIX, front};
use crate::planted::PlantedFault;
use crate::requests::{Requests, Unwritten};
use crate::settings::OPENING_PATIENCE;
use crate::store::{Condition, Content, Listed, ObjectStore, StoreError, Stored, Version};

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

impl From<RingError> for JournalError {
    fn from(error: RingError) -> JournalError {
        match error {
            RingError::Unfit(why) => JournalError::Unfit(why),
            RingError::Device(why) => JournalError::Device(why),
        }
    }
}

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

#[derive(Default)]
struct State {
    /// Records that the store does not have.
    waiting: BTreeMap<String, Rc<Record>>,
    /// Those of these that no task has taken yet, in order.
    to_send: VecDeque<Rc<Record>>,
    silent: Option<String>,
}

struct Shared {
    rt: Rt,
    requests: Requests,
    /// Its `progress` is also notified when a record is in the store, when the store is silent, and at the end.
    ring: Ring,
    state: RefCell<State>,
    /// Tasks that bring records to the store.
    uploaders: Cell<u32>,
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
        let found = Found::read(device).await?;
        let volume = store.name();
        if let Some(of) = found.owner().filter(|of| *of != volume) {
            return Err(JournalError::Unfit(format!(
                "{}: it is the journal of {of}; give {volume} one of its own",
                found.name()
            )));
        }
        let store = Counted::of(store);
        let (patience, planted) = (OPENING_PATIENCE, PlantedFault::None);
        let requests = Requests { rt: rt.clone(), store, patience, planted };
        send_all(&requests, &found).await?;
        let shared = Shared {
            rt: rt.clone(),
            requests: Requests { patience: ATTEMPT, ..requests },
            ring: found.begin(&volume).await?,
            state: RefCell::default(),
            uploaders: Cell::new(0),
            is_fenced: Cell::new(false),
            is_closing: Cell::new(false),
            failed: RefCell::default(),
        };
        Ok(Journal(Rc::new(shared)))
    }

    /// From now on a silent store is an error to whoever writes a head, after the usual patience: for a volume that is
    /// being closed. What has not reached the store stays here for the next writer.
    pub fn begin_close(&self) {
        self.0.is_closing.set(true);
        self.0.ring.progress.notify();
    }

    /// What waits in it.
    pub fn status(&self) -> JournalStatus {
        let state = self.0.state.borrow();
        let bytes = state.waiting.values().map(|record| record.len()).sum();
        JournalStatus { packs: state.waiting.len(), bytes, silent: state.silent.clone() }
    }
}

/// That a record is of the volume that is in the store: another may have been made there under the same name, in whose
/// sequence it would take a place.
async fn is_of_volume(
    requests: &Requests,
    found: &Found,
    record: &Record,
) -> Result<(), JournalError> {
    let there = match read_head(requests).await {
        Ok((head, _)) => Some(head.volume),
        Err(OpenError::NoVolume) => None,
        Err(OpenError::Store(error)) => return Err(JournalError::Store(error)),
        Err(error) => return Err(JournalError::Unfit(error.to_string())),
    };
    let content = front(&found.content(record).await?, record.len());
    let header = Header::len_in(&content).ok().and_then(|len| content.get(..len as usize));
    let of = header.and_then(|header| Header::decode(header).ok()).map(|header| header.volume);
    match of == there {
        true => Ok(()),
        false => Err(JournalError::Unfit(format!(
            "{}: it has packs of a volume that is no longer in {}; give another file, or none if those packs are not needed",
            found.name(),
            requests.store.name()
        ))),
    }
}

/// Brings what was found to the store, in order.
async fn send_all(requests: &Requests, found: &Found) -> Result<(), JournalError> {
    let records = found.records();
    if let Some(first) = records.first() {
        is_of_volume(requests, found, first).await?;
    }
    for (at, record) in records.iter().enumerate() {
        let content = found.content(record).await?;
        match requests.write(record.label(), content, Condition::Absent).await {
            Ok(_) => {}
            Err(Unwritten::Taken) => {
                let rest = &records[at..];
                let bytes = rest.iter().map(Record::len).sum();
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
        self.ring.progress.notify();
        StoreError::Refused(why)
    }

    /// Moves the start to the oldest record that is needed. Returns false if it is there.
    async fn move_start(&self) -> Result<bool, StoreError> {
        self.ring.move_start().await.map_err(|error| self.fail(error.to_string()))
    }

    /// A place for a pack.
    async fn reserve(&self, name: &str, blocks: &[Block]) -> Result<Reserved, StoreError> {
        loop {
            self.check()?;
            self.ring.progress.wait_until(|| !self.ring.is_turning()).await;
            if let Some(reserved) = self.ring.reserve(name, blocks) {
                return Ok(reserved);
            }
            if !self.move_start().await? {
                if let Some(why) = &self.state.borrow().silent {
                    let words = format!("{why}; the journal is full of what it has not taken");
                    return Err(StoreError::Unknown(words));
                }
                self.ring.progress.wait().await;
            }
        }
    }

    /// Makes a pack durable here.
    async fn append(self: &Rc<Self>, name: &str, blocks: Vec<Block>) -> Result<(), StoreError> {
        let reserved = self.reserve(name, &blocks).await?;
        let written = async {
            self.ring.write(&reserved, blocks).await?;
            self.ring.flush().await
        };
        written.await.map_err(|error: IoError| self.fail(error.to_string()))?;
        let Reserved { record, .. } = reserved;
        self.state.borrow_mut().waiting.insert(name.into(), Rc::clone(&record));
        self.ring.set_whole(&record);
        let serial = record.serial();
        self.send_on(record);
        // A record behind one that is not there would not be found.
        let is_durable = || self.ring.whole() > serial;
        self.ring.progress.wait_until(|| is_durable() || self.failed.borrow().is_some()).await;
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
                shared.ring.progress.notify();
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
            let content = match self.ring.content(record).await {
                Ok(Some(content)) => content,
                Ok(None) => {
                    return drop(self.fail(format!("{} has changed in it", record.label())));
                }
                Err(error) => return drop(self.fail(error.to_string())),
            };
            match self.requests.write(record.label(), content, Condition::Absent).await {
                Ok(_) => {
                    record.set_done();
                    let mut state = self.state.borrow_mut();
                    state.waiting.remove(record.label());
                    state.silent = None;
                }
                Err(Unwritten::Taken) => self.is_fenced.set(true),
                Err(Unwritten::Store(StoreError::Unknown(why))) => {
                    self.state.borrow_mut().silent = Some(why);
                }
                Err(Unwritten::Store(error)) => drop(self.fail(error.to_string())),
            }
            self.ring.progress.notify();
            if record.is_done() {
                return;
            }
        }
    }

    /// Waits until the store has all that was written so far.
    async fn all_uploaded(&self, waits: bool) -> Result<(), StoreError> {
        let to = self.ring.next_serial();
        let is_there = || self.state.borrow().waiting.values().all(|record| record.serial() >= to);
        let gives_up = || !waits || self.is_closing.get();
        let silent = || self.state.borrow().silent.clone().filter(|_| gives_up());
        let is_over = || is_there() || silent().is_some() || self.check().is_err();
        self.ring.progress.wait_until(is_over).await;
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
        let (at, len) = range.unwrap_or((0, record.len()));
        let read = self.ring.read(record, at, len).await;
        let blocks = read.map_err(|error| StoreError::Refused(format!("the journal: {error}")))?;
        Ok(Content { blocks, version: Version(String::new()) })
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
                    shared.ring.progress.notify();
                    read
                })
            }
            None => self.0.requests.store.get(name, range),
        }
    }

    fn put(&self, name: &str, blocks: Vec<Block>, when: Condition) -> Stored<Version> {
        let (shared, name) = (Rc::clone(&self.0), name.to_string());
        let fits = total(&blocks) <= shared.ring.most_bytes();
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
            shared.ring.progress.wait_until(|| !waits() || shared.check().is_err()).await;
            shared.requests.store.delete(&name).await
        })
    }

    fn list(&self, prefix: &str, after: Option<&str>) -> Stored<Vec<Listed>> {
        self.0.requests.store.list(prefix, after)
    }
}
