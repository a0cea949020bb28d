//! The UNIX delayed write: dirty data stays in memory for some time, so that data that is soon
//! overwritten or deleted is never written. It is the base case of the cut-and-paste paper
//! (section 5.1).

use twin_rt::{Nanos, Time};

use super::{DirtyView, FlushAdvice, FlushPolicy, FlushState, Which};

pub(super) struct Delayed {
    pub(super) age_ns: Nanos,
}

impl FlushPolicy for Delayed {
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

    fn start_bytes(&self, state: &FlushState) -> u64 {
        state.capacity_bytes / 4
    }
}
