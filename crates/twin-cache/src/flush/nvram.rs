//! Dirty data lies in memory that survives a power failure, and nowhere else. When that memory is
//! full, the oldest block is written for each block that is needed, alone or with all of its file
//! ("Cut-and-paste file systems", section 5.1; Baker and others, "Non-volatile memory for fast,
//! reliable file systems", 1992).

use std::collections::BTreeSet;

use twin_rt::Time;

use super::{DirtyView, FlushAdvice, FlushPolicy, FlushState, Which, oldest_file};
use crate::Lbn;

pub(super) struct Nvram {
    /// Write the file of the oldest block, not the block alone.
    pub(super) whole_files: bool,
}

impl FlushPolicy for Nvram {
    fn advise(&mut self, _: Time, _: &FlushState, _: &dyn DirtyView) -> FlushAdvice {
        FlushAdvice::Wait
    }

    fn start_bytes(&self, _: &FlushState) -> u64 {
        u64::MAX
    }

    fn limit_bytes(&self, state: &FlushState) -> u64 {
        // It is a part of the cache, of which some must be left for clean blocks.
        state.nvram_bytes.min(state.capacity_bytes / 16 * 15)
    }

    fn make_room(&mut self, state: &FlushState, dirty: &dyn DirtyView) -> Which {
        let blocks = match self.whole_files {
            true => oldest_of_different_files(state, dirty),
            false => oldest_blocks(state, dirty),
        };
        match blocks.is_empty() {
            false if self.whole_files => Which::Files(blocks.iter().map(|(ino, _)| *ino).collect()),
            false => Which::Blocks(blocks),
            // What is dirty has no blocks: attributes and small files.
            true => match oldest_file(dirty) {
                Some(file) => Which::Files(vec![file.ino]),
                None => Which::All,
            },
        }
    }
}

/// The oldest blocks, of at least the wanted bytes together.
fn oldest_blocks(state: &FlushState, dirty: &dyn DirtyView) -> Vec<(u64, Lbn)> {
    let mut blocks = Vec::new();
    dirty.blocks(&mut |block| {
        blocks.push((block.ino, block.lbn));
        (blocks.len() as u64) * state.frame_bytes < state.wanted_bytes
    });
    blocks
}

/// The oldest blocks of files that have at least the wanted bytes together, one of each.
fn oldest_of_different_files(state: &FlushState, dirty: &dyn DirtyView) -> Vec<(u64, Lbn)> {
    let (mut blocks, mut named, mut sum) = (Vec::new(), BTreeSet::new(), 0);
    dirty.blocks(&mut |block| {
        if named.insert(block.ino) {
            blocks.push((block.ino, block.lbn));
            sum += dirty.file(block.ino).map_or(0, |file| file.bytes);
        }
        sum < state.wanted_bytes
    });
    blocks
}
