//! A ring of records on a device: what is appended is found again after a power failure.
//!
//! Contract: records are found in the order of their serial numbers, up to the first one that is not whole, so a record counts
//! only once all before it are whole ([`Ring::whole`]). A record stays until it is [done](Record::set_done) and all before it
//! are; its place is used again only after the start behind it is durable ([`Ring::move_start`]).
//!
//! On the device: two copies of a start (whose ring it is, and the oldest record that may be needed), written in turn, and
//! records, each a header of a unit and its content. A record is known by its serial number, which never comes again, and
//! by checksums of both parts.
//!
//! Who calls what when:
//!
//! 1. [`Found::read`] looks at a device; its records are used up, and [`Found::begin`] begins the ring anew. Records that a
//!    power failure left behind a gap have serial numbers that the new ring skips.
//! 2. [`Ring::reserve`] gives a record its place, [`Ring::write`] writes it, [`Ring::set_whole`] says that it counts. Without
//!    room, [`Ring::move_start`] may give some.
//! 3. Whoever has brought a record to where it belongs sets it done.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeSet, VecDeque};
use std::fmt;
use std::rc::Rc;

use twin_rt::{Event, RwLock};

use crate::fields::{Reader, Writer};
use crate::local::{LocalDevice, UNIT};
use crate::{Block, BlockDevice, Buf, IoError, checksum, total};

const START_MAGIC: &[u8; 8] = b"twbjrnl1";
const RECORD_MAGIC: &[u8; 8] = b"twbjrec1";
/// The first byte of the ring.
const RING: u64 = 2 * UNIT;
/// Most bytes of a record's content.
pub const MOST_BYTES: u64 = 1 << 29;

/// Why a device holds no ring that can be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RingError {
    /// It is too small, or has something else.
    Unfit(String),
    /// It failed.
    Device(String),
}

impl fmt::Display for RingError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RingError::Unfit(why) => f.write_str(why),
            RingError::Device(why) => write!(f, "the journal: {why}"),
        }
    }
}

impl std::error::Error for RingError {}

impl From<IoError> for RingError {
    fn from(error: IoError) -> RingError {
        RingError::Device(error.to_string())
    }
}

/// The oldest record that may be needed: its serial number, and where it is or will be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Start {
    generation: u64,
    serial: u64,
    at: u64,
}

impl Start {
    fn encode(&self, owner: &str) -> Vec<u8> {
        let mut out = Writer::new(START_MAGIC);
        out.u64(self.generation);
        out.u64(self.serial);
        out.u64(self.at);
        out.text(owner);
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

fn block(bytes: Vec<u8>) -> Block {
    Block::Bytes(Buf::taking(bytes).freeze())
}

/// A record. While somebody besides the ring holds it, its place is not used again.
#[derive(Debug)]
pub struct Record {
    serial: u64,
    /// Where its header is. The content follows after a unit.
    at: u64,
    len: u64,
    crc: u32,
    label: String,
    is_done: Cell<bool>,
}

impl Record {
    /// Its serial number.
    pub fn serial(&self) -> u64 {
        self.serial
    }

    /// Bytes of its content.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// True if it has no content.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// What it is, in its owner's words.
    pub fn label(&self) -> &str {
        &self.label
    }

    /// Its content is durable where it belongs, or nobody needs it any more.
    pub fn set_done(&self) {
        self.is_done.set(true);
    }

    /// Whether it is done.
    pub fn is_done(&self) -> bool {
        self.is_done.get()
    }

    fn end(&self) -> u64 {
        self.at + space(self.len)
    }

    fn encode(&self, done: u64) -> Vec<u8> {
        let mut out = Writer::new(RECORD_MAGIC);
        out.u64(self.serial);
        out.u64(done);
        out.u64(self.len);
        out.u32(self.crc);
        out.text(&self.label);
        framed(out)
    }

    /// The record at `at`, and the serial number before which all were done when it was written.
    fn decode(at: u64, bytes: &[u8]) -> Option<(Record, u64)> {
        let mut fields = Reader::new(RECORD_MAGIC, unframed(bytes)?).ok()?;
        let (serial, done, len) = (fields.u64().ok()?, fields.u64().ok()?, fields.u64().ok()?);
        let (crc, label) = (fields.u32().ok()?, fields.text().ok()?);
        if len > MOST_BYTES {
            return None;
        }
        let is_done = Cell::new(false);
        Some((Record { serial, at, len, crc, label, is_done }, done))
    }
}

/// Bytes of the ring that a record with `len` bytes of content takes.
fn space(len: u64) -> u64 {
    UNIT + len.next_multiple_of(UNIT)
}

/// What a device holds.
pub struct Found {
    device: LocalDevice,
    start: Start,
    owner: Option<String>,
    records: Vec<Record>,
    /// The serial number after the last record.
    serial: u64,
}

impl Found {
    /// Looks at a device.
    ///
    /// # Errors
    /// If it is too small, is neither empty nor a ring, or fails.
    pub async fn read(device: Rc<dyn BlockDevice>) -> Result<Found, RingError> {
        let device = LocalDevice::new(device).map_err(RingError::Unfit)?;
        if device.size() < RING + 2 * UNIT {
            return Err(RingError::Unfit(format!("{}: too small for a journal", device.name())));
        }
        let (start, owner) = read_start(&device).await?;
        let (records, serial) = read_records(&device, start).await?;
        Ok(Found { device, start, owner, records, serial })
    }

    /// Whose ring it is; `None` if the device is empty.
    pub fn owner(&self) -> Option<&str> {
        self.owner.as_deref()
    }

    /// The name of the device.
    pub fn name(&self) -> String {
        self.device.name()
    }

    /// The records that may not be done, in the order of their serial numbers.
    pub fn records(&self) -> &[Record] {
        &self.records
    }

    /// The content of one of them.
    ///
    /// # Errors
    /// If the device fails.
    pub async fn content(&self, record: &Record) -> Result<Vec<Block>, IoError> {
        self.device.read_blocks(record.at + UNIT, record.len).await
    }

    /// Begins the ring anew, once its records are used up.
    ///
    /// # Errors
    /// If the device fails.
    pub async fn begin(self, owner: &str) -> Result<Ring, IoError> {
        // What a power failure cut off may have left records after a gap, whose numbers must not come again.
        let serial = self.serial + self.device.size() / UNIT;
        let start = Start { generation: self.start.generation + 1, serial, at: RING };
        let state = State {
            start,
            at: RING,
            serial,
            records: VecDeque::new(),
            whole: serial,
            whole_early: BTreeSet::new(),
            is_turning: false,
        };
        let ring = Ring {
            device: self.device,
            owner: RefCell::new(owner.into()),
            state: RefCell::new(state),
            progress: Event::new(),
            starting: RwLock::new(),
        };
        ring.write_start(start).await?;
        Ok(ring)
    }
}

async fn read_start(device: &LocalDevice) -> Result<(Start, Option<String>), RingError> {
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
        Some((start, owner)) => Ok((start, Some(owner))),
        None if is_zero => Ok((Start { generation: 0, serial: 1, at: RING }, None)),
        None => Err(RingError::Unfit(format!(
            "{}: it is neither empty nor a journal; give another file",
            device.name()
        ))),
    }
}

/// The records from a start on that may not be done, and the serial number after the last.
async fn read_records(device: &LocalDevice, start: Start) -> Result<(Vec<Record>, u64), RingError> {
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
    records.retain(|record: &Record| record.serial >= done);
    Ok((records, serial))
}

/// The record at a place, if it is whole and has this serial number.
async fn read_record(
    device: &LocalDevice,
    at: u64,
    serial: u64,
) -> Result<Option<(Record, u64)>, RingError> {
    if at + UNIT > device.size() {
        return Ok(None);
    }
    let header = device.read(at, UNIT).await?.to_bytes();
    let Some((record, done)) = Record::decode(at, &header) else { return Ok(None) };
    let fits = record.len <= device.size() && record.end() <= device.size();
    if record.serial != serial || !fits {
        return Ok(None);
    }
    let content = device.read_blocks(at + UNIT, record.len).await?;
    Ok((checksum(&content) == record.crc).then_some((record, done)))
}

struct State {
    /// As it is on the device.
    start: Start,
    /// The place and the serial number of the next record.
    at: u64,
    serial: u64,
    /// Records in the ring from the start on, by their serial numbers.
    records: VecDeque<Rc<Record>>,
    /// All records before this one are whole.
    whole: u64,
    /// Those after it that are, too.
    whole_early: BTreeSet<u64>,
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

    /// Forgets records at the beginning of the ring that are done and that nobody reads, and returns the first
    /// that is left. The start may be moved to it.
    fn trim(&mut self) -> Option<(u64, u64)> {
        while let Some(first) = self.records.front() {
            if !first.is_done() || Rc::strong_count(first) > 1 {
                return Some((first.serial, first.at));
            }
            self.records.pop_front();
        }
        None
    }
}

/// A ring that records are appended to. See the module.
pub struct Ring {
    device: LocalDevice,
    owner: RefCell<String>,
    state: RefCell<State>,
    /// Notified when a record is whole, and when the start has moved; by the owner for whatever else its tasks wait for.
    pub progress: Event,
    /// Held while the start is written.
    starting: RwLock,
}

/// A record that has a place and is not written yet.
pub struct Reserved {
    /// The record.
    pub record: Rc<Record>,
    done: u64,
}

impl Ring {
    /// The most content that one record can have.
    pub fn most_bytes(&self) -> u64 {
        MOST_BYTES.min(self.device.size() - RING - UNIT)
    }

    /// Bytes of all records' places.
    pub fn size(&self) -> u64 {
        self.device.size() - RING
    }

    /// Bytes from the oldest record's place to the next one's.
    pub fn used(&self) -> u64 {
        let state = self.state.borrow();
        match state.serial == state.start.serial {
            true => 0,
            false if state.at > state.start.at => state.at - state.start.at,
            false => self.size() - (state.start.at - state.at),
        }
    }

    /// The serial number that the next record gets.
    pub fn next_serial(&self) -> u64 {
        self.state.borrow().serial
    }

    /// The serial number before which all records are whole.
    pub fn whole(&self) -> u64 {
        self.state.borrow().whole
    }

    /// True while the start is on its way back to the beginning, so that nothing gets a place.
    pub fn is_turning(&self) -> bool {
        self.state.borrow().is_turning
    }

    /// The oldest records that are not done, in order, as long as `wanted` says so of the next one.
    pub fn oldest(&self, mut wanted: impl FnMut(&Record) -> bool) -> Vec<Rc<Record>> {
        let state = self.state.borrow();
        let open = state.records.iter().filter(|record| !record.is_done());
        open.take_while(|record| wanted(record)).cloned().collect()
    }

    /// A place for a record; `None` if there is no room.
    pub fn reserve(&self, label: &str, blocks: &[Block]) -> Option<Reserved> {
        let len = total(blocks);
        let state = &mut *self.state.borrow_mut();
        let at = state.place(space(len), self.device.size())?;
        let (serial, label) = (state.serial, label.to_string());
        let (crc, is_done) = (checksum(blocks), Cell::new(false));
        let record = Rc::new(Record { serial, at, len, crc, label, is_done });
        (state.at, state.serial) = (record.end(), serial + 1);
        let done = state.trim().map_or(serial, |(oldest, _)| oldest);
        state.records.push_back(Rc::clone(&record));
        Some(Reserved { record, done })
    }

    /// Writes a record to its place. It is durable after a flush.
    ///
    /// # Errors
    /// If the device fails: nothing behind this record will be found, so the ring is at its end.
    pub async fn write(&self, reserved: &Reserved, blocks: Vec<Block>) -> Result<(), IoError> {
        let mut header = reserved.record.encode(reserved.done);
        header.resize(UNIT as usize, 0);
        let mut all = vec![block(header)];
        all.extend(blocks);
        self.device.write(reserved.record.at, all).await
    }

    /// A record is as whole as its owner wants it to be: written, or durable.
    pub fn set_whole(&self, record: &Record) {
        let state = &mut *self.state.borrow_mut();
        state.whole_early.insert(record.serial);
        while state.whole_early.first() == Some(&state.whole) {
            state.whole_early.pop_first();
            state.whole += 1;
        }
        self.progress.notify();
    }

    /// Makes what was written durable.
    ///
    /// # Errors
    /// If the device fails.
    pub async fn flush(&self) -> Result<(), IoError> {
        self.device.flush().await
    }

    /// Bytes of a record's content from `at` on, as the device has them.
    ///
    /// # Errors
    /// If the device fails.
    pub async fn read(&self, record: &Record, at: u64, len: u64) -> Result<Vec<Block>, IoError> {
        let at = at.min(record.len);
        self.device.read_blocks(record.at + UNIT + at, len.min(record.len - at)).await
    }

    /// The whole content of a record, if it is still what was written.
    ///
    /// # Errors
    /// If the device fails.
    pub async fn content(&self, record: &Record) -> Result<Option<Vec<Block>>, IoError> {
        let content = self.read(record, 0, record.len).await?;
        Ok((checksum(&content) == record.crc).then_some(content))
    }

    async fn write_start(&self, start: Start) -> Result<(), IoError> {
        // Everything that the old start was needed for is done, or behind the new one.
        let copy = start.generation % 2 * UNIT;
        let bytes = start.encode(&self.owner.borrow());
        self.device.write(copy, vec![block(bytes)]).await?;
        self.device.flush().await?;
        self.state.borrow_mut().start = start;
        Ok(())
    }

    /// From now on the ring is nobody's. Its records must be done.
    ///
    /// # Errors
    /// If the device fails.
    pub async fn disown(&self) -> Result<(), IoError> {
        self.owner.borrow_mut().clear();
        let now = self.state.borrow().start;
        self.write_start(Start { generation: now.generation + 1, ..now }).await
    }

    /// Moves the start to the oldest record that is needed. Returns false if it is there.
    ///
    /// # Errors
    /// If the device fails.
    pub async fn move_start(&self) -> Result<bool, IoError> {
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
            return Ok(false);
        }
        let start = Start { generation: now.generation + 1, serial, at };
        let written = self.write_start(start).await;
        self.state.borrow_mut().is_turning = false;
        self.progress.notify();
        written.map(|()| true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_no_ring_says_is_not_believed() {
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
            let label = "data/1-1".to_string();
            let record =
                Record { serial: 7, at: RING, len, crc: 0, label, is_done: Cell::new(false) };
            Record::decode(RING, &record.encode(5)).map(|(record, done)| (record.len, done))
        };
        assert_eq!(record(100), Some((100, 5)));
        assert_eq!((record(u64::MAX), record(MOST_BYTES + 1)), (None, None));
        assert_eq!(unframed(&[255; 8]), None);
    }
}
