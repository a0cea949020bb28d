//! No separation: all blocks share one open segment.

use super::Placement;
use crate::inputs::{CleanerWrite, LogView, UserWrite};

pub(super) struct NoSeparation;

impl Placement for NoSeparation {
    fn user_write(&mut self, _: &UserWrite, _: &mut u64, _: &LogView<'_>) -> u8 {
        0
    }

    fn cleaner_write(&mut self, _: &CleanerWrite, _: &mut u64, _: &LogView<'_>) -> u8 {
        0
    }

    fn class_of_moved(&self, _: u8) -> Option<u8> {
        Some(0)
    }
}
