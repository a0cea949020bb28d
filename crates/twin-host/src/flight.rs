//! The flight recorder: writes down everything that enters the core of a mounted run.
//!
//! It hears of events from the host ([`FlightLog`]) and of device requests from the wrapper that
//! keeps the digest ([`DeviceLog`]), which tells what kind of bytes each request reads. When the
//! log cannot be written any more, recording stops, the error is kept, and the run goes on.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::io::Write;

use twin_disk::{Class, DeviceLog, Io, IoResult};
use twin_fs::Request;
use twin_rt::{EventDigest, Time};
use twin_trace::{FlightWriter, TraceError};

use crate::FlightLog;

/// Records a run to `W`. The run has one device.
pub struct FlightRecorder<W: Write> {
    /// What is needed to begin, until the run starts.
    begin: RefCell<Option<Begin<W>>>,
    writer: RefCell<Option<FlightWriter<W>>>,
    error: RefCell<Option<TraceError>>,
    /// The time at which the round under way went on: written when all of its events are.
    round: Cell<Option<Time>>,
    submitted: Cell<u64>,
    classes: RefCell<BTreeMap<u64, Class>>,
}

struct Begin<W> {
    out: W,
    seed: u64,
    settings: String,
}

impl<W: Write> FlightRecorder<W> {
    /// A recorder for a run with this seed and these settings, which must suffice to put the same
    /// parts together again.
    pub fn new(out: W, seed: u64, settings: String) -> FlightRecorder<W> {
        FlightRecorder {
            begin: RefCell::new(Some(Begin { out, seed, settings })),
            writer: RefCell::default(),
            error: RefCell::default(),
            round: Cell::new(None),
            submitted: Cell::new(0),
            classes: RefCell::default(),
        }
    }

    fn write(&self, f: impl FnOnce(&mut FlightWriter<W>) -> Result<(), TraceError>) {
        let result = self.writer.borrow_mut().as_mut().map(f);
        if let Some(Err(error)) = result {
            self.writer.take();
            *self.error.borrow_mut() = Some(error);
        }
    }

    /// Something else comes from outside: the caller's word for it.
    pub fn command(&self, text: &str) {
        self.write(|writer| writer.command(text));
    }

    /// Writes out what is there.
    pub fn flush(&self) {
        self.write(FlightWriter::flush);
    }

    /// Closes the log with the run's digest.
    ///
    /// # Errors
    /// The first error since the run began, or that of closing.
    pub fn finish(&self, digest: EventDigest) -> Result<u64, TraceError> {
        if let Some(now) = self.round.take() {
            self.write(|writer| writer.park(now));
        }
        self.write(|writer| writer.digest(digest));
        if let Some(error) = self.error.take() {
            return Err(error);
        }
        let Some(writer) = self.writer.take() else { return Ok(0) };
        let records = writer.records();
        writer.finish().map(|_| records)
    }
}

impl<W: Write> FlightLog for FlightRecorder<W> {
    fn started(&self, now: Time) {
        let Some(Begin { out, seed, settings }) = self.begin.take() else { return };
        match FlightWriter::new(out, now, seed, &settings, false) {
            Ok(writer) => *self.writer.borrow_mut() = Some(writer),
            Err(error) => *self.error.borrow_mut() = Some(error),
        }
    }

    fn parked(&self, now: Time) {
        if let Some(before) = self.round.replace(Some(now)) {
            self.write(|writer| writer.park(before));
        }
    }

    fn arrived(&self, request: &Request) {
        self.write(|writer| writer.arrive(request));
    }

    fn completed(&self, _device: u32, id: u64, result: &IoResult) {
        let class = match self.classes.borrow_mut().remove(&id) {
            // A read of both kinds steers the run as metadata does.
            Some(Class::Data) => Class::Data,
            _ => Class::Meta,
        };
        self.write(|writer| writer.complete(id, class, false, result));
    }
}

impl<W: Write> DeviceLog for FlightRecorder<W> {
    fn submitted(&self, io: &Io) {
        let id = self.submitted.get() + 1;
        self.submitted.set(id);
        self.classes.borrow_mut().insert(id, io.class);
    }
}
