//! The flight recorder: records everything that enters the core of a mounted run.
//!
//! The host reports events to it ([`FlightLog`]), and the wrapper that computes the digest reports
//! device requests ([`DeviceLog`]) with the class of the bytes that each one reads. If the log can
//! no longer be written, recording ends, the recording's owner is called, the error is kept, and
//! the run continues.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::io::Write;

use twin_disk::{Class, DeviceLog, Io, IoResult};
use twin_fs::Request;
use twin_rt::{EventDigest, Time};
use twin_trace::{Ended, FlightWriter, TraceError};

use crate::FlightLog;

/// Records a run to `W`. The run has one device.
pub struct FlightRecorder<W: Write> {
    /// The values needed to begin the log; `None` after the run has started.
    begin: RefCell<Option<Begin<W>>>,
    writer: RefCell<Option<FlightWriter<W>>>,
    error: RefCell<Option<TraceError>>,
    on_end: RefCell<Option<OnEnd<W>>>,
    /// The time of the current round, and its civil time. They are written after all events of the round.
    round: Cell<Option<(Time, Time)>>,
    submitted: Cell<u64>,
    classes: RefCell<BTreeMap<u64, Class>>,
}

/// Called when a recording has ended early because of an error.
type OnEnd<W> = Box<dyn FnOnce(Ended<W>)>;

struct Begin<W> {
    out: W,
    seed: u64,
    settings: String,
}

impl<W: Write> FlightRecorder<W> {
    /// A recorder for a run with this seed and these settings. The settings must suffice to build
    /// the same components again.
    pub fn new(out: W, seed: u64, settings: String) -> FlightRecorder<W> {
        FlightRecorder {
            begin: RefCell::new(Some(Begin { out, seed, settings })),
            writer: RefCell::default(),
            error: RefCell::default(),
            on_end: RefCell::default(),
            round: Cell::new(None),
            submitted: Cell::new(0),
            classes: RefCell::default(),
        }
    }

    fn write(&self, f: impl FnOnce(&mut FlightWriter<W>) -> Result<(), TraceError>) {
        let result = self.writer.borrow_mut().as_mut().map(f);
        let Some(Err(error)) = result else { return };
        // Nothing is borrowed while that is heard.
        let ended = self.writer.take().map(|writer| writer.broken(&error));
        *self.error.borrow_mut() = Some(error);
        if let (Some(ended), Some(tell)) = (ended, self.on_end.take()) {
            tell(ended);
        }
    }

    fn park(&self, now: Time, civil: Time) {
        let ahead_ns = civil.0.wrapping_sub(now.0) as i64;
        self.write(|writer| writer.civil(ahead_ns).and_then(|()| writer.park(now)));
    }

    /// Calls `tell`, once, as soon as the log cannot be written any more.
    pub fn on_end(&self, tell: impl FnOnce(Ended<W>) + 'static) {
        *self.on_end.borrow_mut() = Some(Box::new(tell));
    }

    /// True if recording has ended because the log could not be written.
    pub fn has_failed(&self) -> bool {
        self.error.borrow().is_some()
    }

    /// Records another event from outside, described by the caller in `text`.
    pub fn command(&self, text: &str) {
        self.write(|writer| writer.command(text));
    }

    /// Writes buffered records out.
    pub fn flush(&self) {
        self.write(FlightWriter::flush);
    }

    /// Closes the log with the run's digest.
    ///
    /// # Errors
    /// The first error since the run began, or that of closing.
    pub fn finish(&self, digest: EventDigest) -> Result<u64, TraceError> {
        if let Some((now, civil)) = self.round.take() {
            self.park(now, civil);
        }
        self.write(|writer| writer.digest(digest));
        // A full disk shows here, before the log is closed, so that the end of the log is sound.
        self.flush();
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

    fn parked(&self, now: Time, civil: Time) {
        if let Some((now, civil)) = self.round.replace(Some((now, civil))) {
            self.park(now, civil);
        }
    }

    fn arrived(&self, request: &Request) {
        self.write(|writer| writer.arrive(request));
    }

    fn completed(&self, _device: u32, id: u64, result: &IoResult) {
        let class = match self.classes.borrow_mut().remove(&id) {
            // Mixed bytes are recorded with their content, since the metadata in them steers the
            // run.
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
