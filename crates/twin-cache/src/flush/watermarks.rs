//! The two watermarks of Linux's page cache: the flusher looks at intervals for files that have
//! expired; above the background ratio it writes the oldest files at once until less is dirty; at
//! the foreground ratio writers wait (`dirty_background_ratio`, `dirty_ratio`,
//! `dirty_expire_centisecs` and `dirty_writeback_centisecs` in the kernel's
//! Documentation/admin-guide/sysctl/vm.rst).
//!
//! Linux begins to slow writers down half way between the two ratios; here they run freely up to
//! the second one.

use twin_rt::{Nanos, Time};

use super::{
    DirtyView, FlushAdvice, FlushPolicy, FlushState, LOOK_NS, Which, oldest_files, update,
};

/// The share of the cache from which on the flusher writes in the background: one tenth.
const BACKGROUND: u64 = 10;

/// The share of the cache at which writers wait: one fifth.
const FOREGROUND: u64 = 5;

pub(super) struct Watermarks {
    pub(super) age_ns: Nanos,
    /// The time of the next look.
    pub(super) next: Time,
}

impl FlushPolicy for Watermarks {
    fn advise(&mut self, now: Time, state: &FlushState, dirty: &dyn DirtyView) -> FlushAdvice {
        if state.oldest.is_none() {
            return FlushAdvice::Wait;
        }
        let background = self.start_bytes(state);
        if state.dirty_bytes > background {
            let surplus = state.dirty_bytes - background;
            return FlushAdvice::Write(oldest_files(dirty, surplus.max(state.unit_bytes)));
        }
        if now < self.next {
            return FlushAdvice::WaitUntil(self.next);
        }
        self.next = now + LOOK_NS.min(self.age_ns.max(1));
        let old = update::expired(now, self.age_ns, dirty);
        match old.is_empty() {
            true => FlushAdvice::WaitUntil(self.next),
            false => FlushAdvice::Write(Which::Files(old)),
        }
    }

    fn start_bytes(&self, state: &FlushState) -> u64 {
        state.capacity_bytes / BACKGROUND
    }

    fn limit_bytes(&self, state: &FlushState) -> u64 {
        state.capacity_bytes / FOREGROUND
    }

    fn make_room(&mut self, state: &FlushState, dirty: &dyn DirtyView) -> Which {
        let surplus = state.dirty_bytes.saturating_sub(self.start_bytes(state));
        oldest_files(dirty, surplus.max(state.unit_bytes))
    }
}
