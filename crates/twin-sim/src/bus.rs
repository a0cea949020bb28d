//! A path between disks and host that moves one transfer at a time.
//!
//! Disks disconnect while they position and compete for the bus when they have data to move. The
//! bus grants transfers in the order in which they are requested, in virtual time.

use std::cell::Cell;
use std::rc::Rc;

use twin_rt::{Nanos, SECS, Time};
use twin_settings::{Registry, RegistryEntry};

/// A shared bus. Cloning gives another connection to the same bus.
#[derive(Clone, Debug)]
pub struct Bus(Rc<BusState>);

#[derive(Debug)]
struct BusState {
    bytes_per_s: u64,
    largest_transfer: u32,
    free_at: Cell<Time>,
    busy_ns: Cell<Nanos>,
    waited_ns: Cell<Nanos>,
}

/// The time during which a transfer has the bus.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// When its first byte moves.
    pub start: Time,
    /// When its last byte has moved.
    pub end: Time,
}

impl Bus {
    /// A bus that moves `bytes_per_s` bytes a second, in requests of at most `largest_transfer`
    /// bytes.
    ///
    /// # Panics
    /// If either is zero.
    pub fn new(bytes_per_s: u64, largest_transfer: u32) -> Bus {
        assert!(bytes_per_s > 0 && largest_transfer > 0, "a bus must be able to move something");
        Bus(Rc::new(BusState {
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

    /// How long the bus takes to move `bytes` bytes.
    pub fn ns_for(&self, bytes: u64) -> Nanos {
        (u128::from(bytes) * u128::from(SECS) / u128::from(self.0.bytes_per_s)) as Nanos
    }

    /// Requests a transfer at `now`, which must not be earlier than that of the previous request.
    pub(crate) fn transfer(&self, now: Time, bytes: u64) -> Span {
        let state = &self.0;
        let start = now.max(state.free_at.get());
        let end = start + self.ns_for(bytes);
        state.free_at.set(end);
        state.busy_ns.set(state.busy_ns.get() + (end - start));
        state.waited_ns.set(state.waited_ns.get() + (start - now));
        Span { start, end }
    }

    /// Time during which the bus moved data.
    pub fn busy_ns(&self) -> Nanos {
        self.0.busy_ns.get()
    }

    /// Time that transfers waited for other transfers.
    pub fn waited_ns(&self) -> Nanos {
        self.0.waited_ns.get()
    }
}

/// What is known of a bus.
pub struct Kind {
    bytes_per_s: u64,
    largest_transfer: u32,
}

impl Kind {
    /// A new bus of this kind.
    pub fn build(&self) -> Bus {
        Bus::new(self.bytes_per_s, self.largest_transfer)
    }
}

/// The largest transfer of a bus of which it is not published, in bytes.
const LARGEST: u32 = 64 << 10;

/// The registry of buses.
///
/// The papers' "2.3 MB/sec" and "1.3 MB/sec" are taken as units of 2^20 bytes, because the Wren
/// IV's 1.3 is then its media rate (45 sectors, 3600 rpm). The largest transfer of the other two
/// is not published; 64 KB is what SunOS and 4.4BSD used.
pub static REGISTRY: Registry<Kind> = Registry::new(
    "bus",
    &[
        RegistryEntry::new(
            "scsi-2",
            "SCSI-2 at 10 MB/s, as Cut-and-Paste 1996 simulated it",
            Kind { bytes_per_s: 10_000_000, largest_transfer: LARGEST },
        ),
        RegistryEntry::new(
            "sparcstation-2",
            "Logging versus Clustering 1995, table 1: 2.3 MB/s, at most 64 KB",
            Kind { bytes_per_s: 23 * (1 << 20) / 10, largest_transfer: LARGEST },
        ),
        RegistryEntry::new(
            "sun-4-260",
            "Logging versus Clustering 1995, table 1: 1.3 MB/s (the Sprite machine)",
            Kind { bytes_per_s: 13 * (1 << 20) / 10, largest_transfer: LARGEST },
        ),
    ],
);

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
