//! Where a device's time went: added up over requests, in nanoseconds.

use std::fmt;
use std::ops::{Add, AddAssign};

use twin_disk::{IoKind, Origin};
use twin_rt::{Nanos, Time};

/// The time of a request (or the sum over many), by what it was spent on. The parts of a request
/// add up to the time from its submission to its completion.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Parts {
    /// Waiting behind other requests.
    pub queue_ns: Nanos,
    /// The controller: decoding the command, ending it.
    pub overhead_ns: Nanos,
    /// The arm moving, settling included.
    pub seek_ns: Nanos,
    /// Changing to another surface of the same cylinder.
    pub head_switch_ns: Nanos,
    /// Waiting for the sector to come round.
    pub rotation_ns: Nanos,
    /// Sectors passing under the head; an SSD's cells and link.
    pub transfer_ns: Nanos,
    /// Served from the drive's buffer.
    pub buffer_ns: Nanos,
    /// Waiting for the medium to take writes that were reported early.
    pub destage_ns: Nanos,
    /// Flushing the write cache.
    pub flush_ns: Nanos,
    /// Waiting for the shared bus and moving data over it, where nothing else hides that.
    pub bus_ns: Nanos,
}

impl Parts {
    /// The parts with their names, in the order in which a request meets them.
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

    /// All of it.
    pub fn total_ns(&self) -> Nanos {
        self.named().iter().map(|(_, ns)| ns).sum()
    }
}

impl Add for Parts {
    type Output = Parts;
    fn add(self, b: Parts) -> Parts {
        Parts {
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

impl AddAssign for Parts {
    fn add_assign(&mut self, other: Parts) {
        *self = *self + other;
    }
}

impl fmt::Display for Parts {
    /// The parts that took any time, in percent of all, largest first.
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

/// The part of a device's work that was done for one purpose.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Share {
    /// Requests completed.
    pub requests: u64,
    /// Bytes read and written.
    pub bytes: u64,
    /// Time from submission to completion.
    pub response_ns: Nanos,
    /// Of this, not waiting behind others.
    pub service_ns: Nanos,
}

impl Share {
    fn add(&mut self, bytes: u64, parts: &Parts) {
        let response = parts.total_ns();
        self.requests += 1;
        self.bytes += bytes;
        self.response_ns += response;
        self.service_ns += response - parts.queue_ns;
    }
}

/// How many purposes ([`Origin`]) there are.
const ORIGINS: usize = 6;

/// What a device has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DiskStats {
    /// Reads completed.
    pub reads: Share,
    /// Writes completed.
    pub writes: Share,
    /// Flushes completed.
    pub flushes: Share,
    /// Discards completed.
    pub discards: Share,
    /// The same by purpose; see [`DiskStats::by_origin`].
    origins: [Share; ORIGINS],
    /// Requests that failed (not counted above).
    pub failed: u64,
    /// Reads that the drive's buffer served.
    pub buffer_hits: u64,
    /// Where the time of all completed requests went.
    pub parts: Parts,
    /// Where the time of the reads went.
    pub read_parts: Parts,
    /// Where the time of the writes went.
    pub write_parts: Parts,
    /// Time during which at least one request was waiting or in service.
    pub busy_ns: Nanos,
    /// Requests that arrived.
    pub arrived: u64,
    /// Requests that found nothing waiting or in service.
    pub arrived_at_idle: u64,
    /// User requests that arrived, and the cleaner's requests that they found before them.
    pub user_arrived: u64,
    /// See [`DiskStats::user_arrived`].
    pub user_found_cleaner: u64,
    busy_since: Time,
    present: [u64; ORIGINS],
}

impl DiskStats {
    /// The work that was done for `origin`.
    pub fn by_origin(&self, origin: Origin) -> Share {
        self.origins[origin as usize]
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

    /// A request has left; `done` has its size and time unless it failed.
    pub(crate) fn leave(
        &mut self,
        now: Time,
        kind: IoKind,
        origin: Origin,
        done: Option<(u64, &Parts)>,
    ) {
        self.present[origin as usize] -= 1;
        if self.present.iter().all(|&n| n == 0) {
            self.busy_ns += now - self.busy_since;
        }
        let Some((bytes, parts)) = done else {
            self.failed += 1;
            return;
        };
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

    /// The figures as of `now`: what is under way counts as busy.
    pub(crate) fn until(&self, now: Time) -> DiskStats {
        let mut stats = *self;
        if self.in_flight() > 0 {
            stats.busy_ns += now - self.busy_since;
            stats.busy_since = now;
        }
        stats
    }

    /// Forgets everything but the requests under way.
    pub(crate) fn reset(&mut self, now: Time) {
        *self = DiskStats { present: self.present, busy_since: now, ..DiskStats::default() };
    }

    pub(crate) fn in_flight(&self) -> u64 {
        self.present.iter().sum()
    }
}
