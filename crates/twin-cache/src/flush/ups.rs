//! An uninterruptible power supply: nothing is written until memory is needed, because all of it
//! survives a power failure. The naive policy of "Cut-and-paste file systems", section 5.1, whose
//! trace 5 shows what is wrong with it: large writes fill the memory and then everybody waits.

use twin_rt::Time;

use super::{DirtyView, FlushAdvice, FlushPolicy, FlushState, Which, oldest_files};

/// The share of the cache that is left for clean blocks: one sixteenth.
const CLEAN: u64 = 16;

pub(super) struct Ups;

impl FlushPolicy for Ups {
    fn advise(&mut self, _: Time, _: &FlushState, _: &dyn DirtyView) -> FlushAdvice {
        FlushAdvice::Wait
    }

    fn start_bytes(&self, _: &FlushState) -> u64 {
        u64::MAX
    }

    fn limit_bytes(&self, state: &FlushState) -> u64 {
        state.capacity_bytes - state.capacity_bytes / CLEAN
    }

    fn make_room(&mut self, state: &FlushState, dirty: &dyn DirtyView) -> Which {
        oldest_files(dirty, state.unit_bytes)
    }
}
