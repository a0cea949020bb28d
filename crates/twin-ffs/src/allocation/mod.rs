//! Allocation: how a place is found for a block that cannot have, or does not have, a place behind
//! its predecessor, whether places are chosen again when a file is written, and where fragments
//! go. Adding a policy: a file here, a line in [`REGISTRY`].
//!
//! Contract: policies are pure. What they ask for is carried out by `space` (new blocks) and
//! `realloc` (places chosen again), in mounts and simulations alike. No policy changes the format of
//! a volume, so that each may be mounted with another policy than before.

mod cluster;
mod first_fit;
mod next_run;
mod tail_behind;
mod whole_file;

use twin_settings::{Registry, RegistryEntry};

/// Which of a file's new blocks are moved together before they are written for the first time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gather {
    /// Whole blocks, in clusters of `maxcontig` (4.4BSD's `ffs_reallocblks`).
    Clusters,
    /// All of them, with the fragment at the end.
    WholeFile,
}

/// Which of the runs of free blocks in a group that are long enough is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fit {
    /// The shortest, so that long ones stay whole.
    Shortest,
    /// The next one behind the last block that was placed in the group.
    Next,
}

/// Where the last block of a file goes if it is shorter than a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tail {
    /// To the run of free fragments in the group that fits best.
    BestFit,
    /// Behind the block before it if that is free, although it breaks a block.
    Behind,
}

/// Finds places for blocks.
pub trait Allocation {
    /// The length, in blocks, of the run of free blocks to look for when a file needs a place that
    /// is not behind its last block. `placed` of its blocks have places, and `rest` of those that
    /// it is known to have do not, this one included. `None` asks for the next free block.
    fn run(&self, placed: u64, rest: u64) -> Option<u64>;

    /// Which run is taken.
    fn fit(&self) -> Fit {
        Fit::Shortest
    }

    /// What is moved together.
    fn gather(&self) -> Gather;

    /// Where the fragments at the end of a file go.
    fn tail(&self) -> Tail;
}

/// Makes the policy for a volume.
pub type Maker = fn() -> Box<dyn Allocation>;

/// All policies.
pub static REGISTRY: Registry<Maker> = Registry::with_default(
    "allocation policy",
    "first-fit",
    &[
        RegistryEntry::new(
            "first-fit",
            "behind the block before it, else the next free block (4.4BSD)",
            || Box::new(first_fit::FirstFit),
        ),
        RegistryEntry::new(
            "cluster",
            "else the shortest run of free blocks that takes the rest of the file",
            || Box::new(cluster::Cluster),
        ),
        RegistryEntry::new(
            "tail-behind",
            "as cluster, with fragments behind the block before them",
            || Box::new(tail_behind::TailBehind),
        ),
        RegistryEntry::new(
            "whole-file",
            "as tail-behind, and chosen again for the whole file when it is written",
            || Box::new(whole_file::WholeFile),
        ),
        RegistryEntry::new(
            "next-run",
            "as whole-file, with the next run that is long enough in place of the shortest",
            || Box::new(next_run::NextRun),
        ),
    ],
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn policies_but_the_first_look_for_room_for_what_is_known_of_the_file() {
        for entry in REGISTRY.names() {
            let policy = REGISTRY.get(entry).unwrap().make();
            let expected = (entry != "first-fit").then_some(5);
            assert_eq!(policy.run(0, 5), expected, "{entry}");
        }
        // A file that grows block by block is expected to double.
        assert_eq!(REGISTRY.get("cluster").unwrap().make().run(40, 1), Some(40));
    }
}
