//! The search for a run of free blocks of the file's size, as the findings of Smith and Seltzer
//! 1994 ask for: small files get runs too, long runs stay whole for large files, and files go on in
//! their group behind the blocks of the inode.
//!
//! A write says how long the file will be, so a file that is written at once gets one run if there
//! is one. A file that grows in small writes is expected to double.

use super::{Allocation, Gather, Tail};

pub(super) struct Cluster;

impl Allocation for Cluster {
    fn run(&self, placed: u64, rest: u64) -> Option<u64> {
        Some(rest.max(placed))
    }

    fn gather(&self) -> Gather {
        Gather::Clusters
    }

    fn tail(&self) -> Tail {
        Tail::BestFit
    }
}
