//! Every full block at once: 4.2BSD's and SunOS's behaviour before clustering (`bawrite` in
//! `rwip`).

use super::{Block, FileState, Push, WriteBehind};

pub(super) struct EachBlock;

impl WriteBehind for EachBlock {
    fn wrote(&self, _file: &mut FileState, block: Block) -> Push {
        Push { now: vec![block.lbn..block.lbn + 1], gather: None }
    }

    fn clusters_at_flush(&self) -> bool {
        false
    }
}
