//! The 30-second policy of SVR4: a daemon looks every few seconds and writes the files of the blocks
//! that are older than the age limit (Goodheart and Cox, "The Magic Garden Explained" (1994), on
//! `fsflush` with its parameters `tune_t_fsflushr` and `autoup`). It is the base case of the
//! experiment in "Cut-and-paste file systems", section 5.1.
//!
//! A file is written as a whole, because its blocks lie near each other.

use twin_rt::{Nanos, Time};

use super::{DirtyView, FlushAdvice, FlushPolicy, FlushState, LOOK_NS, Which};

pub(super) struct Update {
    pub(super) age_ns: Nanos,
    /// The time of the next look.
    pub(super) next: Time,
}

impl FlushPolicy for Update {
    fn advise(&mut self, now: Time, state: &FlushState, dirty: &dyn DirtyView) -> FlushAdvice {
        if state.oldest.is_none() {
            return FlushAdvice::Wait;
        }
        self.look(now, dirty)
    }

    fn start_bytes(&self, _: &FlushState) -> u64 {
        u64::MAX
    }
}

impl Update {
    /// Writes the files that have expired, if it is time to look for them.
    pub(super) fn look(&mut self, now: Time, dirty: &dyn DirtyView) -> FlushAdvice {
        if now < self.next {
            return FlushAdvice::WaitUntil(self.next);
        }
        self.next = now + LOOK_NS.min(self.age_ns.max(1));
        let old = expired(now, self.age_ns, dirty);
        match old.is_empty() {
            true => FlushAdvice::WaitUntil(self.next),
            false => FlushAdvice::Write(Which::Files(old)),
        }
    }
}

/// The files that have been dirty for at least `age_ns`.
fn expired(now: Time, age_ns: Nanos, dirty: &dyn DirtyView) -> Vec<u64> {
    let mut old = Vec::new();
    dirty.files(&mut |file| {
        let is_old = now - file.since >= age_ns;
        if is_old {
            old.push(file.ino);
        }
        is_old
    });
    old
}
