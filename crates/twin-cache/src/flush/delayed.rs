//! The UNIX delayed write: dirty data waits to be overwritten or deleted before it is written.
//! The base case of the cut-and-paste paper (section 5.1).

use twin_rt::{Nanos, Time};

use super::{FlushAdvice, FlushPolicy, FlushState};

pub(super) struct Delayed {
    pub(super) age_ns: Nanos,
}

impl FlushPolicy for Delayed {
    fn advise(&mut self, now: Time, state: FlushState) -> FlushAdvice {
        match state.oldest {
            None => FlushAdvice::Wait,
            Some(_) if state.dirty_bytes >= self.start_bytes(state) => FlushAdvice::Flush(now),
            Some(oldest) if now - oldest >= self.age_ns => {
                FlushAdvice::Flush(Time(now.0 - self.age_ns))
            }
            Some(oldest) => FlushAdvice::WaitUntil(oldest + self.age_ns),
        }
    }

    fn start_bytes(&self, state: FlushState) -> u64 {
        state.capacity_bytes / 4
    }
}
