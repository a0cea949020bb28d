//! File sort: the cleaner reads several segments and writes their live blocks file by file, so that what
//! is read together lies together.
//!
//! Rosenblum and Ousterhout, "The Design and Implementation of a Log-Structured File System", SOSP
//! 1991, section 3.4, name it as a possibility: "to try to enhance the locality of future reads, for
//! example by grouping files in the same directory together". Files have no directory here, but those of
//! one directory are mostly made one after the other, with numbers that follow each other. Users' blocks
//! have one class and the cleaner's blocks another. A bare volume sorts by block number.

use super::Placement;
use crate::inputs::{CleanerWrite, LogView, MovedBlock, UserWrite};

/// Segments that are cleaned together: twice as many as for a sort by age, since the pieces of a file are
/// far apart.
const BATCH: u32 = 8;

pub(super) struct FileSort;

impl Placement for FileSort {
    fn user_write(&mut self, _: &UserWrite, _: &mut u64, _: &LogView<'_>) -> u8 {
        0
    }

    fn cleaner_write(&mut self, _: &CleanerWrite, _: &mut u64, _: &LogView<'_>) -> u8 {
        1
    }

    fn class_of_moved(&self, _: u8) -> Option<u8> {
        Some(1)
    }

    fn batch_segments(&self) -> u32 {
        BATCH
    }

    fn move_key(&self, block: &MovedBlock) -> (u64, i64) {
        (block.file, block.number)
    }
}
