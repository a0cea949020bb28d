//! Write-behind: which blocks of a file go to the disk as soon as they are written, and how large
//! the requests of a flush are. Adding a policy: a file here, a line in [`registry`].

mod block;
mod cluster;
mod delayed;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ops::Range;

use twin_fs::Ino;

/// What a policy remembers of a file between two writes: 4.4BSD's `v_lastw`, `v_lasta`, `v_cstart`
/// and `v_clen`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FileState {
    /// The last block written.
    last: u64,
    /// Its address.
    last_addr: u64,
    /// The first block of the cluster that is being filled.
    start: u64,
    /// Blocks that it will have after the first; 0: no cluster is being filled.
    len: u64,
}

/// A block that was written whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Block {
    /// Which one.
    pub lbn: u64,
    /// Its address, in fragments.
    pub addr: u64,
    /// Fragments of a block.
    pub frags: u64,
    /// It ends where the file ends.
    pub at_end: bool,
    /// Blocks after it in the file that follow it on the disk, as far as is known.
    pub following: u64,
    /// Blocks of the largest cluster.
    pub most: u64,
}

/// What a policy wants.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Push {
    /// Blocks to write now, in one request as far as they lie together; the first range is tried
    /// to be moved together before.
    pub now: Vec<Range<u64>>,
    /// The file grows and these blocks do not lie together: move them together, and go on.
    pub gather: Option<Range<u64>>,
}

/// Decides what is written when.
pub trait WriteBehind {
    /// A block was written.
    fn wrote(&self, file: &mut FileState, block: Block) -> Push;
    /// Blocks that lie together are written with one request when they are flushed.
    fn clusters_at_flush(&self) -> bool;
}

/// The policy of an open volume, with what it remembers of files.
pub(crate) struct FileClusters {
    policy: Box<dyn WriteBehind>,
    files: RefCell<BTreeMap<Ino, FileState>>,
}

impl FileClusters {
    pub(crate) fn new(policy: Box<dyn WriteBehind>) -> FileClusters {
        FileClusters { policy, files: RefCell::default() }
    }

    /// A block of a file was written.
    pub(crate) fn wrote(&self, ino: Ino, block: Block) -> Push {
        self.policy.wrote(self.files.borrow_mut().entry(ino).or_default(), block)
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

    /// The cluster of a file that was being filled has been written as it lay.
    pub(crate) fn end_cluster(&self, ino: Ino) {
        if let Some(state) = self.files.borrow_mut().get_mut(&ino) {
            state.len = 0;
        }
    }

    /// A file is no more.
    pub(crate) fn forget(&self, ino: Ino) {
        self.files.borrow_mut().remove(&ino);
    }
}

/// A policy by name.
pub struct Entry {
    /// What settings call it.
    pub name: &'static str,
    /// One line for people.
    pub about: &'static str,
    make: fn() -> Box<dyn WriteBehind>,
}

impl Entry {
    /// The policy.
    pub fn build(&self) -> Box<dyn WriteBehind> {
        (self.make)()
    }
}

/// All policies; the first is the default.
pub fn registry() -> &'static [Entry] {
    &[
        Entry {
            name: "with-flush",
            about: "nothing is written before the flush policy says so, and then in clusters",
            make: || Box::new(delayed::WithFlush),
        },
        Entry {
            name: "cluster",
            about: "full clusters at once, the rest block by block with the flush (4.4BSD)",
            make: || Box::new(cluster::Cluster),
        },
        Entry {
            name: "block",
            about: "every full block at once (4.2BSD, before clustering)",
            make: || Box::new(block::EachBlock),
        },
    ]
}

/// The policy called `name`.
pub fn by_name(name: &str) -> Option<&'static Entry> {
    registry().iter().find(|e| e.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Writes blocks `lbns` of a file that grows, at these addresses, and gives what was pushed.
    fn run(policy: &str, blocks: &[(u64, u64)], most: u64) -> Vec<Push> {
        let policy = by_name(policy).unwrap().build();
        let mut file = FileState::default();
        let pushes = blocks.iter().map(|&(lbn, addr)| {
            let block = Block { lbn, addr, frags: 8, at_end: true, following: 0, most };
            policy.wrote(&mut file, block)
        });
        pushes.filter(|p| *p != Push::default()).collect()
    }

    fn now(range: Range<u64>) -> Push {
        Push { now: vec![range], gather: None }
    }

    #[test]
    fn a_sequential_writer_pushes_full_clusters() {
        let blocks: Vec<_> = (0..9).map(|i| (i, 1000 + i * 8)).collect();
        assert_eq!(run("cluster", &blocks, 4), [now(0..4), now(4..8)]);
    }

    #[test]
    fn a_broken_cluster_of_a_growing_file_is_gathered() {
        let pushes = run("cluster", &[(0, 1000), (1, 1008), (2, 2000)], 8);
        assert_eq!(pushes, [Push { now: Vec::new(), gather: Some(0..3) }]);
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
