//! 4.4BSD-LFS counts buffers, not bytes: it writes the log when a quarter of them, less ten, are
//! dirty (sys/ufs/lfs/lfs_bio.c, lfs_check and WRITE_THRESHHOLD). There is a buffer for each page of
//! 4 KB of the memory for them, whatever it holds (sys/sparc/sparc/machdep.c, cpu_startup: nbuf).
//! Indirect blocks do not count: they become dirty only when the log is written
//! (lfs_segment.c, lfs_updatemeta).

use twin_rt::{Nanos, Time};

use super::{DirtyView, FlushAdvice, FlushPolicy, FlushState, Which};

/// Bytes of memory for each buffer.
const PAGE_BYTES: u64 = 4096;
/// Buffers that are left out.
const LESS: u64 = 10;

pub(super) struct Buffers {
    pub(super) age_ns: Nanos,
}

/// Bytes of dirty data from which on the log is written.
fn most_bytes(state: &FlushState) -> u64 {
    let buffers = state.capacity_bytes / PAGE_BYTES / 4;
    buffers.saturating_sub(LESS).max(1) * state.frame_bytes
}

impl FlushPolicy for Buffers {
    fn advise(&mut self, now: Time, state: &FlushState, _: &dyn DirtyView) -> FlushAdvice {
        match state.oldest {
            None => FlushAdvice::Wait,
            Some(_) if state.data_bytes > most_bytes(state) => FlushAdvice::Write(Which::All),
            Some(oldest) if now - oldest >= self.age_ns => FlushAdvice::Write(Which::All),
            Some(oldest) => FlushAdvice::WaitUntil(oldest + self.age_ns),
        }
    }

    fn start_bytes(&self, state: &FlushState) -> u64 {
        // Indirect blocks may be among what becomes dirty, so the policy may be asked too early.
        state.dirty_bytes + most_bytes(state).saturating_sub(state.data_bytes)
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
    fn a_quarter_of_the_buffers_less_ten_may_be_dirty_and_indirect_blocks_do_not_count() {
        let mut policy = Buffers { age_ns: 30 * twin_rt::SECS };
        let mut advise = |frames: u64, frame_bytes: u64| {
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
            assert_eq!(advise(118, frame_bytes), FlushAdvice::WaitUntil(Time(30 * twin_rt::SECS)));
            assert_eq!(advise(119, frame_bytes), FlushAdvice::Write(Which::All));
        }
    }
}
