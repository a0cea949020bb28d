//! Write-behind: which blocks of a file go to the disk as soon as they are written, and how large
//! the requests of a flush are. Adding a policy: a file here, a line in [`REGISTRY`].

mod block;
mod cluster;
mod delayed;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ops::Range;

use twin_fs::Ino;
use twin_settings::{Registry, RegistryEntry};

/// The state of a file that a policy keeps between two writes: 4.4BSD's `v_lastw`, `v_lasta`,
/// `v_cstart` and `v_clen`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FileState {
    /// The last block written.
    last: u64,
    last_addr: u64,
    /// The first block of the cluster that is being filled.
    start: u64,
    /// The number of blocks after the first that it will have; 0 if no cluster is being filled.
    len: u64,
}

/// A block that was written completely.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Block {
    /// Its logical block number.
    pub lbn: u64,
    /// Its address, in fragments.
    pub addr: u64,
    /// The number of fragments of a block.
    pub frags: u64,
    /// True if it ends where the file ends.
    pub at_end: bool,
    /// The number of blocks after it that follow it both in the file and on the disk, as far as
    /// known.
    pub following: u64,
    /// The number of blocks of the largest cluster.
    pub most: u64,
}

/// The writes that a policy requests.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WriteBehindAdvice {
    /// Blocks to write now, adjacent ones in one request. Before that, the blocks of the first
    /// range are moved together if possible.
    pub now: Vec<Range<u64>>,
    /// Blocks of a growing file that are not adjacent: move them together, and continue the
    /// cluster.
    pub gather: Option<Range<u64>>,
}

/// Decides when blocks are written.
pub trait WriteBehind {
    /// Called when a block was written.
    fn block_written(&self, file: &mut FileState, block: Block) -> WriteBehindAdvice;
    /// True if a flush writes adjacent blocks with one request.
    fn clusters_at_flush(&self) -> bool;
}

/// The policy of an open volume, with its state of files.
pub(crate) struct FileClusters {
    policy: Box<dyn WriteBehind>,
    files: RefCell<BTreeMap<Ino, FileState>>,
}

impl FileClusters {
    pub(crate) fn new(policy: Box<dyn WriteBehind>) -> FileClusters {
        FileClusters { policy, files: RefCell::default() }
    }

    /// A block of a file was written.
    pub(crate) fn block_written(&self, ino: Ino, block: Block) -> WriteBehindAdvice {
        self.policy.block_written(self.files.borrow_mut().entry(ino).or_default(), block)
    }

    /// See [`WriteBehind::clusters_at_flush`].
    pub(crate) fn clusters_at_flush(&self) -> bool {
        self.policy.clusters_at_flush()
    }

    /// The last block of a file was moved.
    pub(crate) fn moved(&self, ino: Ino, addr: u64) {
        if let Some(state) = self.files.borrow_mut().get_mut(&ino) {
            state.last_addr = addr;
        }
    }

    /// Called when the current cluster of a file has been written without moving its blocks.
    pub(crate) fn end_cluster(&self, ino: Ino) {
        if let Some(state) = self.files.borrow_mut().get_mut(&ino) {
            state.len = 0;
        }
    }

    /// Called when a file no longer exists.
    pub(crate) fn forget(&self, ino: Ino) {
        self.files.borrow_mut().remove(&ino);
    }
}

/// Makes the policy for a volume.
pub type Maker = fn() -> Box<dyn WriteBehind>;

/// All policies.
pub static REGISTRY: Registry<Maker> = Registry::with_default(
    "write-behind policy",
    "with-flush",
    &[
        RegistryEntry::new(
            "with-flush",
            "nothing is written before the flush policy says so, and then in clusters",
            || Box::new(delayed::WithFlush),
        ),
        RegistryEntry::new(
            "cluster",
            "full clusters at once, the rest block by block with the flush (4.4BSD)",
            || Box::new(cluster::Cluster),
        ),
        RegistryEntry::new("block", "every full block at once (4.2BSD, before clustering)", || {
            Box::new(block::EachBlock)
        }),
    ],
);

#[cfg(test)]
mod tests {
    use super::*;

    /// Writes blocks `lbns` of a file that grows, at these addresses, and gives what was pushed.
    fn run(policy: &str, blocks: &[(u64, u64)], most: u64) -> Vec<WriteBehindAdvice> {
        let policy = REGISTRY.get(policy).unwrap().make();
        let mut file = FileState::default();
        let pushes = blocks.iter().map(|&(lbn, addr)| {
            let block = Block { lbn, addr, frags: 8, at_end: true, following: 0, most };
            policy.block_written(&mut file, block)
        });
        pushes.filter(|p| *p != WriteBehindAdvice::default()).collect()
    }

    fn now(range: Range<u64>) -> WriteBehindAdvice {
        WriteBehindAdvice { now: vec![range], gather: None }
    }

    #[test]
    fn a_sequential_writer_pushes_full_clusters() {
        let blocks: Vec<_> = (0..9).map(|i| (i, 1000 + i * 8)).collect();
        assert_eq!(run("cluster", &blocks, 4), [now(0..4), now(4..8)]);
    }

    #[test]
    fn a_broken_cluster_of_a_growing_file_is_gathered() {
        let pushes = run("cluster", &[(0, 1000), (1, 1008), (2, 2000)], 8);
        assert_eq!(pushes, [WriteBehindAdvice { now: Vec::new(), gather: Some(0..3) }]);
    }

    #[test]
    fn a_writer_that_seeks_pushes_what_it_leaves() {
        let pushes = run("cluster", &[(0, 1000), (1, 1008), (5, 1040)], 8);
        assert_eq!(pushes[0], now(0..2));
    }

    #[test]
    fn without_clustering_every_block_goes_at_once() {
        assert_eq!(run("block", &[(0, 1000), (1, 1008)], 8), [now(0..1), now(1..2)]);
    }

    #[test]
    fn with_the_flush_nothing_goes_before() {
        assert_eq!(run("with-flush", &[(0, 1000), (1, 1008)], 8), []);
    }
}
