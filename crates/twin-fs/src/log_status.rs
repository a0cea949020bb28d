//! The status of a log at one moment, for layouts with segments and a cleaner.
//!
//! Contract: it consists of figures only; programs show them and know nothing else of the layout.

use twin_rt::{Nanos, SECS};

/// What a cleaner has done since the volume was opened and for what reason, what the idle times of the
/// device were, and what operations waited for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CleanerCounts {
    /// Segments cleaned at moments that the policy of when to clean chose, while no operation waited.
    pub background: CleanedCounts,
    /// Segments cleaned because operations waited for room, or were about to.
    pub demand: CleanedCounts,
    /// Segments cleaned because somebody asked for it.
    pub by_hand: CleanedCounts,
    /// The idle times of the device that have ended.
    pub idle: IdleCounts,
    /// The waits of operations for room that have ended.
    pub waits: TimeCounts,
}

/// What was cleaned for one reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CleanedCounts {
    /// Number of segments.
    pub segments: u64,
    /// Bytes of the log writes that moved what was live in them.
    pub moved_bytes: u64,
}

impl CleanedCounts {
    /// What was cleaned since `before`.
    pub fn since(&self, before: &CleanedCounts) -> CleanedCounts {
        CleanedCounts {
            segments: self.segments - before.segments,
            moved_bytes: self.moved_bytes - before.moved_bytes,
        }
    }
}

/// Times of one kind: three numbers, however many there were.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TimeCounts {
    /// Number of them.
    pub count: u64,
    /// Their sum.
    pub total_ns: u64,
    /// The longest of them.
    pub longest_ns: u64,
}

impl TimeCounts {
    /// Counts a time.
    pub fn add(&mut self, time_ns: Nanos) {
        self.count += 1;
        self.total_ns += time_ns;
        self.longest_ns = self.longest_ns.max(time_ns);
    }

    /// The times since `before`; the longest is that of all.
    pub fn since(&self, before: &TimeCounts) -> TimeCounts {
        TimeCounts {
            count: self.count - before.count,
            total_ns: self.total_ns - before.total_ns,
            longest_ns: self.longest_ns,
        }
    }
}

/// Times in which users, and what is written back for them, made no request to the device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IdleCounts {
    /// All of them.
    pub all: TimeCounts,
    /// Number of those that lasted two seconds.
    pub of_two_s: u64,
    /// Number of those that lasted four. Blackwell, Harris and Seltzer (1995) clean after two seconds because
    /// 95% of the idle times that last so long last four.
    pub of_four_s: u64,
}

impl IdleCounts {
    /// Counts an idle time.
    pub fn add(&mut self, idle_ns: Nanos) {
        self.all.add(idle_ns);
        self.of_two_s += u64::from(idle_ns >= 2 * SECS);
        self.of_four_s += u64::from(idle_ns >= 4 * SECS);
    }

    /// The idle times since `before`; the longest is that of all.
    pub fn since(&self, before: &IdleCounts) -> IdleCounts {
        IdleCounts {
            all: self.all.since(&before.all),
            of_two_s: self.of_two_s - before.of_two_s,
            of_four_s: self.of_four_s - before.of_four_s,
        }
    }
}

impl CleanerCounts {
    /// What was counted since `before`; the longest times are those of all.
    pub fn since(&self, before: &CleanerCounts) -> CleanerCounts {
        CleanerCounts {
            background: self.background.since(&before.background),
            demand: self.demand.since(&before.demand),
            by_hand: self.by_hand.since(&before.by_hand),
            idle: self.idle.since(&before.idle),
            waits: self.waits.since(&before.waits),
        }
    }
}

/// The status of a log. Amounts are bytes and times nanoseconds, unless their names say otherwise.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LogStatus {
    /// Bytes written to the log since the volume was opened.
    pub log_bytes: u64,
    /// Of `log_bytes`, file contents that users wrote, as in
    /// [`Written::new_data_bytes`](crate::Written::new_data_bytes).
    pub new_data_bytes: u64,
    /// Of `log_bytes`, those that the cleaner moved.
    pub moved_bytes: u64,
    /// Bytes that the cleaner read.
    pub cleaner_read_bytes: u64,
    /// Write cost since the volume was opened ([`write_cost`](crate::write_cost)).
    pub write_cost: Option<f64>,
    /// Number of cleaned segments.
    pub cleaned_segments: u64,
    /// Number of checkpoints.
    pub checkpoints: u64,
    /// Number of operations that waited for the cleaner.
    pub space_waits: u64,
    /// The sum of their waits.
    pub space_wait_ns: u64,
    /// The longest of their waits.
    pub longest_space_wait_ns: u64,
    /// Bytes reserved or live.
    pub used_bytes: u64,
    /// The largest value that `used_bytes` may have.
    pub limit_bytes: u64,
    /// Number of clean segments.
    pub clean_segments: u32,
    /// Number of clean segments below which the cleaner works under any policy.
    pub low_water_segments: u32,
    /// Time since the last user request to the device ended; `None` while one is in flight.
    pub idle_ns: Option<u64>,
    /// The log's clock: the number of fragments that users have written so far.
    pub now: u64,
    /// Number of live fragments.
    pub live: u64,
    /// All segments, in the order in which they lie on the device.
    pub segments: Vec<SegmentStatus>,
}

/// The status of a segment. Amounts are fragments.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SegmentStatus {
    /// What is done with the segment now.
    pub phase: SegmentPhase,
    /// The class of the blocks in it, as the placement policy numbers them.
    pub class: u8,
    /// Fragments that are live.
    pub live: u32,
    /// Fragments that were written to it since it was clean.
    pub written: u32,
    /// When it was filled, on the clock of [`LogStatus::now`].
    pub sealed_at: u64,
}

/// The current use of a segment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SegmentPhase {
    /// It holds no live data and may be filled.
    #[default]
    Clean,
    /// It is being filled.
    Open,
    /// It is full and may be cleaned.
    Sealed,
    /// It is being cleaned.
    Cleaning,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn idle_times_are_counted_by_the_two_lengths_that_matter() {
        let mut idle = IdleCounts::default();
        for idle_ns in [SECS / 1000, 2 * SECS - 1, 2 * SECS, 4 * SECS, 7 * SECS] {
            idle.add(idle_ns);
        }
        assert_eq!((idle.all.count, idle.of_two_s, idle.of_four_s), (5, 3, 2));
        assert_eq!(
            (idle.all.total_ns, idle.all.longest_ns),
            (15 * SECS + SECS / 1000 - 1, 7 * SECS)
        );
        let before = idle;
        idle.add(3 * SECS);
        let since = idle.since(&before);
        assert_eq!(
            (since.all.count, since.all.total_ns, since.of_two_s, since.of_four_s),
            (1, 3 * SECS, 1, 0)
        );
    }

    #[test]
    fn times_have_a_number_a_sum_and_a_longest() {
        let mut waits = TimeCounts::default();
        for waited_ns in [5, 30, 10] {
            waits.add(waited_ns);
        }
        assert_eq!(waits, TimeCounts { count: 3, total_ns: 45, longest_ns: 30 });
        assert_eq!(waits.since(&TimeCounts { count: 1, total_ns: 5, longest_ns: 5 }).total_ns, 40);
    }
}
