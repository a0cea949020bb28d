//! The UNIX delayed write: dirty data stays in memory for some time, so that data that is soon
//! overwritten or deleted is never written. It is the base case of the cut-and-paste paper
//! (section 5.1).

use twin_rt::{Nanos, Time};

use super::{FlushAdvice, FlushPolicy, FlushState};

pub(super) struct Delayed {
    pub(super) age_ns: Nanos,
}

impl FlushPolicy for Delayed {
    fn advise(&mut self, now: Time, state: FlushState) -> FlushAdvice {
        match state.oldest {
            None => FlushAdvice::Wait,
            Some(_) if state.dirty_bytes >= self.start_bytes(state) => FlushAdvice::Flush,
            Some(oldest) if now - oldest >= self.age_ns => FlushAdvice::Flush,
            Some(oldest) => FlushAdvice::WaitUntil(oldest + self.age_ns),
        }
    }

    fn start_bytes(&self, state: FlushState) -> u64 {
        state.capacity_bytes / 4
    }
}
