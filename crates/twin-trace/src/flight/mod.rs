//! The flight log: everything that enters the core of a run, so that the run can be repeated.
//!
//! A run is a function of its seed, its settings, the requests and device completions that came in,
//! and the times at which the driver let it continue (time stands still in between). A
//! [`FlightWriter`] logs these as they happen. A simulator that feeds them from a [`FlightReader`]
//! to the same code in the same order must reach the same event digest, which is in the log too.
//!
//! The order of records is the order of events. Everything that is delivered while the driver is
//! parked ([`FlightRecord::Arrive`], [`FlightRecord::Complete`], [`FlightRecord::Command`]) comes
//! before the [`FlightRecord::Park`] with the time at which the run continues; a completion with
//! `at_submit` comes after it, in the turn in which the request was submitted.
//!
//! Contents: writes are logged by their lengths unless contents are kept. Metadata that was read is
//! always logged in full, because the run depends on it. User data that was read is logged by its
//! length and checksum unless contents are kept.

mod codec;

use std::io::{Read, Write};

use twin_disk::{Block, Bytes, Class, IoError, IoResult, Stamp};
use twin_fs::Request;
use twin_rt::{EventDigest, Time};

use crate::error::TraceError;
use crate::frame::{Ending, Header, Traits};
use crate::framed::{Ended, Framed, Unframed};
use crate::kind::Kind;

/// One record of a flight log.
#[derive(Clone, Debug, PartialEq)]
pub enum FlightRecord {
    /// A request entered the core, with its own number and inode numbers.
    Arrive(Request),
    /// A device request was completed.
    Complete {
        /// The number of the request: device requests number from 1, in the order in which they are
        /// submitted.
        io: u64,
        /// The request was complete when it was submitted.
        at_submit: bool,
        /// The data of a read, nothing for other requests, or the error.
        result: Result<Vec<Piece>, IoError>,
    },
    /// Another input from outside, in the host's words ("unmount").
    Command(String),
    /// From the next park on, civil time is this many nanoseconds ahead of the run's time. At the
    /// start both are equal.
    Civil(i64),
    /// The driver let the run continue at this time.
    Park(Time),
    /// The run's event digest when all ready tasks had run and before the driver parked. The last
    /// one closes the run; earlier ones help to find the point at which a repetition diverges.
    Digest {
        /// The value of the digest, [`EventDigest::value`].
        value: u64,
        /// The number of events in it, [`EventDigest::events`].
        events: u64,
    },
}

/// A piece of the data that a read returned.
#[derive(Clone, Debug, PartialEq)]
pub enum Piece {
    /// Zeros, this many bytes.
    Zero(u32),
    /// The bytes themselves, which are kept in full.
    Bytes(Bytes),
    /// The stamp that stands for user data.
    Stamp(Stamp),
    /// This many bytes of user data that were not kept.
    Dropped {
        /// The number of bytes.
        len: u32,
        /// The checksum of the bytes, [`Block::crc32c`], by which a repetition is held against
        /// them.
        crc: u32,
    },
}

impl Piece {
    /// The piece that is logged for a block; with its bytes only if `keep` is set.
    fn of(block: &Block, keep: bool) -> Piece {
        match block {
            Block::Zero(len) => Piece::Zero(*len),
            Block::Stamp(stamp) => Piece::Stamp(*stamp),
            Block::Bytes(bytes) if keep => Piece::Bytes(bytes.clone()),
            Block::Bytes(bytes) => Piece::Dropped { len: bytes.len() as u32, crc: block.crc32c() },
        }
    }

    /// The block, unless it was not kept.
    pub fn block(&self) -> Option<Block> {
        match self {
            Piece::Zero(len) => Some(Block::Zero(*len)),
            Piece::Bytes(bytes) => Some(Block::Bytes(bytes.clone())),
            Piece::Stamp(stamp) => Some(Block::Stamp(*stamp)),
            Piece::Dropped { .. } => None,
        }
    }

    /// Whether a block equals what was read then: the same data, or the same length and checksum. A
    /// stamp in place of dropped bytes only needs the right length.
    pub fn matches(&self, block: &Block) -> bool {
        match (self, block) {
            (Piece::Dropped { len, .. }, Block::Stamp(stamp)) => *len == stamp.len,
            (Piece::Dropped { len, crc }, _) => {
                *len as usize == block.len() && *crc == block.crc32c()
            }
            (kept, _) => kept.block().is_some_and(|kept| {
                kept == *block || (kept.len() == block.len() && kept.to_bytes() == block.to_bytes())
            }),
        }
    }
}

/// Writes a flight log. Call [`finish`](Self::finish) at the end, after the last digest.
pub struct FlightWriter<W: Write> {
    framed: Framed<W>,
    start: Time,
    /// The time of the last park.
    now: Time,
    /// How far civil time is ahead of it.
    ahead_ns: i64,
    contents: bool,
}

impl<W: Write> FlightWriter<W> {
    /// Starts the log of a run that begins at `start` with this seed and these settings. The
    /// settings are all that the simulator needs to build the same components.
    pub fn new(
        out: W,
        start: Time,
        seed: u64,
        settings: &str,
        contents: bool,
    ) -> Result<FlightWriter<W>, TraceError> {
        let traits = Traits { contents, timed: true, ..Traits::default() };
        let text = settings.to_owned();
        let header = Header { kind: Kind::Flight, start, seed, traits, text };
        let framed = Framed::new(out, &header, Kind::Flight)?;
        Ok(FlightWriter { framed, start, now: start, ahead_ns: 0, contents })
    }

    /// A request enters the core.
    pub fn arrive(&mut self, request: &Request) -> Result<(), TraceError> {
        self.framed.add(None, |encoder| encoder.arrival(request))
    }

    /// Device request number `io`, of this class, is completed.
    pub fn complete(
        &mut self,
        io: u64,
        class: Class,
        at_submit: bool,
        result: &IoResult,
    ) -> Result<(), TraceError> {
        let keep = self.contents || class == Class::Meta;
        self.framed.add(None, |encoder| codec::put_completion(encoder, io, at_submit, keep, result))
    }

    /// Another input comes from outside.
    pub fn command(&mut self, text: &str) -> Result<(), TraceError> {
        self.framed.add(None, |encoder| codec::put_command(encoder, text))
    }

    /// From the next park on civil time is `ahead_ns` nanoseconds ahead of the run's. Adds a record
    /// only if that has changed.
    pub fn civil(&mut self, ahead_ns: i64) -> Result<(), TraceError> {
        if std::mem::replace(&mut self.ahead_ns, ahead_ns) == ahead_ns {
            return Ok(());
        }
        self.framed.add(None, |encoder| {
            codec::put_civil(encoder, ahead_ns);
            Ok(())
        })
    }

    /// The driver lets the run continue at this time.
    pub fn park(&mut self, now: Time) -> Result<(), TraceError> {
        self.now = self.now.max(now);
        let at_ns = self.now.since(self.start);
        self.framed.add(Some(at_ns), |encoder| {
            codec::put_park(encoder, at_ns);
            Ok(())
        })
    }

    /// Logs the run's digest. To be called where a repetition can compare it: when no task is
    /// ready, that is at the beginning of a park, or after
    /// [`Rt::run_ready`](twin_rt::Rt::run_ready).
    pub fn digest(&mut self, digest: EventDigest) -> Result<(), TraceError> {
        self.framed.add(None, |encoder| {
            codec::put_digest(encoder, digest.value(), digest.events());
            Ok(())
        })
    }

    /// Writes all records out, so that a crash cannot lose them.
    pub fn flush(&mut self) -> Result<(), TraceError> {
        self.framed.flush()
    }

    /// Records added so far.
    pub fn records(&self) -> u64 {
        self.framed.total()
    }

    /// Bytes written so far, without the frame that is being filled.
    pub fn written_bytes(&self) -> u64 {
        self.framed.written()
    }

    /// Closes the log and returns the output.
    pub fn finish(self) -> Result<W, TraceError> {
        self.framed.finish()
    }

    /// The state of the output after writing has failed.
    pub fn broken(self, why: &TraceError) -> Ended<W> {
        self.framed.broken(why)
    }
}

/// Reads a flight log.
pub struct FlightReader<R>(Unframed<R>);

impl<R: Read> FlightReader<R> {
    /// Opens a log: reads its header, and refuses a trace of operations.
    pub fn new(input: R) -> Result<FlightReader<R>, TraceError> {
        Ok(FlightReader(Unframed::new(input, Kind::Flight)?))
    }

    /// When the run began, its seed, its settings (as `text`), and whether contents were kept.
    pub fn header(&self) -> &Header {
        self.0.header()
    }

    /// The next record; `None` at the end.
    pub fn next_record(&mut self) -> Result<Option<FlightRecord>, TraceError> {
        let start = self.0.header().start;
        self.0.next(false, |decoder, code, flags| codec::get(decoder, start, code, flags))
    }

    /// How the log ended, once it has.
    pub fn ending(&self) -> Option<Ending> {
        self.0.ending()
    }
}
