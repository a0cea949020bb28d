//! F2FS-like: six logs, by the kind of a block and by whether the cleaner moves it.
//!
//! Lee, Sim, Hwang and Cho, "F2FS: A New File System for Flash Storage", FAST 2015, section 2.3:
//! three temperatures of nodes and three of data. Inodes of directories are hot nodes, other inodes
//! warm, pointers cold; directory entries are hot data, file data warm, and data that the cleaner
//! moves cold. On a bare volume, which holds file data only, the policy separates user and cleaner
//! writes.

use super::Placement;
use crate::inputs::{BlockKind, CleanerWrite, LogView, UserWrite};

const HOT_DATA: u8 = 0;
const WARM_DATA: u8 = 1;
const COLD_DATA: u8 = 2;
const HOT_NODE: u8 = 3;
const WARM_NODE: u8 = 4;
const COLD_NODE: u8 = 5;

pub(super) struct F2fs;

fn class(kind: BlockKind) -> u8 {
    match kind {
        BlockKind::Data => WARM_DATA,
        BlockKind::Directory => HOT_DATA,
        BlockKind::DirectoryInode => HOT_NODE,
        BlockKind::Inode => WARM_NODE,
        BlockKind::Indirect => COLD_NODE,
    }
}

impl Placement for F2fs {
    fn user_write(&mut self, write: &UserWrite, _: &mut u64, _: &LogView<'_>) -> u8 {
        class(write.kind)
    }

    fn cleaner_write(&mut self, write: &CleanerWrite, _: &mut u64, _: &LogView<'_>) -> u8 {
        match class(write.kind) {
            HOT_DATA | WARM_DATA => COLD_DATA,
            node => node,
        }
    }
}
