//! Everything waits for the flush: data that is soon deleted is never written, and data that is
//! written forms clusters.

use super::{Block, FileState, WriteBehind, WriteBehindAdvice};

pub(super) struct WithFlush;

impl WriteBehind for WithFlush {
    fn block_written(&self, _file: &mut FileState, _block: Block) -> WriteBehindAdvice {
        WriteBehindAdvice::default()
    }

    fn clusters_at_flush(&self) -> bool {
        true
    }
}
