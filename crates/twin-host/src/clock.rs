//! The clock of a host: civil time at the start, and the monotonic clock from then on.
//!
//! Civil time may be set while a volume is mounted, and it goes on while the machine is suspended, but
//! [`Time`] must neither go back nor jump. Therefore [`Time`] has the civil time of the start only, and
//! [`Clock::ahead`] says how far civil time is from it now.
//!
//! A kernel that keeps the times of files itself reads them from a coarse clock, which stands still
//! for a few milliseconds at a time. [`Clock::coarse`] returns the same times. But from Linux 6.13 on
//! file systems with fine-grained times push that clock ahead, up to the time that it will show next, for
//! all files of the machine, so that their times have one order. No call returns the clock as it has been
//! pushed; only a file that is changed shows it. [`Clock::of_files`] changes a pipe and looks at its time:
//! what the kernel gave to any file before is not later, and what it gives afterwards is not earlier.

use std::os::fd::OwnedFd;

use rustix::fs::{Timespec, Timestamps, UTIME_NOW, UTIME_OMIT};
use rustix::time::{ClockId, clock_gettime};
use twin_rt::{Nanos, SECS, Time};

pub(crate) struct Clock {
    /// Civil time minus monotonic time at the start, to the nanosecond, as the kernel has it.
    offset_ns: Nanos,
    /// A pipe that nobody reads or writes: its time of change is set to see what time it gets.
    pipe: Option<OwnedFd>,
}

impl Clock {
    pub(crate) fn start() -> Clock {
        let (coarse, civil) = both();
        let offset_ns = civil.saturating_sub(coarse);
        // Without a pipe the times are those of kernels before 6.13.
        let pipe = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC).ok();
        Clock { offset_ns, pipe: pipe.map(|(reader, _)| reader) }
    }

    pub(crate) fn now(&self) -> Time {
        Time(self.offset_ns + read(ClockId::Monotonic))
    }

    /// The time of the last tick, which the kernel gives to files that it changes now, unless it was
    /// pushed ahead.
    pub(crate) fn coarse(&self) -> Time {
        Time(self.offset_ns + read(ClockId::MonotonicCoarse))
    }

    /// How far civil time is ahead of [`Time`], in nanoseconds. It changes only when the clock is set or
    /// the machine was suspended.
    pub(crate) fn ahead(&self) -> i64 {
        let (coarse, civil) = both();
        let ahead = i128::from(civil) - i128::from(coarse) - i128::from(self.offset_ns);
        i64::try_from(ahead).unwrap_or(0)
    }

    /// The time that the kernel gives to files that it changes now; `ahead` is [`ahead`](Self::ahead).
    pub(crate) fn of_files(&self, ahead: i64) -> Time {
        let coarse = self.coarse();
        match self.pipe.as_ref().and_then(touched) {
            // The result is between the two clocks, unless the clock was set since `ahead` was
            // read.
            Some(civil) => civil_to_time(civil, ahead).clamp(coarse, self.now().max(coarse)),
            None => coarse,
        }
    }
}

/// The civil time `ahead` of an instant.
pub(crate) fn civil(time: Time, ahead: i64) -> Time {
    Time(time.0.saturating_add_signed(ahead))
}

fn civil_to_time(civil: Nanos, ahead: i64) -> Time {
    Time(civil.saturating_sub_signed(ahead))
}

/// The monotonic and the civil time of one tick.
fn both() -> (Nanos, Nanos) {
    loop {
        let before = read(ClockId::MonotonicCoarse);
        let civil = read(ClockId::RealtimeCoarse);
        // The coarse clock has not moved between the two readings, so both belong to one instant.
        if read(ClockId::MonotonicCoarse) == before {
            return (before, civil);
        }
    }
}

/// Changes a file and returns the time that this gave it.
fn touched(file: &OwnedFd) -> Option<Nanos> {
    let times = Timestamps {
        last_access: Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT },
        last_modification: Timespec { tv_sec: 0, tv_nsec: UTIME_NOW },
    };
    rustix::fs::futimens(file, &times).ok()?;
    let stat = rustix::fs::fstat(file).ok()?;
    let secs = u64::try_from(stat.st_mtime).ok()?;
    Some(secs * SECS + stat.st_mtime_nsec as u64)
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

    #[test]
    fn civil_time_that_was_set_is_ahead_by_what_it_was_set() {
        // The machine's clock is not ours to set: the clock was started with another one instead.
        for hours in [-3i64, 0, 5] {
            let ns = hours * 3600 * SECS as i64;
            let clock = Clock::start();
            let offset_ns = clock.offset_ns.saturating_sub_signed(ns);
            let clock = Clock { offset_ns, ..clock };
            assert_eq!(clock.ahead(), ns);
            let time = clock.of_files(ns);
            assert!(clock.now().since(time) < SECS, "{time:?}");
            let shown = civil(time, clock.ahead());
            assert!(read(ClockId::Realtime).abs_diff(shown.0) < 10 * SECS, "{shown:?}");
        }
    }

    #[test]
    fn no_time_that_the_kernel_gave_is_later_and_none_that_it_gives_is_earlier() {
        // Memory files have fine-grained times: one that was looked at and is changed pushes the
        // kernel's clock ahead of the coarse one.
        let clock = Clock::start();
        let flags = rustix::fs::MemfdFlags::CLOEXEC;
        let file = rustix::fs::memfd_create("times", flags).unwrap();
        let changed = || {
            rustix::io::pwrite(&file, b"x", 0).unwrap();
            let stat = rustix::fs::fstat(&file).unwrap();
            stat.st_mtime as u64 * SECS + stat.st_mtime_nsec as u64
        };
        for _ in 0..1000 {
            let before = changed();
            let ahead = clock.ahead();
            let ours = civil(clock.of_files(ahead), ahead).0;
            let after = changed();
            if clock.ahead() == ahead {
                assert!(before <= ours && ours <= after, "{before} {ours} {after}");
            }
        }
    }
}
