//! The pace of a scrub: clients come first.
//!
//! Contract: after each request a scrub keeps still for a while if clients have made requests since the last
//! time, several times as long as its own request took, so that the device is theirs for most of the time. With a limit of bytes a
//! second it keeps still for as long as that takes, whoever works.

use std::cell::Cell;

use twin_rt::{MICROS, MILLIS, SECS, Time};

use crate::core::Core;

/// While clients work, how many times as long as its last request took a scrub rests.
const RESTS: u64 = 4;
/// It never rests longer than this for clients, in nanoseconds.
const REST_MAX_NS: u64 = 50 * MILLIS;

/// See the module.
pub(super) struct Pace {
    bytes_per_second: u64,
    began: Time,
    /// Bytes that had been read by then.
    read_before: u64,
    /// When it went on after the last rest.
    since: Cell<Time>,
    /// Operations of clients until then.
    operations: Cell<u64>,
}

impl Pace {
    pub(super) fn new(core: &Core, bytes_per_second: u64, read_before: u64) -> Pace {
        let now = core.rt.now();
        let operations = Cell::new(core.operations());
        Pace { bytes_per_second, began: now, read_before, since: Cell::new(now), operations }
    }

    /// Rests, `bytes` having been read in all. Ends early when the scrub was cancelled.
    pub(super) async fn rest(&self, core: &Core, bytes: u64, cancelled: &Cell<bool>) {
        let now = core.rt.now();
        let worked = now.since(self.since.get());
        let are_clients_busy = core.operations() != self.operations.get();
        let mut until = now;
        if are_clients_busy {
            until = now + (worked * RESTS).min(REST_MAX_NS);
        }
        let read = bytes.saturating_sub(self.read_before);
        if let Some(micros) = read.saturating_mul(SECS / MICROS).checked_div(self.bytes_per_second)
        {
            until = until.max(self.began + micros.saturating_mul(MICROS));
        }
        if until <= now {
            core.rt.yield_to_all().await;
        }
        while core.rt.now() < until && !cancelled.get() {
            core.rt.sleep_until(until.min(core.rt.now() + REST_MAX_NS)).await;
        }
        self.operations.set(core.operations());
        self.since.set(core.rt.now());
    }
}
