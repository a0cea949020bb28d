//! Read policies: how a file is read block by block, and how much is read ahead.
//!
//! The modern reader ([`Settings::reading`](crate::Settings) `whole`) requests all blocks of an
//! operation at once. The kernels of the papers read block by block instead: each missing block is
//! read with as many of its neighbours on disk as the policy says, and during that read the next
//! blocks may be requested. A [`ReadPolicy`] looks at one block and its surroundings and says how
//! many; `data/read_by_block.rs` acts. A new policy needs a file here and a line in [`REGISTRY`].

mod clusters;
mod direct_singly;
mod growing;
mod one_by_one;
mod two_first;

use twin_settings::{Registry, RegistryEntry};

/// The input of a read policy. Counts are in blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadPolicyInput {
    /// The block that is being read.
    pub lbn: u64,
    /// The block that was read before it from this file, if any.
    pub last: Option<u64>,
    /// True if the block is in memory or is being read.
    pub cached: bool,
    /// The number of adjacent blocks on disk from this one on, this one included, up to one
    /// transfer. It is meaningful only if the block is not cached.
    pub run: u64,
    /// The first block after this one that is not in memory, up to two transfers away.
    pub next_missing: u64,
    /// The number of blocks whose addresses are in the inode.
    pub direct: u64,
    /// The most blocks of one transfer.
    pub transfer: u64,
    /// The whole blocks of the file, and whether a part of one follows them.
    pub whole: (u64, bool),
    /// The value that the policy remembered for this file; 0 at first.
    pub memory: u64,
}

/// The advice of a read policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct ReadAdvice {
    /// The number of blocks to read now if the block is not cached; at least 1.
    pub now: u64,
    /// The first block of the run to read ahead.
    pub ahead_from: u64,
    /// The most blocks of that run to read ahead, without waiting for them; 0: none.
    pub ahead: u64,
    /// The value to remember for this file.
    pub memory: u64,
}

/// What a policy may ask about other blocks of the file. Answers take time, so that they are given one by one.
pub trait Nearby {
    /// Whether a block is in memory or is being read.
    fn is_resident(&self, lbn: u64) -> bool;

    /// The number of blocks from this one on that are adjacent on disk, up to one transfer, whether they are in
    /// memory or not; 0 for a hole.
    fn run(&self, lbn: u64) -> u64;
}

/// Decides how much is read at once and ahead.
pub trait ReadPolicy {
    /// The advice for the read of one block.
    fn advise(&self, view: ReadPolicyInput, nearby: &dyn Nearby) -> ReadAdvice;
}

/// Makes a policy; `None` stands for reading all blocks of an operation at once.
pub type Maker = Option<fn() -> Box<dyn ReadPolicy>>;

/// All read policies; the default reads all blocks of an operation at once.
pub static REGISTRY: Registry<Maker> = Registry::with_default(
    "read policy",
    "whole",
    &[
        RegistryEntry::new(
            "whole",
            "all blocks of an operation at once, with a window that doubles (modern)",
            None,
        ),
        RegistryEntry::new(
            "clusters",
            "block by block, in clusters, with one cluster ahead (McVoy and Kleiman 1991)",
            Some(|| Box::new(clusters::Clusters)),
        ),
        RegistryEntry::new(
            "growing",
            "block by block, in clusters that double as reading goes on (4.4BSD-Lite)",
            Some(|| Box::new(growing::Growing)),
        ),
        RegistryEntry::new(
            "two-first",
            "block by block, two at first and then a window (4.4BSD before 12 January 1994)",
            Some(|| Box::new(two_first::TwoFirst)),
        ),
        RegistryEntry::new(
            "one-by-one",
            "block by block, nothing ahead (Sprite LFS)",
            Some(|| Box::new(one_by_one::OneByOne)),
        ),
        RegistryEntry::new(
            "direct-singly",
            "direct blocks one by one, others in clusters (BSD-LFS of 1994)",
            Some(|| Box::new(direct_singly::DirectSingly)),
        ),
    ],
);

/// In which cases a block is read before it is overwritten.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Hash)]
pub enum Overwrite {
    /// Only if bytes of the file outside the write must be kept.
    #[default]
    Needed,
    /// Whenever the write does not cover the block, even if the write covers all bytes of the file
    /// in it. 4.4BSD's `lfs_balloc` does so, because it looks only at the size of the write.
    Partial,
    /// Every direct block that exists, even if the write covers it; other blocks as in
    /// [`Partial`](Self::Partial). 4.4BSD's `ffs_balloc` gets every direct block by reading it.
    Direct,
}

impl Overwrite {
    /// All values, with their names in settings.
    pub const ALL: [(&str, Overwrite); 3] = [
        ("needed", Overwrite::Needed),
        ("partial", Overwrite::Partial),
        ("direct", Overwrite::Direct),
    ];
}

#[cfg(test)]
mod tests {
    use super::*;

    fn view(lbn: u64, run: u64) -> ReadPolicyInput {
        let last = lbn.checked_sub(1);
        let next_missing = lbn + 1;
        ReadPolicyInput {
            lbn,
            last,
            cached: false,
            run,
            next_missing,
            direct: 12,
            transfer: 8,
            whole: (100, false),
            memory: 0,
        }
    }

    /// Nothing but the block is in memory, or adjacent.
    struct Alone;

    impl Nearby for Alone {
        fn is_resident(&self, _: u64) -> bool {
            false
        }

        fn run(&self, _: u64) -> u64 {
            1
        }
    }

    fn named(name: &str) -> Box<dyn ReadPolicy> {
        REGISTRY.get(name).unwrap().maker.unwrap()()
    }

    #[test]
    fn clusters_are_read_whole_and_one_is_asked_for_ahead() {
        let policy = named("clusters");
        let advice = policy.advise(view(0, 8), &Alone);
        assert_eq!((advice.now, advice.ahead_from), (8, 8));
        assert!(advice.ahead > 0);
    }

    #[test]
    fn direct_blocks_are_read_singly_and_others_in_clusters() {
        let policy = named("direct-singly");
        let direct = policy.advise(view(3, 8), &Alone);
        assert_eq!((direct.now, direct.ahead), (1, 0));
        assert_eq!(policy.advise(view(12, 8), &Alone).now, 8);
    }

    #[test]
    fn the_growing_window_doubles_and_begins_anew_elsewhere() {
        let policy = named("growing");
        let first = policy.advise(view(0, 8), &Alone);
        assert_eq!((first.now, first.ahead), (1, 0), "the first block comes alone");
        let second = policy.advise(ReadPolicyInput { memory: first.memory, ..view(1, 8) }, &Alone);
        assert_eq!(second.now, 2);
        let third = policy.advise(ReadPolicyInput { memory: second.memory, ..view(3, 8) }, &Alone);
        assert_eq!(third.now, 3);
        let elsewhere = ReadPolicyInput { last: Some(3), memory: third.memory, ..view(90, 8) };
        assert_eq!(policy.advise(elsewhere, &Alone).now, 1);
    }

    #[test]
    fn every_policy_reads_at_least_the_block() {
        for entry in &REGISTRY {
            let Some(make) = entry.maker else { continue };
            let policy = make();
            for lbn in [0, 1, 11, 12, 40] {
                assert!(policy.advise(view(lbn, 1), &Alone).now >= 1, "{}", entry.name);
            }
        }
    }
}
