//! SCAN-EDF: the earliest deadline first, and the requests of one deadline in a sweep (Reddy and
//! Wyllie, "Disk scheduling in a multimedia I/O system", ACM Multimedia 1993).
//!
//! The paper's streams all end their periods at the same instants, so that many deadlines are equal
//! and the sweep has something to choose from. Here deadlines are rounded down to a multiple of
//! [`PERIOD_NS`] for that. A request without a deadline gets one from its arrival, as in Linux's
//! deadline scheduler: half a second for a read, five seconds for a write. So none starves.

use std::collections::BTreeMap;

use twin_rt::{MILLIS, Nanos, SECS};

use super::sweep::{ByPlace, Elevator};
use super::{Next, Scheduler, SchedulerInput, Waiting};
use crate::IoKind;

/// Deadlines within such a period are equal.
const PERIOD_NS: Nanos = 100 * MILLIS;
/// Deadlines of requests that have none of their own, from their arrival.
const READ_NS: Nanos = 500 * MILLIS;
const WRITE_NS: Nanos = 5 * SECS;

#[derive(Default)]
pub(super) struct ScanEdf {
    /// Requests by period; none is empty.
    periods: BTreeMap<u64, ByPlace>,
    arm: Elevator,
}

fn period(request: &Waiting) -> u64 {
    let own = if request.kind == IoKind::Read { READ_NS } else { WRITE_NS };
    request.deadline.unwrap_or(request.arrived + own).0 / PERIOD_NS
}

impl Scheduler for ScanEdf {
    fn push(&mut self, request: Waiting) {
        self.periods.entry(period(&request)).or_default().push(request);
    }

    fn pop(&mut self, view: &SchedulerInput<'_>) -> Option<Next> {
        let mut earliest = self.periods.first_entry()?;
        let stop = self.arm.next(earliest.get(), view.head_at)?;
        let request = earliest.get_mut().take(stop.place)?;
        if earliest.get().is_empty() {
            earliest.remove();
        }
        Some(request.into())
    }

    fn len(&self) -> usize {
        self.periods.values().map(ByPlace::len).sum()
    }
}
