//! Progress of log writes: which have reached the device, and which are durable.
//!
//! Contract: log writes have rising numbers. Recovery uses one only if it uses all before it, so a
//! log write is durable once a flush has ended that began after it and all before it had reached
//! the device.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use twin_cache::Frame;
use twin_disk::Io;
use twin_rt::Event;

/// Which log writes are on the device, and which are durable.
#[derive(Default)]
pub(crate) struct Progress {
    /// Log writes whose requests are not complete.
    under_way: RefCell<BTreeSet<u64>>,
    /// The last log write that was built.
    last: Cell<u64>,
    /// Every log write up to this one is durable.
    durable: Cell<u64>,
    flushing: Cell<bool>,
    /// Frames of log writes that failed.
    lost: RefCell<Vec<Rc<Frame>>>,
    /// The requests of log writes that are not durable, where memory survives a power failure.
    kept: RefCell<BTreeMap<u64, Vec<Io>>>,
    changed: Rc<Event>,
}

impl Progress {
    /// Marks every log write up to `number`, those before the volume was opened, as durable.
    pub(crate) fn begin_after(&self, number: u64) {
        self.last.set(number);
        self.durable.set(number);
    }

    /// Notes a log write that is about to be sent.
    pub(crate) fn begin(&self, number: u64) {
        self.last.set(number);
        self.under_way.borrow_mut().insert(number);
    }

    /// Notes that the requests of a log write are complete.
    pub(crate) fn end(&self, number: u64) {
        self.under_way.borrow_mut().remove(&number);
        self.changed.notify();
    }

    /// Keeps the requests of a log write until it is durable.
    pub(crate) fn keep(&self, number: u64, ios: &[Io]) {
        self.kept.borrow_mut().insert(number, ios.to_vec());
    }

    /// The requests that are kept, in the order of their log writes.
    pub(crate) fn kept(&self) -> Vec<Io> {
        self.kept.borrow().values().flatten().cloned().collect()
    }

    /// Keeps the frames of a log write that failed, because they are the only copy of its data.
    pub(crate) fn retain_failed(&self, frames: Vec<Rc<Frame>>) {
        self.lost.borrow_mut().extend(frames);
    }

    /// The last log write that was built.
    pub(crate) fn last(&self) -> u64 {
        self.last.get()
    }

    /// Every log write up to this one has reached the device.
    pub(crate) fn written(&self) -> u64 {
        self.under_way.borrow().first().map_or(self.last.get(), |first| first - 1)
    }

    /// Every log write up to this one is durable.
    pub(crate) fn durable(&self) -> u64 {
        self.durable.get()
    }

    /// Becomes the task that flushes the device, unless another task is. Gives the last log write
    /// that the flush will make durable.
    pub(crate) fn begin_flush(&self) -> Option<u64> {
        (!self.flushing.replace(true)).then(|| self.written())
    }

    /// Notes that the flush has ended and, if it succeeded, has made every log write up to
    /// `durable` durable.
    pub(crate) fn end_flush(&self, durable: Option<u64>) {
        self.flushing.set(false);
        self.durable.set(self.durable.get().max(durable.unwrap_or(0)));
        let durable = self.durable.get();
        self.kept.borrow_mut().retain(|number, _| *number > durable);
        self.changed.notify();
    }

    /// Notified of every change.
    pub(crate) fn changed(&self) -> &Rc<Event> {
        &self.changed
    }
}
