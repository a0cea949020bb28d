//! Age sort: the cleaner reads several segments and writes what is live in them oldest first.
//!
//! Rosenblum and Ousterhout, "The Design and Implementation of a Log-Structured File System",
//! SOSP 1991, section 3.5, as in Sprite LFS. Users' blocks have a class of their own, as the
//! cleaner's are written together. Here four segments are cleaned at a time: more means better
//! sorting, but also more free space that waits.

use super::Placement;
use crate::facts::{CleanerWrite, UserWrite, View};

/// Segments that are cleaned together.
const BATCH: u32 = 4;

pub(super) struct AgeSort;

impl Placement for AgeSort {
    fn user_write(&mut self, _: &UserWrite, word: &mut u64, view: &View<'_>) -> u8 {
        *word = view.now;
        0
    }

    fn cleaner_write(&mut self, _: &CleanerWrite, _: &mut u64, _: &View<'_>) -> u8 {
        1
    }

    fn adopt(&mut self, written_at: u64, word: &mut u64, _: &View<'_>) {
        *word = written_at;
    }

    fn batch_segments(&self) -> u32 {
        BATCH
    }

    fn age_key(&self, word: u64) -> u64 {
        word
    }
}
