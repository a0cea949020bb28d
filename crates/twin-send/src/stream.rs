//! The stream: records in frames, each with checksums.
//!
//! Contract: a stream begins with [`MAGIC`], the version and a checksum of both. A frame is the record's kind in four
//! bytes, the payload's length in four, a checksum, the payload, a checksum. Every checksum is the CRC-32C of all bytes
//! of the stream before it that are no checksum, so that a frame that is missing, doubled or in another place is found
//! like one that is damaged. The head of a frame has a checksum of its own, so that a damaged length is never
//! believed. The reader keeps one frame at the most, and gives a record only when all of it was found right.

use std::fmt;

use crate::order::Order;
use crate::record::{Record, Totals};

/// The first bytes of a stream.
pub const MAGIC: [u8; 8] = *b"twinsend";
/// The version of the format.
pub const VERSION: u32 = 1;
/// The most bytes of a payload.
pub const PAYLOAD_MAX: usize = 1 << 20;

/// Magic, version, checksum.
const PREAMBLE: usize = 16;
/// Kind, length, checksum.
const FRAME_HEAD: usize = 12;

/// Why a stream cannot be read, or a record cannot be written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamError {
    /// The byte of the stream where it was seen.
    pub at: u64,
    /// What is wrong.
    pub what: String,
}

impl fmt::Display for StreamError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "byte {} of the stream: {}", self.at, self.what)
    }
}

impl std::error::Error for StreamError {}

/// Makes a stream of records.
#[derive(Debug, Default)]
pub struct Writer {
    written: u64,
    crc: u32,
    order: Order,
}

impl Writer {
    /// A writer at the beginning of a stream.
    pub fn new() -> Writer {
        Writer::default()
    }

    /// The bytes of the next record, with those of the stream's beginning before the first one.
    ///
    /// # Errors
    /// If a reader would refuse the record.
    pub fn write(&mut self, record: &Record) -> Result<Vec<u8>, StreamError> {
        let mut out = Vec::new();
        if self.written == 0 {
            self.put(&mut out, &[&MAGIC[..], &VERSION.to_le_bytes()].concat());
        }
        let refused = |what| StreamError { at: self.written + out.len() as u64, what };
        let payload = record.encode();
        if payload.len() > PAYLOAD_MAX {
            let path = record.path().unwrap_or_default().escape_ascii();
            return Err(refused(format!("{path}: a record would have {} bytes", payload.len())));
        }
        let checked = self.order.next(record);
        checked.map_err(refused)?;
        let head = [u32::from(record.kind()), payload.len() as u32].map(u32::to_le_bytes);
        self.put(&mut out, &head.concat());
        self.put(&mut out, &payload);
        self.written += out.len() as u64;
        Ok(out)
    }

    /// The bytes of the last record.
    ///
    /// # Errors
    /// If there is no header yet.
    pub fn end(&mut self) -> Result<Vec<u8>, StreamError> {
        self.write(&Record::End(self.order.totals()))
    }

    /// What was written.
    pub fn totals(&self) -> Totals {
        self.order.totals()
    }

    /// Bytes, and the checksum of the stream up to there.
    fn put(&mut self, out: &mut Vec<u8>, bytes: &[u8]) {
        self.crc = crc32c::crc32c_append(self.crc, bytes);
        out.extend_from_slice(bytes);
        out.extend_from_slice(&self.crc.to_le_bytes());
    }
}

/// Takes a stream in pieces and gives its records.
#[derive(Debug, Default)]
pub struct Reader {
    /// Bytes that have not been used, and where in the stream they begin.
    held: Vec<u8>,
    used: usize,
    at: u64,
    crc: u32,
    begun: bool,
    /// Kind and length of the frame whose head has been read.
    head: Option<(u8, usize)>,
    order: Order,
    failed: Option<StreamError>,
}

impl Reader {
    /// A reader at the beginning of a stream.
    pub fn new() -> Reader {
        Reader::default()
    }

    /// Takes the next bytes. Whoever takes all records between two calls has a frame and a piece in memory at the most.
    pub fn push(&mut self, bytes: &[u8]) {
        self.held.drain(..self.used);
        self.used = 0;
        self.held.extend_from_slice(bytes);
    }

    /// The next record; `None` if more bytes are needed.
    ///
    /// # Errors
    /// If the stream is damaged, is none, or has a record where it cannot be; the same from then on.
    pub fn next_record(&mut self) -> Result<Option<Record>, StreamError> {
        if let Some(error) = &self.failed {
            return Err(error.clone());
        }
        self.step().inspect_err(|error| self.failed = Some(error.clone()))
    }

    /// Called when there are no more bytes.
    ///
    /// # Errors
    /// If the end of the stream is missing.
    pub fn finish(&self) -> Result<(), StreamError> {
        if let Some(error) = &self.failed {
            return Err(error.clone());
        }
        let left = self.held.len() - self.used;
        match self.order.has_ended() && left == 0 {
            true => Ok(()),
            false => Err(StreamError {
                at: self.at + left as u64,
                what: "it is cut off: there is no record of its end".into(),
            }),
        }
    }

    fn step(&mut self) -> Result<Option<Record>, StreamError> {
        if !self.begun && !self.begin()? {
            return Ok(None);
        }
        let (kind, len) = match self.head {
            Some(head) => head,
            None => match self.take(FRAME_HEAD)? {
                Some(bytes) => self.read_head(&bytes)?,
                None => return Ok(None),
            },
        };
        let place = self.at;
        let Some(payload) = self.take(len + 4)? else { return Ok(None) };
        self.head = None;
        let record = Record::decode(kind, &payload[..len])
            .and_then(|record| self.order.next(&record).map(|()| record));
        record.map(Some).map_err(|what| StreamError { at: place, what })
    }

    /// Reads the beginning; false if it has not come yet.
    fn begin(&mut self) -> Result<bool, StreamError> {
        let refused = |at, what: &str| Err(StreamError { at, what: what.into() });
        let held = &self.held[self.used..];
        let begins = held.len().min(MAGIC.len());
        if held[..begins] != MAGIC[..begins] {
            return refused(0, "this is no stream of `twinfs send`");
        }
        let Some(bytes) = self.take(PREAMBLE)? else { return Ok(false) };
        let version = u32_at(&bytes, 8);
        if version != VERSION {
            let what =
                format!("it has version {version} of the format; this program reads {VERSION}");
            return refused(8, &what);
        }
        self.begun = true;
        Ok(true)
    }

    fn read_head(&mut self, bytes: &[u8]) -> Result<(u8, usize), StreamError> {
        let at = self.at - bytes.len() as u64;
        if self.order.has_ended() {
            return Err(StreamError { at, what: "something follows its end".into() });
        }
        let (kind, len) = (u32_at(bytes, 0), u32_at(bytes, 4) as usize);
        let Ok(kind) = u8::try_from(kind) else {
            return Err(StreamError { at, what: format!("there is no record of kind {kind}") });
        };
        if len > PAYLOAD_MAX {
            return Err(StreamError { at, what: format!("a record of {len} bytes is too long") });
        }
        self.head = Some((kind, len));
        Ok((kind, len))
    }

    /// The next bytes, whose last four are the checksum of the stream until there.
    fn take(&mut self, len: usize) -> Result<Option<Vec<u8>>, StreamError> {
        let Some(bytes) = self.held.get(self.used..self.used + len) else { return Ok(None) };
        let crc = crc32c::crc32c_append(self.crc, &bytes[..len - 4]);
        if crc != u32_at(bytes, len - 4) {
            let what = match self.order.has_ended() {
                true => "something follows its end",
                false => "it is damaged here: its checksum does not match",
            };
            return Err(StreamError { at: self.at, what: what.into() });
        }
        let bytes = bytes.to_vec();
        self.crc = crc;
        self.used += len;
        self.at += len as u64;
        Ok(Some(bytes))
    }
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..).and_then(<[u8]>::first_chunk).map_or(0, |word| u32::from_le_bytes(*word))
}

#[cfg(test)]
#[path = "stream_tests.rs"]
mod tests;
