//! Twin: classes of equal death rate. A block is described by its history; the death rate of blocks
//! with such a history is measured, not assumed.
//!
//! Each block has a word of 32 bits: when a user last wrote it, the mean of the intervals between
//! its writes, and the cell that it got when it was last placed ([`word`]). A cell ([`cells`]) is a
//! class of history: for a user's write the interval that has just ended, for a move the age; in
//! both cases also the mean, and whether the last write was sequential to the one before it. Deaths
//! over exposure of a cell give its death rate, which is drawn towards the rates of like cells (its
//! row and column) and a scale-free guess while the cell has seen little. Four times per volume of
//! writes the cells are sorted by rate and cut into classes of least predicted cost ([`classes`],
//! [`model`]), with moved blocks apart from those that users wrote, as they are before the first
//! plan; a class that saves nothing is not made. If a class is no longer written, a neighbouring
//! class fills its open segment, so that the space is not stranded ([`streams`]).
//!
//! Memory: 32 bits a block, and tables of about 200 KiB for a volume of any size.

mod cells;
mod classes;
mod model;
mod streams;
mod word;

use super::Placement;
use crate::inputs::{CleanerWrite, LogView, NO_SEGMENT, Setting, UserWrite};
use cells::{CELLS, Cells, MOVED_FROM};
use classes::Planner;
use streams::Streams;
use word::{Clock, Word};

/// Number of times that the classes are planned anew while the volume is written once.
const EPOCHS_PER_VOLUME: u64 = 4;
/// The classes are planned for the first time after this many segments.
const FIRST_EPOCH_SEGMENTS: u64 = 4;
/// Intervals of less than this part of a segment count as one burst and do not enter the mean.
const BURST_DIVISOR: u64 = 2;
/// Number of recent writes that are remembered: about this many other writes may lie between two
/// writes of a sequence.
const RECENT: usize = 64;

/// The class of a cell before the first plan: moved blocks apart.
fn apart(cell: usize, open_segments: usize) -> u8 {
    u8::from(open_segments > 1 && cell >= MOVED_FROM)
}

/// The placement policy of this project.
pub(super) struct Twin {
    clock: Clock,
    cells: Cells,
    planner: Planner,
    class_of: Vec<u8>,
    streams: Streams,
    epoch_at: u64,
    /// Blocks that were written recently, indexed by their low bits.
    recent: [u32; RECENT],
    open_segments: usize,
}

impl Twin {
    pub(super) fn new(setting: &Setting) -> Twin {
        let open_segments = usize::from(setting.open_segments.max(1));
        Twin {
            clock: Clock::new(setting.blocks),
            cells: Cells::new(),
            planner: Planner::new(setting.garbage_share),
            class_of: (0..CELLS).map(|cell| apart(cell, open_segments)).collect(),
            streams: Streams::new(open_segments),
            epoch_at: u64::from(setting.segment_blocks) * FIRST_EPOCH_SEGMENTS,
            recent: [u32::MAX; RECENT],
            open_segments,
        }
    }

    /// True if the preceding block was written recently, so that the write is sequential.
    fn is_sequential(&mut self, block: u32) -> bool {
        let slot = |block: u32| block as usize % RECENT;
        self.recent[slot(block)] = block;
        block > 0 && self.recent[slot(block - 1)] == block - 1
    }

    /// Plans the classes anew.
    #[cold]
    fn end_epoch(&mut self, view: &LogView<'_>) {
        let next = view.live_blocks / EPOCHS_PER_VOLUME;
        self.epoch_at = view.now + next.max(u64::from(view.segment_blocks));
        self.cells.end_epoch(view.now);
        let rates = self.cells.rates(self.clock.tick_writes());
        self.planner.plan(&rates, MOVED_FROM, self.open_segments, &mut self.class_of);
    }
}

impl Placement for Twin {
    fn user_write(&mut self, write: &UserWrite, word: &mut u64, view: &LogView<'_>) -> u8 {
        if view.now >= self.epoch_at {
            self.end_epoch(view);
        }
        let is_sequential = self.is_sequential(write.block);
        let old = Word::from_bits(*word);
        let new = if write.old_segment == NO_SEGMENT {
            self.clock.first_write(view.now, is_sequential)
        } else {
            self.cells.leave(old.cell(), view.now, true);
            let burst_writes = u64::from(view.segment_blocks) / BURST_DIVISOR;
            self.clock.rewritten(old, view.now, is_sequential, burst_writes, write.block)
        };
        self.cells.enter(new.cell(), view.now);
        *word = new.to_bits();
        self.streams.route(self.class_of[new.cell()], view)
    }

    fn cleaner_write(&mut self, _: &CleanerWrite, word: &mut u64, view: &LogView<'_>) -> u8 {
        let old = Word::from_bits(*word);
        self.cells.leave(old.cell(), view.now, false);
        let new = self.clock.moved(old, view.now);
        self.cells.enter(new.cell(), view.now);
        *word = new.to_bits();
        self.streams.route(self.class_of[new.cell()], view)
    }

    fn import_block(&mut self, written_at: u64, word: &mut u64, view: &LogView<'_>) {
        let new = self.clock.first_write(written_at, false);
        self.cells.enter(new.cell(), view.now);
        *word = new.to_bits();
    }

    fn trimmed(&mut self, _: u32, _: u32, word: &mut u64, view: &LogView<'_>) {
        self.cells.leave(Word::from_bits(*word).cell(), view.now, true);
    }
}

#[cfg(test)]
mod tests;
