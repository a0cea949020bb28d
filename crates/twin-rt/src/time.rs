//! Instants and spans of time. Their unit is the nanosecond in both worlds.

use std::fmt;
use std::ops::{Add, AddAssign, Sub};

/// A span of time in nanoseconds.
pub type Nanos = u64;
/// Nanoseconds in a microsecond.
pub const MICROS: Nanos = 1_000;
/// Nanoseconds in a millisecond.
pub const MILLIS: Nanos = 1_000_000;
/// Nanoseconds in a second.
pub const SECS: Nanos = 1_000_000_000;

/// An instant. On a host it counts nanoseconds since the Unix epoch, by the civil time at which the run
/// began; in a simulation since the start of the run, or since the epoch that the run was given. It
/// never goes back within one [`Rt`](crate::Rt).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Time(pub Nanos);

impl Time {
    /// The span from `earlier` to `self`, zero if `earlier` is later.
    pub fn since(self, earlier: Time) -> Nanos {
        self.0.saturating_sub(earlier.0)
    }

    /// Whole seconds, rounded down.
    pub fn secs(self) -> u64 {
        self.0 / SECS
    }

    /// The nanoseconds past the whole second.
    pub fn subsec_nanos(self) -> u32 {
        (self.0 % SECS) as u32
    }
}

impl Add<Nanos> for Time {
    type Output = Time;
    fn add(self, span: Nanos) -> Time {
        Time(self.0.saturating_add(span))
    }
}

impl AddAssign<Nanos> for Time {
    fn add_assign(&mut self, span: Nanos) {
        *self = *self + span;
    }
}

impl Sub<Time> for Time {
    type Output = Nanos;
    fn sub(self, earlier: Time) -> Nanos {
        self.since(earlier)
    }
}

impl fmt::Debug for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:09}s", self.secs(), self.subsec_nanos())
    }
}
