//! 4.4BSD-LFS counts buffers, not bytes: it writes the log when a part of them, less ten, are dirty
//! (sys/ufs/lfs/lfs_bio.c, lfs_check and WRITE_THRESHHOLD): a quarter in versions 7.15 to 7.18, from
//! 21 August 1992 on, and a half from 7.19 of 10 December 1992 to the last, 8.10. There is a buffer for
//! each page of 4 KB of the memory for them, whatever it holds (sys/sparc/sparc/machdep.c, cpu_startup:
//! nbuf). Indirect blocks do not count: they become dirty only when the log is written (lfs_segment.c,
//! lfs_updatemeta).

use twin_rt::{Nanos, Time};

use super::{DirtyView, FlushAdvice, FlushPolicy, FlushState, Which};

/// Bytes of memory for each buffer.
const PAGE_BYTES: u64 = 4096;
/// Buffers that are left out.
const LESS: u64 = 10;

pub(super) struct Buffers {
    pub(super) age_ns: Nanos,
    /// One in this many buffers may be dirty.
    pub(super) one_in: u64,
}

impl Buffers {
    /// Bytes of dirty data from which on the log is written.
    fn most_bytes(&self, state: &FlushState) -> u64 {
        let buffers = state.capacity_bytes / PAGE_BYTES / self.one_in;
        buffers.saturating_sub(LESS).max(1) * state.frame_bytes
    }
}

impl FlushPolicy for Buffers {
    fn advise(&mut self, now: Time, state: &FlushState, _: &dyn DirtyView) -> FlushAdvice {
        match state.oldest {
            None => FlushAdvice::Wait,
            Some(_) if state.data_bytes > self.most_bytes(state) => FlushAdvice::Write(Which::All),
            Some(oldest) if now - oldest >= self.age_ns => FlushAdvice::Write(Which::All),
            Some(oldest) => FlushAdvice::WaitUntil(oldest + self.age_ns),
        }
    }

    fn start_bytes(&self, state: &FlushState) -> u64 {
        // Indirect blocks may be among what becomes dirty, so the policy may be asked too early.
        state.dirty_bytes + self.most_bytes(state).saturating_sub(state.data_bytes)
    }

    fn limit_bytes(&self, state: &FlushState) -> u64 {
        // WAIT_THRESHHOLD: a half of the buffers less ten where a quarter makes the log be written, and
        // three quarters where a half does.
        let quarters = if self.one_in == 4 { 2 } else { 3 };
        let buffers = state.capacity_bytes / PAGE_BYTES * quarters / 4;
        let most = buffers.saturating_sub(LESS).max(1) * state.frame_bytes;
        most.min(state.capacity_bytes).max(state.capacity_bytes / 2)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flush::{DirtyBlock, DirtyFile};

    struct NoView;

    impl DirtyView for NoView {
        fn blocks(&self, _: &mut dyn FnMut(&DirtyBlock) -> bool) {}

        fn files(&self, _: &mut dyn FnMut(&DirtyFile) -> bool) {}

        fn file(&self, _: u64) -> Option<DirtyFile> {
            None
        }

        fn place(&self, _: u64, _: crate::Lbn) -> Option<u64> {
            None
        }
    }

    #[test]
    fn a_part_of_the_buffers_less_ten_may_be_dirty_and_indirect_blocks_do_not_count() {
        let advise = |one_in: u64, frames: u64, frame_bytes: u64| {
            let mut policy = Buffers { age_ns: 30 * twin_rt::SECS, one_in };
            let state = FlushState {
                dirty_bytes: (frames + 60) * frame_bytes,
                data_bytes: frames * frame_bytes,
                frame_bytes,
                oldest: Some(Time(0)),
                capacity_bytes: 2 << 20,
                unit_bytes: 1 << 20,
                nvram_bytes: 0,
                wanted_bytes: 0,
            };
            policy.advise(Time(1), &state, &NoView)
        };
        for frame_bytes in [4096, 8192] {
            for (one_in, most) in [(4, 118), (2, 246)] {
                let waits = advise(one_in, most, frame_bytes);
                assert_eq!(waits, FlushAdvice::WaitUntil(Time(30 * twin_rt::SECS)));
                assert_eq!(advise(one_in, most + 1, frame_bytes), FlushAdvice::Write(Which::All));
            }
        }
    }
}
