//! Write as soon as a unit is full: keeps little dirty and the device busy.

use twin_rt::{Nanos, Time};

use super::{FlushAdvice, FlushPolicy, FlushState};

pub(super) struct Segment {
    pub(super) age_ns: Nanos,
}

impl FlushPolicy for Segment {
    fn advise(&mut self, now: Time, state: FlushState) -> FlushAdvice {
        match state.oldest {
            None => FlushAdvice::Wait,
            Some(_) if state.dirty_bytes >= state.unit_bytes => FlushAdvice::Flush(now),
            Some(oldest) if now - oldest >= self.age_ns => FlushAdvice::Flush(now),
            Some(oldest) => FlushAdvice::WaitUntil(oldest + self.age_ns),
        }
    }

    fn limit_bytes(&self, state: FlushState) -> u64 {
        (16 * state.unit_bytes).min(state.capacity_bytes / 2).max(2 * state.unit_bytes)
    }
}
