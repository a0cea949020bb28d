//! A path between disks and host that moves one transfer at a time.
//!
//! Disks disconnect while they position and contend for the bus when they have data to move:
//! transfers are granted in the order in which they are asked for, in virtual time.

use std::cell::Cell;
use std::rc::Rc;

use twin_rt::{Nanos, SECS, Time};

use crate::UnknownName;

/// A shared bus. Cloning gives another connection to the same bus.
#[derive(Clone, Debug)]
pub struct Bus(Rc<State>);

#[derive(Debug)]
struct State {
    bytes_per_s: u64,
    largest_transfer: u32,
    free_at: Cell<Time>,
    busy_ns: Cell<Nanos>,
    waited_ns: Cell<Nanos>,
}

/// When a transfer has the bus.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// Its first byte moves.
    pub start: Time,
    /// Its last byte has moved.
    pub end: Time,
}

impl Bus {
    /// A bus that moves so many bytes a second, in requests of at most `largest_transfer` bytes.
    ///
    /// # Panics
    /// If either is zero.
    pub fn new(bytes_per_s: u64, largest_transfer: u32) -> Bus {
        assert!(bytes_per_s > 0 && largest_transfer > 0, "a bus must be able to move something");
        Bus(Rc::new(State {
            bytes_per_s,
            largest_transfer,
            free_at: Cell::default(),
            busy_ns: Cell::default(),
            waited_ns: Cell::default(),
        }))
    }

    /// The largest request that the host makes over it, in bytes.
    pub fn largest_transfer(&self) -> u32 {
        self.0.largest_transfer
    }

    /// How long so many bytes take.
    pub fn ns_for(&self, bytes: u64) -> Nanos {
        (u128::from(bytes) * u128::from(SECS) / u128::from(self.0.bytes_per_s)) as Nanos
    }

    /// Asks for the bus at `now`, which must not be before an earlier asker's.
    pub(crate) fn transfer(&self, now: Time, bytes: u64) -> Span {
        let state = &self.0;
        let start = now.max(state.free_at.get());
        let end = start + self.ns_for(bytes);
        state.free_at.set(end);
        state.busy_ns.set(state.busy_ns.get() + (end - start));
        state.waited_ns.set(state.waited_ns.get() + (start - now));
        Span { start, end }
    }

    /// Time during which it moved data.
    pub fn busy_ns(&self) -> Nanos {
        self.0.busy_ns.get()
    }

    /// Time that transfers waited for others.
    pub fn waited_ns(&self) -> Nanos {
        self.0.waited_ns.get()
    }
}

/// A bus that can be had by name.
pub struct Entry {
    /// Its name in settings.
    pub name: &'static str,
    /// What it is, in a line.
    pub about: &'static str,
    bytes_per_s: u64,
    largest_transfer: u32,
}

impl Entry {
    /// A new bus of this kind.
    pub fn build(&self) -> Bus {
        Bus::new(self.bytes_per_s, self.largest_transfer)
    }
}

/// All buses.
///
/// The papers' "2.3 MB/sec" and "1.3 MB/sec" are taken as units of 2^20 bytes, because the Wren
/// IV's 1.3 is then its media rate (45 sectors, 3600 rpm). The largest transfer of the other two
/// is not published; 64 KB is what SunOS and 4.4BSD used.
pub fn registry() -> &'static [Entry] {
    const LARGEST: u32 = 64 << 10;
    &[
        Entry {
            name: "scsi-2",
            about: "SCSI-2 at 10 MB/s, as Cut-and-Paste 1996 simulated it",
            bytes_per_s: 10_000_000,
            largest_transfer: LARGEST,
        },
        Entry {
            name: "sparcstation-2",
            about: "Logging versus Clustering 1995, table 1: 2.3 MB/s, at most 64 KB",
            bytes_per_s: 23 * (1 << 20) / 10,
            largest_transfer: LARGEST,
        },
        Entry {
            name: "sun-4-260",
            about: "Logging versus Clustering 1995, table 1: 1.3 MB/s (the Sprite machine)",
            bytes_per_s: 13 * (1 << 20) / 10,
            largest_transfer: LARGEST,
        },
    ]
}

/// The bus with this name.
///
/// # Errors
/// [`UnknownName`] lists the names that there are.
pub fn by_name(name: &str) -> Result<&'static Entry, UnknownName> {
    registry().iter().find(|e| e.name == name).ok_or_else(|| UnknownName {
        what: "bus",
        name: name.into(),
        known: registry().iter().map(|e| e.name).collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use twin_rt::MILLIS;

    #[test]
    fn transfers_wait_for_each_other() {
        let bus = Bus::new(1_000_000, 1 << 16);
        let a = bus.transfer(Time(0), 2000);
        let b = bus.clone().transfer(Time(MILLIS), 1000);
        assert_eq!((a.start, a.end), (Time(0), Time(2 * MILLIS)));
        assert_eq!((b.start, b.end), (Time(2 * MILLIS), Time(3 * MILLIS)));
        assert_eq!((bus.busy_ns(), bus.waited_ns()), (3 * MILLIS, MILLIS));
    }
}
