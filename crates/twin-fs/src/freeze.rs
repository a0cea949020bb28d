//! Freezing: keeping the operations of a volume from running for a moment.
//!
//! Contract: while a volume is frozen no operation runs. Those that were under way when it was frozen
//! end first, and those that come later wait until it is thawed. Otherwise it costs two counts an
//! operation.

use std::cell::Cell;
use std::rc::Rc;

use twin_rt::{Event, Time};

/// Counts the operations that run, and lets none begin while the volume is frozen.
#[derive(Default)]
pub(crate) struct Freezer {
    is_frozen: Cell<bool>,
    running: Cell<u64>,
    /// Notified when the volume is thawed, and when the last operation of a frozen one ends.
    changed: Event,
}

/// An operation that runs.
pub(crate) struct Running<'a>(&'a Freezer);

/// Keeps a volume frozen until it is dropped.
pub struct FreezeGuard {
    freezer: Rc<Freezer>,
    since: Time,
}

impl FreezeGuard {
    /// Since when operations have had to wait, by the clock that was given.
    pub fn since(&self) -> Time {
        self.since
    }
}

impl Freezer {
    pub(crate) fn is_frozen(&self) -> bool {
        self.is_frozen.get()
    }

    pub(crate) async fn thawed(&self) {
        self.changed.wait_until(|| !self.is_frozen.get()).await;
    }

    pub(crate) fn enter(&self) -> Running<'_> {
        self.running.set(self.running.get() + 1);
        Running(self)
    }

    /// Freezes the volume, when it is not frozen, and waits until no operation runs.
    pub(crate) async fn freeze(self: &Rc<Self>, clock: &dyn Fn() -> Time) -> FreezeGuard {
        self.thawed().await;
        self.is_frozen.set(true);
        let guard = FreezeGuard { freezer: Rc::clone(self), since: clock() };
        self.changed.wait_until(|| self.running.get() == 0).await;
        guard
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        let left = self.0.running.get() - 1;
        self.0.running.set(left);
        if left == 0 && self.0.is_frozen.get() {
            self.0.changed.notify();
        }
    }
}

impl Drop for FreezeGuard {
    fn drop(&mut self) {
        self.freezer.is_frozen.set(false);
        self.freezer.changed.notify();
    }
}
