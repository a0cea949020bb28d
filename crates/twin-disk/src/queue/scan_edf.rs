//! SCAN-EDF: the earliest deadline first, and the requests of one deadline in a sweep (Reddy and
//! Wyllie, "Disk scheduling in a multimedia I/O system", ACM Multimedia 1993).
//!
//! The paper's streams all end their periods at the same instants, so that many deadlines are equal
//! and the sweep has something to choose from. Here deadlines are rounded down to a multiple of
//! [`PERIOD_NS`] for that.
//!
//! A request without a deadline gets one from its arrival, as in Linux's deadline scheduler: half a
//! second for a read, five seconds for a write. Such a deadline only orders these requests among
//! themselves: a load that overtaxes the disk must not take the time of streams. They are served
//! while those with real deadlines have slack, which is reckoned from how long requests took of late
//! ([`Experience`]). Whoever gives deadlines has to see to it that they leave time for others (twin-fs
//! admits streams up to a part of the disk's time).

use std::collections::BTreeMap;

use twin_rt::{MILLIS, Nanos, SECS, Time};

use super::sweep::{ByPlace, Elevator};
use super::{Next, Scheduler, SchedulerInput, Waiting};
use crate::IoKind;

/// Deadlines within such a period are equal.
const PERIOD_NS: Nanos = 100 * MILLIS;
/// Deadlines of requests that have none of their own, from their arrival.
const READ_NS: Nanos = 500 * MILLIS;
const WRITE_NS: Nanos = 5 * SECS;

/// Requests by period, and their bytes; none is empty.
#[derive(Default)]
struct ByPeriod(BTreeMap<u64, (ByPlace, u64)>);

impl ByPeriod {
    fn push(&mut self, deadline: Time, request: Waiting) {
        let (waiting, bytes) = self.0.entry(deadline.0 / PERIOD_NS).or_default();
        waiting.push(request);
        *bytes += request.len;
    }

    /// The next request of a sweep over those of the earliest period.
    fn pop(&mut self, arm: &mut Elevator, head_at: u64) -> Option<Waiting> {
        let mut earliest = self.0.first_entry()?;
        let (waiting, bytes) = earliest.get_mut();
        let stop = arm.next(waiting, head_at)?;
        let request = waiting.take(stop.place)?;
        *bytes -= request.len;
        if waiting.is_empty() {
            earliest.remove();
        }
        Some(request)
    }

    fn len(&self) -> usize {
        self.0.values().map(|(waiting, _)| waiting.len()).sum()
    }
}

/// How long requests took of late, at worst: a time for each, and one for each KiB of long ones.
#[derive(Default)]
struct Experience {
    /// The request that was begun last, if others waited then: the next one begins when it ends.
    begun: Option<(Time, u64)>,
    /// The worst of this and of the last [`Experience::SPAN`] requests.
    now: Worst,
    before: Worst,
    seen: u32,
}

#[derive(Clone, Copy, Default)]
struct Worst {
    request_ns: Nanos,
    kib_ns: Nanos,
}

impl Experience {
    const SPAN: u32 = 512;
    /// Requests of at least as many bytes tell how long a KiB takes.
    const LONG: u64 = 64 << 10;

    fn next_begins(&mut self, now: Time, len: u64, others_wait: bool) {
        if let Some((begun, len)) = self.begun.take() {
            let took = now.since(begun);
            match len < Self::LONG {
                true => self.now.request_ns = self.now.request_ns.max(took),
                false => self.now.kib_ns = self.now.kib_ns.max(took / (len >> 10)),
            }
            self.seen += 1;
        }
        if self.seen >= Self::SPAN {
            (self.before, self.now, self.seen) = (self.now, Worst::default(), 0);
        }
        self.begun = others_wait.then_some((now, len));
    }

    /// The longest time that `requests` requests with `bytes` bytes in all should take.
    fn worst_ns(&self, requests: u64, bytes: u64) -> Nanos {
        let request_ns = self.now.request_ns.max(self.before.request_ns);
        let kib_ns = self.now.kib_ns.max(self.before.kib_ns);
        requests.saturating_mul(request_ns).saturating_add((bytes >> 10).saturating_mul(kib_ns))
    }
}

#[derive(Default)]
pub(super) struct ScanEdf {
    /// Requests with a deadline of their own.
    due: ByPeriod,
    others: ByPeriod,
    arm: Elevator,
    experience: Experience,
}

impl ScanEdf {
    /// True if one of the others can be served first, and all deadlines still be kept.
    fn has_slack(&self, now: Time) -> bool {
        let Some((_, (others, bytes))) = self.others.0.first_key_value() else { return false };
        let one = bytes / others.len().max(1) as u64;
        let (mut requests, mut bytes) = (1, one);
        self.due.0.iter().all(|(period, (waiting, due_bytes))| {
            requests += waiting.len() as u64;
            bytes += due_bytes;
            now + self.experience.worst_ns(requests, bytes) < Time(period * PERIOD_NS)
        })
    }
}

impl Scheduler for ScanEdf {
    fn push(&mut self, request: Waiting) {
        let own = if request.kind == IoKind::Read { READ_NS } else { WRITE_NS };
        match request.deadline {
            Some(deadline) => self.due.push(deadline, request),
            None => self.others.push(request.arrived + own, request),
        }
    }

    fn pop(&mut self, view: &SchedulerInput<'_>) -> Option<Next> {
        let from = match self.has_slack(view.now) {
            true => &mut self.others,
            false => &mut self.due,
        };
        let request = match from.pop(&mut self.arm, view.head_at) {
            Some(request) => request,
            None => self.others.pop(&mut self.arm, view.head_at)?,
        };
        let others_wait = !self.is_empty();
        self.experience.next_begins(view.now, request.len, others_wait);
        Some(request.into())
    }

    fn len(&self) -> usize {
        self.due.len() + self.others.len()
    }
}
