//! Decides whether the cleaner is needed. Code that fills segments asks here, and the cleaner's
//! task is then woken.
//!
//! Contract: this file reads counts and wakes the task; it neither waits nor cleans.

use twin_fs::Core;

use crate::lfs::Lfs;
use crate::sizing;

impl Lfs {
    /// Clean segments below which the cleaner works on its own.
    pub fn low_water(&self) -> u32 {
        sizing::low_water(&self.sb, self.position.streams())
    }

    /// Asks the cleaner to work if clean segments are getting few, or to ask its policy if there
    /// may be something to clean.
    pub(crate) fn consider_cleaning(&self) {
        if !self.settings.background_cleaning {
            return;
        }
        if self.usage.clean_count() < self.low_water() {
            self.cleaner.request();
        } else if self.settings.trigger != twin_clean::trigger::OF_FILE_SYSTEMS && !self.is_done() {
            self.cleaner.wakes().notify();
        }
    }

    /// The time since which users have not used the device; `None` while it works.
    pub fn idle_ns(&self, core: &Core) -> Option<u64> {
        self.cleaner.idle_since().map(|since| core.rt.now() - since)
    }

    /// True if nothing was worth cleaning at the last look, and little has changed since.
    pub(super) fn is_done(&self) -> bool {
        let segment = u64::from(self.sb.segment_size);
        let writes = segment / u64::from(self.sb.geometry.frag_size) / 4;
        self.cleaner.done_at().is_some_and(|(now, live)| {
            self.usage.now() - now < writes && self.usage.live_bytes().abs_diff(live) < segment / 2
        })
    }
}
