//! Read policies: how a file is read block by block, and how much is read ahead.
//!
//! The modern reader ([`Settings::reading`](crate::Settings) `whole`) asks for all blocks of an
//! operation at once. The kernels of the papers read block by block instead: each block that is
//! missing is read with as many of its neighbours on disk as the policy says, and while that is
//! awaited the next ones may be asked for. A [`ReadPolicy`] looks at one block and its
//! surroundings and says how many; `by_block.rs` acts. Adding one: a file here, a line in
//! [`registry`].

mod clusters;
mod direct_singly;
mod growing;
mod one_by_one;

/// What a read policy may look at. Counts are in blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadView {
    /// The block that is being read.
    pub lbn: u64,
    /// The block read before it from this file, if any.
    pub last: Option<u64>,
    /// It is in memory, or on its way there.
    pub cached: bool,
    /// How many blocks follow each other on disk from here on, this one included, in one transfer
    /// at the most. Only for a block that is not cached.
    pub run: u64,
    /// The first block behind this one that is not in memory, as far as two transfers.
    pub next_missing: u64,
    /// Blocks of which the inode holds the addresses.
    pub direct: u64,
    /// What the policy remembered of this file; 0 at first.
    pub memory: u64,
}

/// What a read policy advises.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct ReadAdvice {
    /// Blocks to read now, if the block is not cached: at least 1.
    pub now: u64,
    /// Ask for the run that begins with this block...
    pub ahead_from: u64,
    /// ...for this many blocks of it at most, and wait for none. 0: read nothing ahead.
    pub ahead: u64,
    /// What to remember of this file.
    pub memory: u64,
}

/// Decides how much is read at once and ahead.
pub trait ReadPolicy {
    /// The advice for a block.
    fn advise(&self, view: ReadView) -> ReadAdvice;
}

/// A policy by name.
pub struct Entry {
    /// What settings call it.
    pub name: &'static str,
    /// One line for people.
    pub about: &'static str,
    make: Option<fn() -> Box<dyn ReadPolicy>>,
}

/// All policies; the first is the default, and reads all blocks of an operation at once.
pub fn registry() -> &'static [Entry] {
    &[
        Entry {
            name: "whole",
            about: "all blocks of an operation at once, with a window that doubles (modern)",
            make: None,
        },
        Entry {
            name: "clusters",
            about: "block by block, in clusters, with one cluster ahead (McVoy and Kleiman 1991)",
            make: Some(|| Box::new(clusters::Clusters)),
        },
        Entry {
            name: "growing",
            about: "block by block, in clusters that double as reading goes on (4.4BSD-Lite)",
            make: Some(|| Box::new(growing::Growing)),
        },
        Entry {
            name: "one-by-one",
            about: "block by block, nothing ahead (Sprite LFS)",
            make: Some(|| Box::new(one_by_one::OneByOne)),
        },
        Entry {
            name: "direct-singly",
            about: "direct blocks one by one, others in clusters (BSD-LFS of 1994)",
            make: Some(|| Box::new(direct_singly::DirectSingly)),
        },
    ]
}

/// The policy with this name: `None` if there is none, `Some(None)` if it reads at once.
pub fn by_name(name: &str) -> Option<Option<Box<dyn ReadPolicy>>> {
    let entry = registry().iter().find(|e| e.name == name)?;
    Some(entry.make.map(|make| make()))
}

/// When the rest of a block that is overwritten is read first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Hash)]
pub enum Overwrite {
    /// Only if bytes of the file outside the write must be kept.
    #[default]
    Needed,
    /// Whenever the write does not cover the block, even if nothing of the file is outside it:
    /// 4.4BSD's `lfs_balloc`, which looks at the size of the write only.
    Partial,
    /// Every direct block that exists, even if the write covers it: 4.4BSD's `ffs_balloc`, which
    /// gets such a block by reading it. Others as in [`Partial`](Self::Partial).
    Direct,
}

impl Overwrite {
    /// All, with their names in settings.
    pub const ALL: [(&str, Overwrite); 3] = [
        ("needed", Overwrite::Needed),
        ("partial", Overwrite::Partial),
        ("direct", Overwrite::Direct),
    ];
}

#[cfg(test)]
mod tests {
    use super::*;

    fn view(lbn: u64, run: u64) -> ReadView {
        let last = lbn.checked_sub(1);
        let next_missing = lbn + 1;
        ReadView { lbn, last, cached: false, run, next_missing, direct: 12, memory: 0 }
    }

    #[test]
    fn clusters_are_read_whole_and_one_is_asked_for_ahead() {
        let policy = by_name("clusters").unwrap().unwrap();
        let advice = policy.advise(view(0, 8));
        assert_eq!((advice.now, advice.ahead_from), (8, 8));
        assert!(advice.ahead > 0);
    }

    #[test]
    fn direct_blocks_are_read_singly_and_others_in_clusters() {
        let policy = by_name("direct-singly").unwrap().unwrap();
        let direct = policy.advise(view(3, 8));
        assert_eq!((direct.now, direct.ahead), (1, 0));
        assert_eq!(policy.advise(view(12, 8)).now, 8);
    }

    #[test]
    fn the_growing_window_doubles_and_begins_anew_elsewhere() {
        let policy = by_name("growing").unwrap().unwrap();
        let first = policy.advise(view(0, 8));
        assert_eq!((first.now, first.ahead), (1, 0), "the first block comes alone");
        let second = policy.advise(ReadView { memory: first.memory, ..view(1, 8) });
        assert_eq!(second.now, 2);
        let third = policy.advise(ReadView { memory: second.memory, ..view(3, 8) });
        assert_eq!(third.now, 3);
        let elsewhere = ReadView { last: Some(3), memory: third.memory, ..view(90, 8) };
        assert_eq!(policy.advise(elsewhere).now, 1);
    }

    #[test]
    fn every_policy_reads_at_least_the_block() {
        for entry in registry() {
            let Some(policy) = by_name(entry.name).unwrap() else { continue };
            for lbn in [0, 1, 11, 12, 40] {
                assert!(policy.advise(view(lbn, 1)).now >= 1, "{}", entry.name);
            }
        }
    }
}
