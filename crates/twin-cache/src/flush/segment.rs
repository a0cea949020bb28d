//! Writes as soon as some units of the layout are dirty. This bounds the dirty data and keeps the
//! device busy, but blocks that change often (directories, maps) are not written for each change.

use twin_rt::{Nanos, Time};

use super::{FlushAdvice, FlushPolicy, FlushState};

pub(super) struct Segment {
    pub(super) age_ns: Nanos,
}

impl FlushPolicy for Segment {
    fn advise(&mut self, now: Time, state: FlushState) -> FlushAdvice {
        match state.oldest {
            None => FlushAdvice::Wait,
            Some(_) if state.dirty_bytes >= start_bytes(state) => FlushAdvice::Flush,
            Some(oldest) if now - oldest >= self.age_ns => FlushAdvice::Flush,
            Some(oldest) => FlushAdvice::WaitUntil(oldest + self.age_ns),
        }
    }

    fn start_bytes(&self, state: FlushState) -> u64 {
        start_bytes(state)
    }
}

/// Eight units, or an eighth of the cache if that is less, but at least one unit.
fn start_bytes(state: FlushState) -> u64 {
    (8 * state.unit_bytes).min(state.capacity_bytes / 8).max(state.unit_bytes)
}
