//! DAC, dynamic data clustering: a ladder of temperatures.
//!
//! Chiang, Lee and Chang, "Using data clustering to improve cleaning performance for flash memory",
//! Software: Practice and Experience 1999. Each block has a level, 0 at first; a user's write
//! raises it by one, a move by the cleaner lowers it by one.

use super::Placement;
use crate::inputs::{CleanerWrite, LogView, NO_SEGMENT, Setting, UserWrite};

pub(super) struct Dac {
    top: u64,
}

impl Dac {
    pub(super) fn new(setting: &Setting) -> Dac {
        Dac { top: u64::from(setting.open_segments.max(1)) - 1 }
    }
}

impl Placement for Dac {
    fn user_write(&mut self, write: &UserWrite, word: &mut u64, _: &LogView<'_>) -> u8 {
        *word = if write.old_segment == NO_SEGMENT { 0 } else { (*word + 1).min(self.top) };
        *word as u8
    }

    fn cleaner_write(&mut self, _: &CleanerWrite, word: &mut u64, _: &LogView<'_>) -> u8 {
        *word = word.saturating_sub(1);
        *word as u8
    }
}
