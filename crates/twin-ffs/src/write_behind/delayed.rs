//! Everything waits for the flush: data that is deleted soon is never written, and what is
//! written lies in clusters.

use super::{Block, FileState, Push, WriteBehind};

pub(super) struct WithFlush;

impl WriteBehind for WithFlush {
    fn wrote(&self, _file: &mut FileState, _block: Block) -> Push {
        Push::default()
    }

    fn clusters_at_flush(&self) -> bool {
        true
    }
}
