//! Writes as soon as some units of the layout are dirty. This bounds the dirty data and keeps the
//! device busy, but blocks that change often (directories, maps) are not written for each change.

use twin_rt::{Nanos, Time};

use super::{DirtyView, FlushAdvice, FlushPolicy, FlushState, Which};

pub(super) struct Segment {
    pub(super) age_ns: Nanos,
}

impl FlushPolicy for Segment {
    fn advise(&mut self, now: Time, state: &FlushState, _: &dyn DirtyView) -> FlushAdvice {
        match state.oldest {
            None => FlushAdvice::Wait,
            Some(_) if state.dirty_bytes >= self.start_bytes(state) => {
                FlushAdvice::Write(Which::All)
            }
            Some(oldest) if now - oldest >= self.age_ns => FlushAdvice::Write(Which::All),
            Some(oldest) => FlushAdvice::WaitUntil(oldest + self.age_ns),
        }
    }

    /// Eight units, or an eighth of the cache if that is less, but at least one unit.
    fn start_bytes(&self, state: &FlushState) -> u64 {
        (8 * state.unit_bytes).min(state.capacity_bytes / 8).max(state.unit_bytes)
    }
}
