//! The seam for who observes the operations of a volume, and their [events](Category::Operation).
//!
//! Contract: an observer is told when an operation begins and when it ends, and changes nothing: it
//! executes no operation. An operation that is given up has a begin and no end, and no event. A volume that
//! nobody observes asks once an operation whether somebody does.

use std::cell::RefCell;
use std::rc::Rc;

use twin_rt::{Category, Rt, Time};

use crate::{Ino, Op};

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

/// An operation that is being observed, logged, or both.
pub(crate) struct Observation {
    observer: Option<(Rc<dyn OperationObserver>, Begun)>,
    logged: Option<Logged>,
}

/// What the event of an operation says, as far as it is known when the operation begins.
struct Logged {
    name: &'static str,
    ino: Ino,
    offset: u64,
    bytes: u64,
    at: Time,
}

impl Logged {
    fn of(op: &Op, at: Time) -> Logged {
        let (ino, offset, bytes) = match op {
            Op::Read { ino, off, len } => (*ino, *off, u64::from(*len)),
            Op::Fallocate { ino, off, len, .. } => (*ino, *off, *len),
            _ => match op.written() {
                Some((ino, off, data)) => (ino, off, data.len()),
                None => (op.subject(), 0, 0),
            },
        };
        Logged { name: op.name(), ino, offset, bytes, at }
    }
}

impl Observed {
    pub(crate) fn set(&self, observer: Option<Rc<dyn OperationObserver>>) {
        // Dropped after the borrow has ended.
        let _before = self.0.replace(observer);
    }

    pub(crate) fn begin(&self, op: &Op, rt: &Rt) -> Option<Observation> {
        let observer = self.0.borrow().as_ref().map(Rc::clone);
        if observer.is_none() && !rt.logs(Category::Operation) {
            return None;
        }
        let observer = observer.map(|observer| {
            let begun = observer.begun(op);
            (observer, begun)
        });
        let logged = rt.logs(Category::Operation).then(|| Logged::of(op, rt.now()));
        Some(Observation { observer, logged })
    }
}

impl Observation {
    pub(crate) fn end(self, rt: &Rt, has_failed: bool) {
        if let Some((observer, begun)) = self.observer {
            observer.ended(begun);
        }
        if let Some(Logged { name, ino, offset, bytes, at }) = self.logged {
            rt.log(Category::Operation, name, || {
                let took_ns = rt.now().since(at);
                let failed = u64::from(has_failed);
                [
                    ("ino", ino),
                    ("offset", offset),
                    ("bytes", bytes),
                    ("took_ns", took_ns),
                    ("failed", failed),
                ]
            });
        }
    }
}
