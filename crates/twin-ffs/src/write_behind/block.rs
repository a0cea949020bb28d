//! Every full block at once: 4.2BSD's and SunOS's behaviour before clustering (`bawrite` in
//! `rwip`).

use super::{Block, FileState, Push, WriteBehind};

pub(super) struct EachBlock;

impl WriteBehind for EachBlock {
    fn wrote(&self, _file: &mut FileState, block: Block) -> Push {
        let mut push = Push::default();
        push.now.push(block.lbn..block.lbn + 1);
        push
    }

    fn clusters_at_flush(&self) -> bool {
        false
    }
}
