//! Request schedulers: in which order a device's waiting requests are served.
//!
//! A [`Scheduler`] is a pure queue. To add one, write one file and one line of [`registry`].
//! Flushes and discards are not scheduled: the device takes them first, in order of arrival.

mod clook;
mod fcfs;
mod look;
mod sptf;
mod sstf;

use twin_disk::{IoKind, Origin};
use twin_rt::Time;

use crate::UnknownName;
use crate::model::DeviceModel;

/// A request that waits: a read or a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Waiting {
    /// Names it to the device.
    pub id: u32,
    /// Grows with every request: the order of arrival.
    pub seq: u64,
    /// Read or write.
    pub kind: IoKind,
    /// First byte on the device.
    pub at: u64,
    /// Number of bytes.
    pub len: u64,
    /// On whose behalf.
    pub origin: Origin,
    /// When it arrived.
    pub arrived: Time,
}

/// What a scheduler may know when it chooses.
pub struct View<'a> {
    /// The current time.
    pub now: Time,
    /// The byte behind the last request that was started.
    pub head_at: u64,
    /// The device, which can say how far away a request is.
    pub model: &'a dyn DeviceModel,
}

/// An order of service.
pub trait Scheduler {
    /// A request has arrived.
    fn push(&mut self, request: Waiting);
    /// Takes the request to serve next, `None` if none waits.
    fn pop(&mut self, view: &View<'_>) -> Option<Waiting>;
    /// How many requests wait.
    fn len(&self) -> usize;
    /// True if none waits.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// A scheduler that can be had by name.
pub struct Entry {
    /// Its name in settings.
    pub name: &'static str,
    /// What it does, in a line.
    pub about: &'static str,
    make: fn() -> Box<dyn Scheduler>,
}

impl Entry {
    /// A new, empty queue.
    pub fn build(&self) -> Box<dyn Scheduler> {
        (self.make)()
    }
}

macro_rules! entry {
    ($name:literal, $about:literal, $type:ty) => {
        Entry { name: $name, about: $about, make: || Box::<$type>::default() }
    };
}

/// All schedulers.
pub fn registry() -> &'static [Entry] {
    &[
        entry!("fcfs", "first come, first served", fcfs::Fcfs),
        entry!("c-look", "upwards through the addresses, then back to the lowest", clook::CLook),
        entry!("look", "upwards, then downwards through the addresses", look::Look),
        entry!("sstf", "the nearest address first; may starve", sstf::Sstf),
        entry!("sptf", "the shortest positioning time first, as drives do; may starve", sptf::Sptf),
    ]
}

/// The scheduler with this name.
///
/// # Errors
/// [`UnknownName`] lists the names that there are.
pub fn by_name(name: &str) -> Result<&'static Entry, UnknownName> {
    registry().iter().find(|e| e.name == name).ok_or_else(|| UnknownName {
        what: "disk queue",
        name: name.into(),
        known: registry().iter().map(|e| e.name).collect(),
    })
}

#[cfg(test)]
mod tests;
