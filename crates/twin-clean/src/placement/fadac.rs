//! FADaC: a block's writes against a fading average.
//!
//! Kremer and Brinkmann, "FADaC: A Self-adapting Data Classifier for Flash Memory", SYSTOR 2019,
//! as in SepBIT's code. A block counts up at a user's write and down at a move; the average takes
//! up each request and fades by one part in the live blocks. A level for each factor of ten that
//! the count is above the average.

use super::Placement;
use crate::facts::{CleanerWrite, Needs, Setting, UserWrite, View};

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
    fn request(&mut self, _: u32, blocks: u32, view: &View<'_>) {
        if view.live_blocks > 0 {
            self.average += (f64::from(blocks) - self.average) / view.live_blocks as f64;
        }
    }

    fn user_write(&mut self, _: &UserWrite, word: &mut u64, _: &View<'_>) -> u8 {
        *word += 1;
        self.level(*word)
    }

    fn cleaner_write(&mut self, _: &CleanerWrite, word: &mut u64, _: &View<'_>) -> u8 {
        *word = word.saturating_sub(1);
        self.level(*word)
    }

    fn needs(&self) -> Needs {
        Needs { requests: true, ..Needs::default() }
    }
}
