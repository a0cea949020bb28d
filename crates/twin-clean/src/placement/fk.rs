//! FK, future knowledge: blocks that will die at the same time lie together.
//!
//! The oracle that SepBIT (FAST 2022) is compared with. Class: remaining lifetime over the size
//! of a segment, all that is longer in the last. Only a simulation knows lifetimes.

use super::Placement;
use crate::facts::{CleanerWrite, Needs, Setting, UserWrite, View};

pub(super) struct Fk {
    top: u64,
}

impl Fk {
    pub(super) fn new(setting: &Setting) -> Fk {
        Fk { top: u64::from(setting.open_segments.max(1)) - 1 }
    }

    fn class(&self, dies_at: u64, view: &View<'_>) -> u8 {
        let remaining = dies_at.saturating_sub(view.now);
        (remaining / u64::from(view.segment_blocks)).min(self.top) as u8
    }
}

impl Placement for Fk {
    fn user_write(&mut self, write: &UserWrite, word: &mut u64, view: &View<'_>) -> u8 {
        *word = view.now.saturating_add(write.lifetime_writes);
        self.class(*word, view)
    }

    fn cleaner_write(&mut self, _: &CleanerWrite, word: &mut u64, view: &View<'_>) -> u8 {
        self.class(*word, view)
    }

    fn needs(&self) -> Needs {
        Needs { future: true, ..Needs::default() }
    }
}
