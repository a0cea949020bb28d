//! Device requests in the event digest: every request that the file system makes is an event.
//!
//! [`Recorded`] wraps a device and adds each request (kind, address, length, class) to the run's
//! digest when it is submitted. If there is a [`DeviceLog`], it receives the requests as well. The
//! contents are not part of the digest, so that a run with stamps and a run with bytes can be
//! compared.

use std::rc::Rc;

use twin_rt::Rt;

use crate::{BlockDevice, DeviceInfo, Io, IoKind, Pending, ServiceBounds};

/// Receives every request, in the order of submission.
pub trait DeviceLog {
    /// Called when a request is about to be submitted.
    fn submitted(&self, io: &Io);
}

/// A device whose requests enter the run's digest.
pub struct Recorded<D> {
    inner: D,
    rt: Rt,
    log: Option<Rc<dyn DeviceLog>>,
}

impl<D: BlockDevice> Recorded<D> {
    /// Records all requests to `inner` and its answers.
    pub fn new(rt: Rt, inner: D) -> Self {
        Recorded { inner, rt, log: None }
    }

    /// Wraps a device; `log` receives every request.
    pub fn with_log(rt: Rt, inner: D, log: Rc<dyn DeviceLog>) -> Self {
        Recorded { inner, rt, log: Some(log) }
    }
}

impl<D: BlockDevice> BlockDevice for Recorded<D> {
    fn info(&self) -> DeviceInfo {
        self.inner.info()
    }

    fn submit(&self, io: Io) -> Pending {
        let kind = match io.kind {
            IoKind::Read => 0,
            IoKind::Write => 1,
            IoKind::Flush => 2,
            IoKind::Discard => 3,
        };
        self.rt.record(&[kind, io.at, io.len, io.class as u64]);
        if let Some(log) = &self.log {
            log.submitted(&io);
        }
        self.inner.submit(io)
    }

    fn in_flight(&self) -> usize {
        self.inner.in_flight()
    }

    fn bounds(&self) -> Option<ServiceBounds> {
        self.inner.bounds()
    }

    fn drops_dead(&self) -> bool {
        self.inner.drops_dead()
    }

    fn drop_dead(&self, at: u64, len: u64) {
        self.inner.drop_dead(at, len);
    }
}
