//! The entrance that operations pass, and that can be closed for a moment.
//!
//! Contract: while it is closed no operation runs. Those that were under way when it was closed end
//! first, and those that come later wait until it is open again. Open, it costs two counts an
//! operation.

use std::cell::Cell;
use std::rc::Rc;

use twin_rt::{Event, Time};

#[derive(Default)]
pub(crate) struct Entrance {
    closed: Cell<bool>,
    /// Operations that run.
    inside: Cell<u64>,
    /// Notified when the gate opens, and when the last operation leaves a closed one.
    changed: Event,
}

/// An operation that runs.
pub(crate) struct Inside<'a>(&'a Entrance);

/// Keeps the operations of a volume from running until it is dropped.
pub struct Still {
    entrance: Rc<Entrance>,
    since: Time,
}

impl Still {
    /// Since when operations have had to wait, by the clock that was given.
    pub fn since(&self) -> Time {
        self.since
    }
}

impl Entrance {
    pub(crate) fn is_closed(&self) -> bool {
        self.closed.get()
    }

    pub(crate) async fn opened(&self) {
        self.changed.wait_until(|| !self.closed.get()).await;
    }

    pub(crate) fn enter(&self) -> Inside<'_> {
        self.inside.set(self.inside.get() + 1);
        Inside(self)
    }

    /// Closes it, when it is open, and waits until no operation runs.
    pub(crate) async fn close(self: &Rc<Self>, clock: &dyn Fn() -> Time) -> Still {
        self.opened().await;
        self.closed.set(true);
        let still = Still { entrance: Rc::clone(self), since: clock() };
        self.changed.wait_until(|| self.inside.get() == 0).await;
        still
    }
}

impl Drop for Inside<'_> {
    fn drop(&mut self) {
        let left = self.0.inside.get() - 1;
        self.0.inside.set(left);
        if left == 0 && self.0.closed.get() {
            self.0.changed.notify();
        }
    }
}

impl Drop for Still {
    fn drop(&mut self) {
        self.entrance.closed.set(false);
        self.entrance.changed.notify();
    }
}
