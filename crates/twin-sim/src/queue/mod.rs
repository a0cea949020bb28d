//! Scheduling policies: the order in which a device serves waiting requests.
//!
//! A [`Scheduler`] is a pure queue. A new one takes one file and one line in [`REGISTRY`]. Flushes
//! and discards are not scheduled: the device takes them first, in order of arrival.

mod clook;
mod fcfs;
mod look;
mod sptf;
mod sstf;

use twin_disk::{IoKind, Origin};
use twin_rt::Time;
use twin_settings::{Registry, RegistryEntry};

use crate::model::DeviceModel;

/// A read or write that waits in the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Waiting {
    /// The device's name for it.
    pub id: u32,
    /// A number that rises with every request: the order of arrival.
    pub seq: u64,
    /// Read or write.
    pub kind: IoKind,
    /// First byte on the device.
    pub at: u64,
    /// Number of bytes.
    pub len: u64,
    /// For whom the request was made.
    pub origin: Origin,
    /// When it arrived at the device.
    pub arrived: Time,
}

/// What a scheduler can see when it chooses.
pub struct SchedulerInput<'a> {
    /// The current time.
    pub now: Time,
    /// The byte behind the request that was started last.
    pub head_at: u64,
    /// The device model, which can estimate positioning times.
    pub model: &'a dyn DeviceModel,
}

/// An order of service.
pub trait Scheduler {
    /// A request has arrived.
    fn push(&mut self, request: Waiting);
    /// Takes the request to serve next, `None` if none waits.
    fn pop(&mut self, view: &SchedulerInput<'_>) -> Option<Waiting>;
    /// How many requests wait.
    fn len(&self) -> usize;
    /// True if none waits.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Makes an empty queue.
pub type Maker = fn() -> Box<dyn Scheduler>;

/// All schedulers; the first is the default.
pub static REGISTRY: Registry<Maker> = Registry::new(
    "disk queue",
    &[
        RegistryEntry::new("fcfs", "first come, first served", || Box::<fcfs::Fcfs>::default()),
        RegistryEntry::new(
            "c-look",
            "upwards through the addresses, then back to the lowest",
            || Box::<clook::CLook>::default(),
        ),
        RegistryEntry::new("look", "upwards, then downwards through the addresses", || {
            Box::<look::Look>::default()
        }),
        RegistryEntry::new("sstf", "the nearest address first; may starve", || {
            Box::<sstf::Sstf>::default()
        }),
        RegistryEntry::new(
            "sptf",
            "the shortest positioning time first, as drives do; may starve",
            || Box::<sptf::Sptf>::default(),
        ),
    ],
);

#[cfg(test)]
mod tests;
