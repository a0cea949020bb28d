//! Twin: classes of equal death rate. What is known of a block is its history; how soon blocks
//! with such a history die is measured, not assumed.
//!
//! With every block goes a word of 32 bits: when a user last wrote it, the mean of the intervals
//! between its writes, and the cell that it was put in when it was last placed ([`word`]). A cell
//! ([`cells`]) is a kind of history: for a user's write the interval that has just ended, for a
//! move the age; in both cases the mean, and whether the last write went on where the one before
//! it ended. Deaths over exposure of a cell are its death rate, drawn to what rows and columns of
//! like cells and a scale-free guess say as long as it has seen little. Four times a volume of
//! writes the cells are sorted by rate and cut into classes of least predicted cost ([`classes`],
//! [`model`]), blocks that were moved apart from those that users wrote; a class that gains nothing
//! is not made. An open segment of a class that has fallen silent is filled by its
//! neighbour, lest its space be stranded ([`streams`]).
//!
//! Memory: 32 bits a block, and tables of about 200 KiB whatever the volume.

mod cells;
mod classes;
mod model;
mod streams;
mod word;

use super::Placement;
use crate::facts::{CleanerWrite, NO_SEGMENT, Setting, UserWrite, View};
use cells::{CELLS, Cells, MOVED_FROM};
use classes::Planner;
use streams::Streams;
use word::{Clock, Word};

/// How often classes are drawn anew while the volume is written once.
const EPOCHS_PER_VOLUME: u64 = 4;
/// Classes are first drawn after so many segments.
const FIRST_EPOCH_SEGMENTS: u64 = 4;
/// Intervals of less than this part of a segment are one burst and say nothing of the mean.
const BURST_DIVISOR: u64 = 2;
/// Writes of others may lie between two writes of a sequence: as many as there are places here.
const RECENT: usize = 64;

/// Ours.
pub(super) struct Twin {
    clock: Clock,
    cells: Cells,
    planner: Planner,
    class_of: Vec<u8>,
    streams: Streams,
    epoch_at: u64,
    /// Blocks that were just written, by their low bits.
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
            class_of: vec![0; CELLS],
            streams: Streams::new(open_segments),
            epoch_at: u64::from(setting.segment_blocks) * FIRST_EPOCH_SEGMENTS,
            recent: [u32::MAX; RECENT],
            open_segments,
        }
    }

    /// True if the block before this one was written just now.
    fn goes_on(&mut self, block: u32) -> bool {
        let slot = |block: u32| block as usize % RECENT;
        self.recent[slot(block)] = block;
        block > 0 && self.recent[slot(block - 1)] == block - 1
    }

    /// Draws the classes anew.
    #[cold]
    fn end_epoch(&mut self, view: &View<'_>) {
        let next = view.live_blocks / EPOCHS_PER_VOLUME;
        self.epoch_at = view.now + next.max(u64::from(view.segment_blocks));
        self.cells.end_epoch(view.now);
        let rates = self.cells.rates(self.clock.tick_writes());
        self.planner.plan(&rates, MOVED_FROM, self.open_segments, &mut self.class_of);
    }
}

impl Placement for Twin {
    fn user_write(&mut self, write: &UserWrite, word: &mut u64, view: &View<'_>) -> u8 {
        if view.now >= self.epoch_at {
            self.end_epoch(view);
        }
        let goes_on = self.goes_on(write.block);
        let old = Word::from_bits(*word);
        let new = if write.old_segment == NO_SEGMENT {
            self.clock.first_write(view.now, goes_on)
        } else {
            self.cells.leave(old.cell(), view.now, true);
            let burst_writes = u64::from(view.segment_blocks) / BURST_DIVISOR;
            self.clock.rewritten(old, view.now, goes_on, burst_writes, write.block)
        };
        self.cells.enter(new.cell(), view.now);
        *word = new.to_bits();
        self.streams.route(self.class_of[new.cell()], view)
    }

    fn cleaner_write(&mut self, _: &CleanerWrite, word: &mut u64, view: &View<'_>) -> u8 {
        let old = Word::from_bits(*word);
        self.cells.leave(old.cell(), view.now, false);
        let new = self.clock.moved(old, view.now);
        self.cells.enter(new.cell(), view.now);
        *word = new.to_bits();
        self.streams.route(self.class_of[new.cell()], view)
    }

    fn adopt(&mut self, written_at: u64, word: &mut u64, view: &View<'_>) {
        let new = self.clock.first_write(written_at, false);
        self.cells.enter(new.cell(), view.now);
        *word = new.to_bits();
    }

    fn trimmed(&mut self, _: u32, _: u32, word: &mut u64, view: &View<'_>) {
        self.cells.leave(Word::from_bits(*word).cell(), view.now, true);
    }
}

#[cfg(test)]
mod tests;
