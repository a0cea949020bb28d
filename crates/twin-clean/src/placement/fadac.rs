//! FADaC: the number of a block's writes compared with a fading average.
//!
//! Kremer and Brinkmann, "FADaC: A Self-adapting Data Classifier for Flash Memory", SYSTOR 2019, as
//! in SepBIT's code. A user's write increments the count of a block and a move decrements it; the
//! average takes in each request and fades by one part in the number of live blocks. The level
//! rises by one for each factor of ten by which the count exceeds the average.

use super::Placement;
use crate::inputs::{CleanerWrite, LogView, Needs, Setting, UserWrite};

const FACTOR: f64 = 10.0;

pub(super) struct Fadac {
    average: f64,
    top: u8,
}

impl Fadac {
    pub(super) fn new(setting: &Setting) -> Fadac {
        Fadac { average: 0.0, top: setting.open_segments.max(1) - 1 }
    }

    fn level(&self, count: u64) -> u8 {
        let (mut base, mut level) = (self.average, 0);
        while base > 0.0 && count as f64 > base && level < self.top {
            base *= FACTOR;
            level += 1;
        }
        level
    }
}

impl Placement for Fadac {
    fn request(&mut self, _: u32, blocks: u32, view: &LogView<'_>) {
        if view.live_blocks > 0 {
            self.average += (f64::from(blocks) - self.average) / view.live_blocks as f64;
        }
    }

    fn user_write(&mut self, _: &UserWrite, word: &mut u64, _: &LogView<'_>) -> u8 {
        *word += 1;
        self.level(*word)
    }

    fn cleaner_write(&mut self, _: &CleanerWrite, word: &mut u64, _: &LogView<'_>) -> u8 {
        *word = word.saturating_sub(1);
        self.level(*word)
    }

    fn needs(&self) -> Needs {
        Needs { requests: true, ..Needs::default() }
    }
}
