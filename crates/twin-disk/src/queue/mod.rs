//! Disk queues: the order in which waiting requests are served, on mounts and in simulations.
//!
//! A [`Scheduler`] is a pure queue. A new one takes one file and one line in [`REGISTRY`]. A driver
//! (of a simulated disk, or of an image file) pushes what it cannot hand to the device yet and pops
//! when the device has room. Flushes and discards are not scheduled: drivers pass them on first, in
//! order of arrival.

mod clook;
mod cscan;
mod fcfs;
mod fscan;
mod look;
mod scan;
mod scan_edf;
mod sptf;
mod sstf;
mod sweep;

use twin_rt::{Nanos, Time};
use twin_settings::{Registry, RegistryEntry};

use crate::{IoKind, Origin};

/// A read or write that waits in the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Waiting {
    /// The driver's name for it.
    pub id: u32,
    /// A number that rises with every request: the order of arrival.
    pub seq: u64,
    /// Whether the request reads or writes.
    pub kind: IoKind,
    /// First byte on the device.
    pub at: u64,
    /// Length of the request in bytes.
    pub len: u64,
    /// The part of the system for which the request was made.
    pub origin: Origin,
    /// When it arrived at the driver.
    pub arrived: Time,
    /// When its maker needs it, if that is known.
    pub deadline: Option<Time>,
}

/// True if the request at `place` among those that wait, in order of arrival, would be served before an earlier one
/// for the same bytes, and one of the two writes: then a read would see, or the device keep, what is not the latest.
/// For schedulers whose rule comes from outside.
pub fn overtakes(waiting: &[Waiting], place: usize) -> bool {
    let request = &waiting[place];
    let overlap = |one: &Waiting| {
        one.at < request.at.saturating_add(request.len)
            && request.at < one.at.saturating_add(one.len)
    };
    let reads = |one: &Waiting| one.kind == IoKind::Read;
    waiting[..place].iter().any(|one| !(reads(one) && reads(request)) && overlap(one))
}

/// The state that a scheduler can see when it chooses.
pub struct SchedulerInput<'a> {
    /// The time at which the device is free for the next request.
    pub now: Time,
    /// The byte behind the request that was started last.
    pub head_at: u64,
    /// The device, which can estimate positioning times.
    pub device: &'a dyn Positioning,
}

/// A device of which it is known how long it takes to reach a request.
pub trait Positioning {
    /// How long the device, the head of which is at byte `head_at`, would take before the first byte
    /// of this request moves.
    fn positioning_ns(&self, now: Time, head_at: u64, request: &Waiting) -> Nanos;
}

/// A device of which only addresses are known: the distance between them, in bytes, stands for the
/// time.
pub struct ByDistance;

impl Positioning for ByDistance {
    fn positioning_ns(&self, _now: Time, head_at: u64, request: &Waiting) -> Nanos {
        head_at.abs_diff(request.at)
    }
}

/// The request that a scheduler chose, and the way to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Next {
    /// The request to serve.
    pub request: Waiting,
    /// The way of the arm to it. A driver without control over the arm ignores it.
    pub way: Way,
}

impl From<Waiting> for Next {
    fn from(request: Waiting) -> Next {
        Next { request, way: Way::Straight }
    }
}

/// The way of the arm to the next request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// The arm moves directly to the request.
    Straight,
    /// The arm goes to the last address of the device first.
    ByTheEnd,
    /// The arm goes to the first address of the device first.
    ByTheStart,
    /// The arm goes to the last address, from there to the first, and from there to the request.
    ByEndAndStart,
}

/// An order of service.
pub trait Scheduler {
    /// A request has arrived.
    fn push(&mut self, request: Waiting);
    /// Takes the request to serve next, `None` if none waits.
    fn pop(&mut self, view: &SchedulerInput<'_>) -> Option<Next>;
    /// How many requests wait.
    fn len(&self) -> usize;
    /// True if none waits.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Makes an empty queue. It may hold what it needs for that.
pub type Maker = &'static (dyn Fn() -> Box<dyn Scheduler> + Send + Sync);

/// All schedulers; simulated disks have the default unless they say otherwise.
pub static REGISTRY: Registry<Maker> = Registry::with_default(
    "disk queue",
    "fcfs",
    &[
        RegistryEntry::new("fcfs", "first come, first served", &|| Box::<fcfs::Fcfs>::default()),
        RegistryEntry::new(
            "c-look",
            "upwards through the addresses, then back to the lowest",
            &|| Box::<clook::CLook>::default(),
        ),
        RegistryEntry::new("look", "upwards, then downwards through the addresses", &|| {
            Box::<look::Look>::default()
        }),
        RegistryEntry::new("scan", "as look, but the arm turns at the ends of the disk", &|| {
            Box::<scan::Scan>::default()
        }),
        RegistryEntry::new(
            "c-scan",
            "as c-look, but the arm goes to the end of the disk and back to its start",
            &|| Box::<cscan::CScan>::default(),
        ),
        RegistryEntry::new("fscan", "as look, but a sweep serves only what waited for it", &|| {
            Box::<fscan::FScan>::default()
        }),
        RegistryEntry::new(
            "scan-edf",
            "the earliest deadline first, those of one period in a sweep",
            &|| Box::<scan_edf::ScanEdf>::default(),
        ),
        RegistryEntry::new("sstf", "the nearest address first; may starve", &|| {
            Box::<sstf::Sstf>::default()
        }),
        RegistryEntry::new(
            "sptf",
            "the shortest positioning time first, as drives do; may starve",
            &|| Box::<sptf::Sptf>::default(),
        ),
    ],
);

/// The queue for rotating disks of which nobody has chosen one: it favours neither end of the disk and
/// lets no request starve.
pub fn for_rotating() -> &'static RegistryEntry<Maker> {
    &REGISTRY[1]
}

#[cfg(test)]
mod tests;
