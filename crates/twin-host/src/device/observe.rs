//! The seam for who observes the requests of a device.
//!
//! Contract: the observer is told of each request when it is submitted and when it has its result, and
//! makes no requests itself. It is called from within the device, where a file system may be in the
//! middle of a change: it must not ask the file system anything. A device that nobody observes asks
//! twice a request whether somebody does.

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

    /// Has `observer` told of every request from now on, in place of an earlier observer; `None` ends
    /// that. Not to be called by an observer.
    pub fn observe(&self, observer: Option<Rc<dyn RequestObserver>>) {
        // Dropped after the borrow has ended.
        let _before = self.0.upgrade().map(|device| device.observed.0.replace(observer));
    }
}
