//! FK, future knowledge: blocks that will die at the same time share a segment.
//!
//! The oracle to which SepBIT (FAST 2022) is compared. The class is the remaining lifetime divided
//! by the size of a segment; the last class takes all longer lifetimes. Only a simulation knows
//! lifetimes.

use super::Placement;
use crate::inputs::{CleanerWrite, LogView, Needs, Setting, UserWrite};

pub(super) struct Fk {
    top: u64,
}

impl Fk {
    pub(super) fn new(setting: &Setting) -> Fk {
        Fk { top: u64::from(setting.open_segments.max(1)) - 1 }
    }

    fn class(&self, dies_at: u64, view: &LogView<'_>) -> u8 {
        let remaining = dies_at.saturating_sub(view.now);
        (remaining / u64::from(view.segment_blocks)).min(self.top) as u8
    }
}

impl Placement for Fk {
    fn user_write(&mut self, write: &UserWrite, word: &mut u64, view: &LogView<'_>) -> u8 {
        *word = view.now.saturating_add(write.lifetime_writes);
        self.class(*word, view)
    }

    fn cleaner_write(&mut self, _: &CleanerWrite, word: &mut u64, view: &LogView<'_>) -> u8 {
        self.class(*word, view)
    }

    fn needs(&self) -> Needs {
        Needs { future: true, ..Needs::default() }
    }
}
