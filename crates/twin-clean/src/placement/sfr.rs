//! SFR: sequentiality, frequency, recency.
//!
//! Yang, Pandurangan, Choi and Balakrishnan, "AutoStream: Automatic Stream Management for
//! Multi-streamed SSDs", SYSTOR 2017. Chunks of 512 blocks count their writes; the count is halved
//! for every 16,384 blocks written meanwhile. The class is the logarithm of the count, except that
//! a request that begins where the last one ended stays in the class of that one. The last class is
//! the cleaner's.

use super::Placement;
use crate::inputs::{CleanerWrite, LogView, Needs, Setting, UserWrite};

const CHUNK_BLOCKS: u32 = 512;
const DECAY_WRITES: u64 = 16_384;

pub(super) struct Sfr {
    /// For each chunk: writes, decayed, and the moment of the last.
    chunks: Vec<(u64, u64)>,
    end_of_last: u32,
    is_sequential: bool,
    last_class: u8,
    cleaner_class: u8,
}

impl Sfr {
    pub(super) fn new(setting: &Setting) -> Sfr {
        Sfr {
            chunks: vec![(0, 0); setting.blocks.div_ceil(CHUNK_BLOCKS) as usize],
            end_of_last: 0,
            is_sequential: false,
            last_class: 0,
            cleaner_class: setting.open_segments.max(2) - 1,
        }
    }
}

impl Placement for Sfr {
    fn request(&mut self, first_block: u32, blocks: u32, view: &LogView<'_>) {
        self.is_sequential = first_block == self.end_of_last;
        self.end_of_last = first_block + blocks;
        let last = (first_block + blocks.max(1) - 1) / CHUNK_BLOCKS;
        for number in first_block / CHUNK_BLOCKS..=last {
            let (writes, last_at) = &mut self.chunks[number as usize];
            let halvings = ((view.now - *last_at) / DECAY_WRITES).min(63);
            *writes = (*writes >> halvings) + 1;
            *last_at = view.now;
        }
    }

    fn user_write(&mut self, write: &UserWrite, _: &mut u64, _: &LogView<'_>) -> u8 {
        if !self.is_sequential {
            let (writes, _) = self.chunks[(write.block / CHUNK_BLOCKS) as usize];
            self.last_class = ((writes.max(1) as f64).ln() as u8).min(self.cleaner_class - 1);
        }
        self.last_class
    }

    fn cleaner_write(&mut self, _: &CleanerWrite, _: &mut u64, _: &LogView<'_>) -> u8 {
        self.cleaner_class
    }

    fn needs(&self) -> Needs {
        Needs { requests: true, ..Needs::default() }
    }
}
