//! The clock of a host: civil time at the start, and the monotonic clock from then on.
//!
//! Civil time may be set back while a volume is mounted, but [`Time`] must not go back. Therefore
//! civil time is read only once.
//!
//! A kernel that keeps the times of files itself reads them from a coarse clock, which stands still
//! for a few milliseconds at a time. [`Clock::coarse`] returns the same times.

use rustix::time::{ClockId, clock_gettime};
use twin_rt::{Nanos, SECS, Time};

pub(crate) struct Clock {
    /// Civil time minus monotonic time, to the nanosecond, as the kernel has it.
    offset_ns: Nanos,
}

impl Clock {
    pub(crate) fn start() -> Clock {
        loop {
            let before = read(ClockId::MonotonicCoarse);
            let civil = read(ClockId::RealtimeCoarse);
            // The coarse clock has not moved between the two readings, so both belong to one
            // instant.
            if read(ClockId::MonotonicCoarse) == before {
                return Clock { offset_ns: civil.saturating_sub(before) };
            }
        }
    }

    pub(crate) fn now(&self) -> Time {
        Time(self.offset_ns + read(ClockId::Monotonic))
    }

    /// The time of the last tick, which the kernel gives to files that it changes now.
    pub(crate) fn coarse(&self) -> Time {
        Time(self.offset_ns + read(ClockId::MonotonicCoarse))
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

    #[test]
    fn the_coarse_clock_is_the_kernel_s() {
        let clock = Clock::start();
        // A tick may fall between two readings, but hardly between all of them.
        let same = |_: &u32| read(ClockId::RealtimeCoarse) == clock.coarse().0;
        assert!((0..100).filter(same).count() > 50);
        assert!(clock.coarse() <= clock.now());
    }
}
