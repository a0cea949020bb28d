//! How a device's time was spent: added up over requests, in nanoseconds.

use std::fmt;
use std::ops::{Add, AddAssign};

use twin_disk::{IoKind, Origin};
use twin_rt::{Nanos, Time};

use crate::planted::PlantedFault;

/// The time of a request (or the sum over many), divided by cause. The parts of a request add up to
/// the time from its submission to its completion.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TimeBreakdown {
    /// Waiting behind other requests.
    pub queue_ns: Nanos,
    /// The controller: decoding and finishing the command.
    pub overhead_ns: Nanos,
    /// Seeks, settle time included.
    pub seek_ns: Nanos,
    /// Head switches: changing to another surface of the same cylinder.
    pub head_switch_ns: Nanos,
    /// Rotational delay: waiting for the sector.
    pub rotation_ns: Nanos,
    /// Transfer: sectors passing under the head, or an SSD's cells and link.
    pub transfer_ns: Nanos,
    /// Data served from the drive's buffer.
    pub buffer_ns: Nanos,
    /// Waiting until the medium has taken writes that were reported early.
    pub destage_ns: Nanos,
    /// Flushing the write cache.
    pub flush_ns: Nanos,
    /// Waiting for the shared bus and moving data over it, where no other part hides that.
    pub bus_ns: Nanos,
}

impl TimeBreakdown {
    /// The parts with their names, in the order in which they occur in a request.
    pub fn named(&self) -> [(&'static str, Nanos); 10] {
        [
            ("queue", self.queue_ns),
            ("overhead", self.overhead_ns),
            ("seek", self.seek_ns),
            ("head switch", self.head_switch_ns),
            ("rotation", self.rotation_ns),
            ("transfer", self.transfer_ns),
            ("buffer hit", self.buffer_ns),
            ("destage", self.destage_ns),
            ("flush", self.flush_ns),
            ("bus", self.bus_ns),
        ]
    }

    /// The sum of all parts.
    pub fn total_ns(&self) -> Nanos {
        self.named().iter().map(|(_, ns)| ns).sum()
    }

    /// All parts but the wait behind other requests: the time of service.
    pub fn service_ns(&self) -> Nanos {
        self.total_ns() - self.queue_ns
    }

    /// The time of the medium: seeks, head switches, rotational delay and transfer, on an SSD its
    /// cells and link. Without the controller, the buffer, the bus, waits for destaging, and flushes.
    pub fn medium_ns(&self) -> Nanos {
        self.seek_ns + self.head_switch_ns + self.rotation_ns + self.transfer_ns
    }
}

impl Add for TimeBreakdown {
    type Output = TimeBreakdown;
    fn add(self, b: TimeBreakdown) -> TimeBreakdown {
        TimeBreakdown {
            queue_ns: self.queue_ns + b.queue_ns,
            overhead_ns: self.overhead_ns + b.overhead_ns,
            seek_ns: self.seek_ns + b.seek_ns,
            head_switch_ns: self.head_switch_ns + b.head_switch_ns,
            rotation_ns: self.rotation_ns + b.rotation_ns,
            transfer_ns: self.transfer_ns + b.transfer_ns,
            buffer_ns: self.buffer_ns + b.buffer_ns,
            destage_ns: self.destage_ns + b.destage_ns,
            flush_ns: self.flush_ns + b.flush_ns,
            bus_ns: self.bus_ns + b.bus_ns,
        }
    }
}

impl AddAssign for TimeBreakdown {
    fn add_assign(&mut self, other: TimeBreakdown) {
        *self = *self + other;
    }
}

impl fmt::Display for TimeBreakdown {
    /// The parts that took any time, in percent of the total, largest first.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let total = self.total_ns();
        let mut named = self.named();
        named.sort_by_key(|&(_, ns)| std::cmp::Reverse(ns));
        let shown: Vec<_> = named.iter().filter(|(_, ns)| *ns > 0).collect();
        for (i, (name, ns)) in shown.iter().enumerate() {
            let comma = if i == 0 { "" } else { ", " };
            write!(f, "{comma}{name} {:.1}%", *ns as f64 * 100.0 / total as f64)?;
        }
        if shown.is_empty() { f.write_str("no time at all") } else { Ok(()) }
    }
}

/// The part of a device's work that has one origin or kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Share {
    /// Number of requests that completed.
    pub requests: u64,
    /// Bytes read and written.
    pub bytes: u64,
    /// Time from submission to completion.
    pub response_ns: Nanos,
    /// The sum of their times without the wait in the queue.
    pub service_ns: Nanos,
}

impl Share {
    fn add(&mut self, bytes: u64, parts: &TimeBreakdown) {
        self.requests += 1;
        self.bytes += bytes;
        self.response_ns += parts.total_ns();
        self.service_ns += parts.service_ns();
    }
}

/// The number of [`Origin`]s.
const ORIGINS: usize = 6;

/// Statistics of a device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DiskStats {
    /// The reads that completed.
    pub reads: Share,
    /// The writes that completed.
    pub writes: Share,
    /// The flushes that completed.
    pub flushes: Share,
    /// The discards that completed.
    pub discards: Share,
    /// The same requests by origin; see [`DiskStats::by_origin`].
    origins: [Share; ORIGINS],
    /// Requests that failed (not counted above).
    pub failed: u64,
    /// Reads that were served from the drive's buffer.
    pub buffer_hits: u64,
    /// How the time of all completed requests is divided.
    pub parts: TimeBreakdown,
    /// How the time of reads is divided.
    pub read_parts: TimeBreakdown,
    /// How the time of writes is divided.
    pub write_parts: TimeBreakdown,
    /// Time during which at least one request was waiting or in service.
    pub busy_ns: Nanos,
    /// Number of requests that arrived at the device.
    pub arrived: u64,
    /// Requests that found nothing waiting or in service.
    pub arrived_at_idle: u64,
    /// User requests that arrived.
    pub user_arrived: u64,
    /// Requests of the cleaner that user requests found before them, summed up.
    pub user_found_cleaner: u64,
    busy_since: Time,
    present: [u64; ORIGINS],
    planted: PlantedFault,
}

impl DiskStats {
    pub(crate) fn with_fault(planted: PlantedFault) -> DiskStats {
        DiskStats { planted, ..DiskStats::default() }
    }

    /// The work with this origin.
    pub fn by_origin(&self, origin: Origin) -> Share {
        self.origins[origin as usize]
    }

    /// The device's utilization over a time, if it serves one request at a time: the share that it
    /// spent on service. A device that serves several at once has more work than time, up to its
    /// depth. Writing what was reported early counts only as far as a request waited for it.
    pub fn utilization(&self, elapsed_ns: Nanos) -> f64 {
        self.parts.service_ns() as f64 / elapsed_ns.max(1) as f64
    }

    pub(crate) fn arrive(&mut self, now: Time, origin: Origin) {
        let before: u64 = self.present.iter().sum();
        self.arrived += 1;
        if before == 0 {
            self.arrived_at_idle += 1;
            self.busy_since = now;
        }
        if origin == Origin::User {
            self.user_arrived += 1;
            self.user_found_cleaner += self.present[Origin::Cleaner as usize];
        }
        self.present[origin as usize] += 1;
    }

    /// A request has completed; `done` has its size and times unless it failed.
    pub(crate) fn leave(
        &mut self,
        now: Time,
        kind: IoKind,
        origin: Origin,
        done: Option<(u64, &TimeBreakdown)>,
    ) {
        self.present[origin as usize] -= 1;
        if self.present.iter().all(|&n| n == 0) {
            self.busy_ns += now - self.busy_since;
        }
        let Some((bytes, parts)) = done else {
            self.failed += 1;
            return;
        };
        if self.planted.is(PlantedFault::CleanerReadsLeftOut)
            && (kind, origin) == (IoKind::Read, Origin::Cleaner)
        {
            return;
        }
        if self.planted.is(PlantedFault::PartsTwice) {
            self.parts += *parts;
        }
        if self.planted.is(PlantedFault::BusyWithoutWaiting) {
            self.busy_ns = self.busy_ns.saturating_sub(parts.queue_ns);
        }
        self.parts += *parts;
        self.origins[origin as usize].add(bytes, parts);
        match kind {
            IoKind::Read => {
                self.reads.add(bytes, parts);
                self.read_parts += *parts;
                self.buffer_hits += u64::from(parts.buffer_ns > 0);
            }
            IoKind::Write => {
                self.writes.add(bytes, parts);
                self.write_parts += *parts;
            }
            IoKind::Flush => self.flushes.add(bytes, parts),
            IoKind::Discard => self.discards.add(bytes, parts),
        }
    }

    /// A planted fault: a request that is served in parts is counted as a whole before them.
    pub(crate) fn count_whole(&mut self, kind: IoKind, bytes: u64) {
        let share = match kind {
            IoKind::Read => &mut self.reads,
            IoKind::Write => &mut self.writes,
            IoKind::Flush | IoKind::Discard => return,
        };
        if self.planted.is(PlantedFault::WholeAndParts) {
            share.add(bytes, &TimeBreakdown::default());
        }
    }

    /// The statistics as of `now`: an unfinished busy period is included.
    pub(crate) fn until(&self, now: Time) -> DiskStats {
        let mut stats = *self;
        if self.in_flight() > 0 {
            stats.busy_ns += now - self.busy_since;
            stats.busy_since = now;
        }
        stats
    }

    /// Resets everything except the requests in flight.
    pub(crate) fn reset(&mut self, now: Time) {
        *self = DiskStats {
            present: self.present,
            busy_since: now,
            planted: self.planted,
            ..DiskStats::default()
        };
    }

    pub(crate) fn in_flight(&self) -> u64 {
        self.present.iter().sum()
    }
}
