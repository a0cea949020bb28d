//! SepBIT: the lifespan of a block is estimated from that of the block it overwrites, or from its
//! age.
//!
//! Wang, Li, Lee, Lyu, Lee, Pang and Yang, "Separating Data via Block Invalidation Time Inference
//! for Write Amplification Reduction in Log-Structured Storage", FAST 2022. L is the mean lifespan,
//! in user writes from opening to cleaning, of the last 16 segments of class 0 that were cleaned;
//! it is infinite until then. A block without an old copy counts as long-lived.

use super::Placement;
use crate::inputs::{CleanerWrite, LogView, NO_SEGMENT, SegmentInfo, UserWrite};

/// Segments of class 0 over which the lifespan is averaged.
const SEGMENTS: u64 = 16;

pub(super) struct SepBit {
    lifespan_writes: f64,
    sum_writes: u64,
    segments: u64,
}

impl SepBit {
    pub(super) fn new() -> SepBit {
        SepBit { lifespan_writes: f64::INFINITY, sum_writes: 0, segments: 0 }
    }
}

/// User writes since the moment in the word, modulo 2^32.
fn age(word: u64, now: u64) -> f64 {
    f64::from((now as u32).wrapping_sub(word as u32))
}

impl Placement for SepBit {
    fn user_write(&mut self, write: &UserWrite, word: &mut u64, view: &LogView<'_>) -> u8 {
        let lived = age(*word, view.now);
        *word = u64::from(view.now as u32);
        u8::from(write.old_segment == NO_SEGMENT || lived >= self.lifespan_writes)
    }

    fn cleaner_write(&mut self, write: &CleanerWrite, word: &mut u64, view: &LogView<'_>) -> u8 {
        let age = age(*word, view.now);
        match write.victim_class {
            0 => 2,
            _ if age < 4.0 * self.lifespan_writes => 3,
            _ if age < 16.0 * self.lifespan_writes => 4,
            _ => 5,
        }
    }

    fn import_block(&mut self, written_at: u64, word: &mut u64, _: &LogView<'_>) {
        *word = u64::from(written_at as u32);
    }

    fn collected(&mut self, segment: &SegmentInfo, view: &LogView<'_>) {
        if segment.class != 0 {
            return;
        }
        self.sum_writes += view.now - segment.opened_at;
        self.segments += 1;
        if self.segments == SEGMENTS {
            self.lifespan_writes = self.sum_writes as f64 / SEGMENTS as f64;
            (self.sum_writes, self.segments) = (0, 0);
        }
    }
}
