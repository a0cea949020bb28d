//! Age sort: the cleaner reads several segments and writes their live blocks oldest first.
//!
//! Rosenblum and Ousterhout, "The Design and Implementation of a Log-Structured File System", SOSP
//! 1991, section 3.5, as in Sprite LFS. Users' blocks have one class and the cleaner's blocks
//! another. Here four segments are cleaned at a time: more segments sort better, but also hold back
//! more free space.

use super::Placement;
use crate::inputs::{CleanerWrite, LogView, MovedBlock, UserWrite};

/// Segments that are cleaned together.
const BATCH: u32 = 4;

pub(super) struct AgeSort;

impl Placement for AgeSort {
    fn user_write(&mut self, _: &UserWrite, word: &mut u64, view: &LogView<'_>) -> u8 {
        *word = view.now;
        0
    }

    fn cleaner_write(&mut self, _: &CleanerWrite, _: &mut u64, _: &LogView<'_>) -> u8 {
        1
    }

    fn import_block(&mut self, written_at: u64, word: &mut u64, _: &LogView<'_>) {
        *word = written_at;
    }

    fn batch_segments(&self) -> u32 {
        BATCH
    }

    fn move_key(&self, block: &MovedBlock) -> (u64, i64) {
        (block.word, 0)
    }
}
