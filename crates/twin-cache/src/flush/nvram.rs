//! Dirty data lies in memory that survives a power failure, and nowhere else. When that memory is
//! full, the oldest block is written, alone or with all of its file ("Cut-and-paste file systems",
//! section 5.1; Baker and others, "Non-volatile memory for fast, reliable file systems", 1992).

use twin_rt::Time;

use super::{DirtyView, FlushAdvice, FlushPolicy, FlushState, Which, oldest_file};

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

    fn make_room(&mut self, _: &FlushState, dirty: &dyn DirtyView) -> Which {
        let mut oldest = None;
        dirty.blocks(&mut |block| {
            oldest = Some((block.ino, block.lbn));
            false
        });
        match oldest {
            Some((ino, _)) if self.whole_files => Which::Files(vec![ino]),
            Some(block) => Which::Blocks(vec![block]),
            // What is dirty has no blocks: attributes and small files.
            None => match oldest_file(dirty) {
                Some(file) => Which::Files(vec![file.ino]),
                None => Which::All,
            },
        }
    }
}
