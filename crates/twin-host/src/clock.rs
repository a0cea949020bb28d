//! The clock of a host: civil time at the start, and from there on the monotonic clock.
//!
//! Civil time may be set back while a volume is mounted; [`Time`] must not go back. So it is
//! asked once.

use rustix::time::{ClockId, clock_gettime};
use twin_rt::{Nanos, SECS, Time};

pub(crate) struct Clock {
    civil_ns: Nanos,
    monotonic_ns: Nanos,
}

impl Clock {
    pub(crate) fn start() -> Clock {
        Clock { civil_ns: read(ClockId::Realtime), monotonic_ns: read(ClockId::Monotonic) }
    }

    pub(crate) fn now(&self) -> Time {
        Time(self.civil_ns + (read(ClockId::Monotonic) - self.monotonic_ns))
    }
}

fn read(clock: ClockId) -> Nanos {
    let time = clock_gettime(clock);
    // Both are positive: the monotonic clock counts from boot, and a civil time before 1970
    // counts as 1970.
    u64::try_from(time.tv_sec).unwrap_or(0) * SECS + time.tv_nsec as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn starts_at_civil_time_and_does_not_go_back() {
        let clock = Clock::start();
        let (a, b) = (clock.now(), clock.now());
        assert!(a <= b);
        let civil = read(ClockId::Realtime);
        assert!(civil.abs_diff(b.0) < 10 * SECS, "{civil} {b:?}");
    }
}
