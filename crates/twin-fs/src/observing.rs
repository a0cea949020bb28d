//! The seam for who observes the operations of a volume.
//!
//! Contract: an observer is told when an operation begins and when it ends, and changes nothing: it
//! executes no operation. An operation that is given up has a begin and no end. A volume that nobody
//! observes asks once an operation whether somebody does.

use std::cell::RefCell;
use std::rc::Rc;

use twin_rt::Time;

use crate::Op;

/// Who observes the operations of a volume.
pub trait OperationObserver {
    /// An operation begins. What is returned comes back when it ends.
    fn begun(&self, op: &Op) -> Begun;

    /// An operation has ended, with or without an error.
    fn ended(&self, begun: Begun);
}

/// What an observer notes of an operation that begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Begun {
    /// What kind of operation it is, in the observer's own numbers.
    pub kind: u32,
    /// When it began, by the observer's clock.
    pub at: Time,
}

/// The observer of a volume, if there is one.
#[derive(Default)]
pub(crate) struct Observed(RefCell<Option<Rc<dyn OperationObserver>>>);

/// An operation that is being observed.
pub(crate) struct Observation(Rc<dyn OperationObserver>, Begun);

impl Observed {
    pub(crate) fn set(&self, observer: Option<Rc<dyn OperationObserver>>) {
        // Dropped after the borrow has ended.
        let _before = self.0.replace(observer);
    }

    pub(crate) fn begin(&self, op: &Op) -> Option<Observation> {
        let observer = self.0.borrow().as_ref().map(Rc::clone)?;
        let begun = observer.begun(op);
        Some(Observation(observer, begun))
    }
}

impl Observation {
    pub(crate) fn end(self) {
        self.0.ended(self.1);
    }
}
