//! The two watermarks of Linux's page cache: the flusher looks at intervals for files that have
//! expired; above the background ratio it writes the oldest files at once until less is dirty; at
//! the foreground ratio writers wait (`dirty_background_ratio`, `dirty_ratio`,
//! `dirty_expire_centisecs` and `dirty_writeback_centisecs` in the kernel's
//! Documentation/admin-guide/sysctl/vm.rst).
//!
//! Linux begins to slow writers down half way between the two ratios; here they run freely up to
//! the second one.

use twin_rt::Time;

use super::update::Update;
use super::{DirtyView, FlushAdvice, FlushPolicy, FlushState, Which, oldest_files, write_surplus};

/// The share of the cache from which on the flusher writes in the background: one tenth.
const BACKGROUND: u64 = 10;

/// The share of the cache at which writers wait: one fifth.
const FOREGROUND: u64 = 5;

pub(super) struct Watermarks {
    /// Looks for files that have expired.
    pub(super) expiry: Update,
}

impl FlushPolicy for Watermarks {
    fn advise(&mut self, now: Time, state: &FlushState, dirty: &dyn DirtyView) -> FlushAdvice {
        if state.oldest.is_none() {
            return FlushAdvice::Wait;
        }
        write_surplus(self.start_bytes(state), state, dirty)
            .unwrap_or_else(|| self.expiry.look(now, dirty))
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
