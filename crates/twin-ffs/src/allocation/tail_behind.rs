//! As `cluster`, with fragments behind the block before them: the paper counts 0.33 for files of two
//! blocks because their fragments go elsewhere (section 4.2). It costs whole blocks: the rest of a
//! broken block serves small files only.

use super::{Allocation, Gather, Tail, cluster::Cluster};

pub(super) struct TailBehind;

impl Allocation for TailBehind {
    fn run(&self, placed: u64, rest: u64) -> Option<u64> {
        Cluster.run(placed, rest)
    }

    fn gather(&self) -> Gather {
        Gather::Clusters
    }

    fn tail(&self) -> Tail {
        Tail::Behind
    }
}
