//! The more aggressive policy for which the authors of "Cut-and-paste file systems" wish in their
//! conclusions: memory must not be cluttered with dirty data when a burst of writes comes. A file is
//! written when it has not changed for some time, so that one that is being written is not written
//! twice, and the oldest files are written at once while much is dirty.

use twin_rt::{Nanos, Time};

use super::{
    DirtyView, FlushAdvice, FlushPolicy, FlushState, SHORTEST_LOOK_NS, Which, oldest_files,
    write_surplus,
};

/// A file that does not stop changing is written after this multiple of the quiet period.
const PATIENCE: u64 = 5;

pub(super) struct Eager {
    /// For how long a file must not have changed.
    pub(super) age_ns: Nanos,
}

impl FlushPolicy for Eager {
    fn advise(&mut self, now: Time, state: &FlushState, dirty: &dyn DirtyView) -> FlushAdvice {
        if state.oldest.is_none() {
            return FlushAdvice::Wait;
        }
        if let Some(advice) = write_surplus(self.start_bytes(state), state, dirty) {
            return advice;
        }
        let (mut due, mut next) = (Vec::new(), now + self.age_ns);
        dirty.files(&mut |file| {
            let at = (file.changed + self.age_ns).min(file.since + PATIENCE * self.age_ns);
            match at <= now {
                true => due.push(file.ino),
                false => next = next.min(at),
            }
            true
        });
        match due.is_empty() {
            true => FlushAdvice::WaitUntil(next.max(now + SHORTEST_LOOK_NS)),
            false => FlushAdvice::Write(Which::Files(due)),
        }
    }

    fn start_bytes(&self, state: &FlushState) -> u64 {
        state.capacity_bytes / 8
    }

    fn make_room(&mut self, state: &FlushState, dirty: &dyn DirtyView) -> Which {
        oldest_files(dirty, state.unit_bytes)
    }
}
