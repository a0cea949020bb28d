//! Separates user and cleaner writes: blocks that have survived a cleaning are likely to live on.
//!
//! Van Houdt, "Performance of garbage collection algorithms for flash-based solid state drives
//! with hot/cold data", Performance Evaluation 2013; called SepGC in SepBIT's comparison.

use super::Placement;
use crate::inputs::{CleanerWrite, LogView, UserWrite};

pub(super) struct SepGc;

impl Placement for SepGc {
    fn user_write(&mut self, _: &UserWrite, _: &mut u64, _: &LogView<'_>) -> u8 {
        0
    }

    fn cleaner_write(&mut self, _: &CleanerWrite, _: &mut u64, _: &LogView<'_>) -> u8 {
        1
    }

    fn class_of_moved(&self, _: u8) -> Option<u8> {
        Some(1)
    }
}
