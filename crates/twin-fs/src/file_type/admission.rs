//! Which streams a disk can serve: a reckoning of the worst case.
//!
//! Time is divided into rounds. In each a stream reads what it plays in one, a *chunk*, in time for
//! the next. A stream is admitted if all chunks of a round, each at the worst place of the disk, take no
//! more than a part of the round ([`SHARE_PERCENT`]; the rest is for ordinary files, and for what the
//! worst case forgets), and if they also fit behind one long request that has just begun, into what the
//! indirect blocks leave of the round. A queue
//! that serves by deadline (SCAN-EDF) then keeps all deadlines; with another queue, or on a disk that
//! other volumes use too, this is a limit but no promise. The two chunks of each stream may take half
//! of the cache. (The reckoning of rounds is that of Rangan and Vin, "Designing file systems for
//! digital video and audio", SOSP 1991, section 3.)

use twin_disk::ServiceBounds;
use twin_rt::{Nanos, SECS};

/// Of each round this part may be for streams.
const SHARE_PERCENT: u64 = 80;
/// The length of a round in positionings, so that moving the arm takes a small part of it.
const POSITIONINGS: u64 = 96;
/// Requests that a chunk needs beside those of its length: one for an indirect block, one because
/// the file may be interrupted there.
const EXTRA_REQUESTS: u64 = 2;
/// The part of a round that may pass until the indirect blocks of a chunk are in memory, as one in so
/// many.
pub(crate) const PARENTS_PART_OF_TIME: u64 = 4;
/// Longer requests are not made, even if the device would take them: segments of a log are shorter.
const LONGEST_REQUEST: u64 = 4 << 20;
/// Chunks of a stream in memory at most: one is played, one is read.
pub(crate) const CHUNKS: u64 = 2;

/// What is assumed of a device that promises nothing: a slow solid-state disk.
const ASSUMED: ServiceBounds =
    ServiceBounds { positioning_ns: 10_000_000, bytes_per_s: 100_000_000 };

/// How many streams, counted since the volume was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StreamCounts {
    /// The number of streams that were admitted.
    pub admitted: u64,
    /// The number of streams that were refused.
    pub refused: u64,
    /// Reads of admitted streams found their data not in memory yet.
    pub stalls: u64,
}

/// The limits of a volume.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    bounds: ServiceBounds,
    max_io: u64,
    block: u64,
    cache_bytes: u64,
}

impl Limits {
    pub(crate) fn new(
        bounds: Option<ServiceBounds>,
        max_io: u32,
        block: u32,
        cache_bytes: u64,
    ) -> Limits {
        let (max_io, block) =
            (u64::from(max_io).clamp(1, LONGEST_REQUEST), u64::from(block).max(1));
        Limits { bounds: bounds.unwrap_or(ASSUMED), max_io, block, cache_bytes }
    }

    /// How long a round is.
    pub(crate) fn round_ns(&self) -> Nanos {
        (POSITIONINGS.saturating_mul(self.bounds.positioning_ns)).clamp(SECS / 4, 8 * SECS)
    }

    /// The blocks that a stream plays in a round.
    pub(crate) fn chunk_blocks(&self, rate_bytes_per_s: u64) -> u64 {
        let bytes = u128::from(rate_bytes_per_s) * u128::from(self.round_ns()) / u128::from(SECS);
        u64::try_from(bytes).unwrap_or(u64::MAX).div_ceil(self.block).max(1)
    }

    /// True if streams of these rates can be served at a time.
    pub(crate) fn fit(&self, rates: impl Iterator<Item = u64>) -> bool {
        let (mut busy_ns, mut memory): (Nanos, u64) = (0, 0);
        for rate in rates {
            let bytes = self.chunk_blocks(rate).saturating_mul(self.block);
            let requests = bytes.div_ceil(self.max_io) + EXTRA_REQUESTS;
            busy_ns = busy_ns.saturating_add(self.bounds.worst_ns(requests, bytes));
            memory = memory.saturating_add(bytes.saturating_mul(CHUNKS));
        }
        let round_ns = self.round_ns();
        let begun_ns = self.bounds.worst_ns(1, self.max_io);
        busy_ns <= round_ns / 100 * SHARE_PERCENT
            && busy_ns.saturating_add(begun_ns) <= round_ns - round_ns / PARENTS_PART_OF_TIME
            && memory <= self.cache_bytes / 2
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DISK: ServiceBounds =
        ServiceBounds { positioning_ns: 40_000_000, bytes_per_s: 2_000_000 };

    fn most(limits: &Limits, rate: u64) -> u64 {
        (0..1000).take_while(|&n| limits.fit((0..n).map(|_| rate))).count() as u64 - 1
    }

    #[test]
    fn streams_are_admitted_up_to_a_part_of_the_disk() {
        let limits = Limits::new(Some(DISK), 1 << 20, 8192, 64 << 20);
        let n = most(&limits, 187_500);
        // Round 3.84 s: a chunk of 720 KB takes 3 * 40 + 360 ms, and a long request that has begun 560:
        // four fit into three quarters of the round.
        assert_eq!(n, 4);
        assert!(n * 187_500 < DISK.bytes_per_s);
        assert!(!limits.fit([2_500_000].into_iter()), "more than the disk has");
        assert!(!limits.fit([u64::MAX].into_iter()));
    }

    #[test]
    fn a_small_cache_limits_them_too() {
        let limits = Limits::new(Some(DISK), 1 << 20, 8192, 4 << 20);
        assert_eq!(most(&limits, 187_500), 1);
    }

    #[test]
    fn a_slow_stream_beside_fast_ones_counts_with_its_requests() {
        let limits = Limits::new(Some(DISK), 1 << 20, 8192, 1 << 30);
        // Moving the arm bounds the number of streams that move hardly any data.
        assert!(most(&limits, 1) <= 3_840 * 80 / 100 / 120);
    }
}
