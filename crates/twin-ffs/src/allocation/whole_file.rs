//! As `tail-behind`, with the places of a file's new blocks chosen again when it is written. By then
//! its size is known, however small its writes were, as with delayed allocation (ext4, xfs). Unlike
//! there, blocks that wait to be written hold places, which makes the search harder on a full volume
//! and keeps the code that writes metadata free of blocks without places.

use super::{Allocation, Gather, Tail, tail_behind::TailBehind};

pub(super) struct WholeFile;

impl Allocation for WholeFile {
    fn run(&self, placed: u64, rest: u64) -> Option<u64> {
        TailBehind.run(placed, rest)
    }

    fn gather(&self) -> Gather {
        Gather::WholeFile
    }

    fn tail(&self) -> Tail {
        TailBehind.tail()
    }
}
