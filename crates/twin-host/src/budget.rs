//! Divides the memory of a mount between blocks and everything else.
//!
//! Contract: with `--memory` a mount uses at most that much memory, whatever its clients do and however
//! slow its device is. The parts that grow with load have bounds of their own: [`Budget::buffers`]
//! bounds the buffers of packets and device requests, in use or kept, because it limits the requests
//! that the kernel may have under way by itself; [`Budget::free`] bounds freed memory. A cached block
//! takes more memory than its bytes, because it keeps neighbours of its buffer in memory: 1.25 to 1.65
//! times as much was measured, and [`SHARE`] is reckoned. The rest of [`BESIDE`] is for the program,
//! inodes and tables. The tests have the sum.
//!
//! Requests that programs make and wait for themselves are not bounded: there are as many at once as
//! there are programs, each with at most 1 MiB (writes around the page cache, or with
//! `--write-through`). `cargo xtask e2e memory` checks these promises on a mount (with
//! `--mkfs '--layout ffs'` for the other layout).

/// The memory of a daemon beside its blocks: buffers, free memory, inodes, tables, the program.
const BESIDE: u64 = 128 << 20;
/// The share of the memory for blocks that their bytes may take: cached bytes, and the memory that they
/// occupy with their frames.
const SHARE: (u64, u64) = (4, 7);
/// The smallest useful cache, in bytes.
const LEAST_CACHE: u64 = 8 << 20;
/// The largest request of the kernel, in bytes.
const REQUEST: u64 = 1 << 20;
/// Buffers and free memory where nothing is promised, and the most of them, in bytes.
const MOST_BUFFERS: u64 = 64 << 20;
const MOST_FREE: u64 = 32 << 20;

/// How a mount divides its memory, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Budget {
    /// Bytes of cached blocks.
    pub cache: u64,
    /// Large buffers, in use and kept.
    pub buffers: u64,
    /// Freed memory that is not given back.
    pub free: u64,
}

impl Budget {
    /// The budget of a daemon that may use `memory` bytes in all.
    ///
    /// # Errors
    /// If that is too little to work with: the least that is enough.
    pub fn within(memory: u64) -> Result<Budget, u64> {
        let cache = memory.saturating_sub(BESIDE) / SHARE.1 * SHARE.0;
        if cache < LEAST_CACHE {
            return Err(BESIDE + LEAST_CACHE / SHARE.0 * SHARE.1);
        }
        let buffers = (memory / 6 / REQUEST * REQUEST).min(MOST_BUFFERS);
        Ok(Budget { cache, buffers, free: (memory / 12).min(MOST_FREE) })
    }

    /// The budget of a daemon with a cache of `cache` bytes.
    pub fn usual(cache: u64) -> Budget {
        Budget { cache, buffers: MOST_BUFFERS, free: MOST_FREE }
    }

    /// Requests that the kernel may have under way by itself: each may be as large as its largest, and
    /// half of the buffers are for those of the device.
    pub fn requests(self) -> u16 {
        u16::try_from((self.buffers / REQUEST).max(4)).unwrap_or(u16::MAX)
    }

    /// The most memory of such a mount, in bytes.
    pub fn all(self) -> u64 {
        BESIDE + self.cache / SHARE.0 * SHARE.1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    #[test]
    fn blocks_get_their_share_of_what_is_left() {
        assert_eq!(Budget::usual(16 * MIB).cache, 16 * MIB);
        assert_eq!(Budget::within(576 * MIB).map(|budget| budget.cache), Ok(256 * MIB));
    }

    #[test]
    fn all_parts_together_are_within_the_promise() {
        for mib in [142_u64, 160, 192, 256, 384, 576, 1024, 8192] {
            let budget = Budget::within(mib * MIB).unwrap();
            let blocks = budget.cache / SHARE.0 * SHARE.1;
            // The kernel's requests all at once are within the buffers.
            assert!(u64::from(budget.requests()) * REQUEST <= budget.buffers.max(4 * REQUEST));
            let program = 24 * MIB;
            // A pool keeps an eighth of its bytes beside what is in use.
            let buffers = budget.buffers + budget.buffers / 8;
            let parts = blocks + buffers + budget.free + program;
            assert!(parts <= mib * MIB, "{mib}: {}", parts >> 20);
            assert!(budget.all() <= mib * MIB);
        }
    }

    #[test]
    fn too_little_memory_is_refused_with_what_is_needed() {
        assert_eq!(Budget::within(100 * MIB), Err(142 * MIB));
        assert!(Budget::within(142 * MIB).is_ok());
    }
}
