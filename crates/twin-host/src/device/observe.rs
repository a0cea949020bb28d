//! The seam for observers of the requests to a device.
//!
//! Contract: the device calls the observer when a request is submitted, and again when it has its
//! result. The observer makes no requests itself. It is called from within the device, where a file
//! system may be in the middle of a change, so it must not ask the file system anything. Without an
//! observer, each request costs two tests.

use std::cell::RefCell;
use std::rc::{Rc, Weak};

use twin_disk::Io;

use super::DeviceState;

/// Who observes the requests of a device.
pub trait RequestObserver {
    /// A request is submitted; no other has its number.
    fn submitted(&self, number: u64, io: &Io);

    /// A request has its result. The observer may not have seen it submitted.
    fn ended(&self, number: u64);
}

/// The observer of a device, if there is one.
#[derive(Default)]
pub(super) struct Observed(RefCell<Option<Rc<dyn RequestObserver>>>);

impl Observed {
    pub(super) fn submitted(&self, number: u64, io: &Io) {
        if let Some(observer) = &*self.0.borrow() {
            observer.submitted(number, io);
        }
    }

    pub(super) fn ended(&self, number: u64) {
        if let Some(observer) = &*self.0.borrow() {
            observer.ended(number);
        }
    }
}

/// The requests of a device, for an observer. The device may have gone.
#[derive(Clone)]
pub struct Requests(Weak<DeviceState>);

impl Requests {
    pub(super) fn of(state: &Rc<DeviceState>) -> Requests {
        Requests(Rc::downgrade(state))
    }

    /// Reports every request from now on to `observer`, which replaces an earlier one; `None` ends
    /// the reports. An observer must not call this.
    pub fn observe(&self, observer: Option<Rc<dyn RequestObserver>>) {
        // Dropped after the borrow has ended.
        let _before = self.0.upgrade().map(|device| device.observed.0.replace(observer));
    }
}
