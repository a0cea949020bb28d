//! Every full block at once: 4.2BSD's and SunOS's behaviour before clustering (`bawrite` in
//! `rwip`).

use super::{Block, FileState, WriteBehind, WriteBehindAdvice};

pub(super) struct EachBlock;

impl WriteBehind for EachBlock {
    fn block_written(&self, _file: &mut FileState, block: Block) -> WriteBehindAdvice {
        let mut push = WriteBehindAdvice::default();
        push.now.push(block.lbn..block.lbn + 1);
        push
    }

    fn clusters_at_flush(&self) -> bool {
        false
    }
}
