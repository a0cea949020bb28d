//! 4.4BSD's allocation, and that of SunOS with `reallocate=no`: the next free block of the group
//! (Smith and Seltzer 1994, section 2).

use super::{Allocation, Gather, Tail};

pub(super) struct FirstFit;

impl Allocation for FirstFit {
    fn run(&self, _placed: u64, _rest: u64) -> Option<u64> {
        None
    }

    fn gather(&self) -> Gather {
        Gather::Clusters
    }

    fn tail(&self) -> Tail {
        Tail::BestFit
    }
}
