//! Placement policies: which class of segment a block is written to.
//!
//! A policy is a file here and a line in [`registry`]. The log keeps one open segment a class. A
//! policy may keep up to 64 bits with each block (its word, zero at first); a log can hold that
//! word in memory or in its summaries. How many of them a policy uses stands in its entry.

mod age_sort;
mod dac;
mod eti;
mod f2fs;
mod fadac;
mod fk;
mod midas;
mod multi_log;
mod multi_queue;
mod none;
mod sep_gc;
mod sepbit;
mod sfr;
mod sfs;
mod twin;
mod warcip;

use crate::facts::{CleanerWrite, Needs, SegmentFacts, Setting, UserWrite, View};
use crate::victim::Candidates;

/// Chooses the class of each block that is written.
///
/// The order of calls for a user write: [`Placement::request`] for the request that it is part
/// of, then [`Placement::user_write`] when the old copy counts as garbage and the new one is not
/// there yet. For a victim: [`Placement::collected`], then [`Placement::cleaner_write`] for each
/// live block in the order in which they lie (see [`Placement::age_key`]).
pub trait Placement {
    /// The class of a block that a user writes.
    fn user_write(&mut self, write: &UserWrite, word: &mut u64, view: &View<'_>) -> u8;

    /// The class of a block that the cleaner moves.
    fn cleaner_write(&mut self, write: &CleanerWrite, word: &mut u64, view: &View<'_>) -> u8;

    /// The class of all blocks that the cleaner moves out of a segment of this class, for a policy
    /// that looks at neither block nor word: a log may then move them without asking for each.
    fn class_of_moved(&self, _victim_class: u8) -> Option<u8> {
        None
    }

    /// A block that lies in the log since before the policy was made, about to be written or moved
    /// for the first time since. All that is known is when its segment was written; the word is zero.
    fn adopt(&mut self, _written_at: u64, _word: &mut u64, _view: &View<'_>) {}

    /// A request of a user, which its blocks follow.
    fn request(&mut self, _first_block: u32, _blocks: u32, _view: &View<'_>) {}

    /// A block has been deleted.
    fn trimmed(&mut self, _block: u32, _old_segment: u32, _word: &mut u64, _view: &View<'_>) {}

    /// A segment is full.
    fn sealed(&mut self, _segment: &SegmentFacts, _view: &View<'_>) {}

    /// A segment is about to be cleaned.
    fn collected(&mut self, _segment: &SegmentFacts, _view: &View<'_>) {}

    /// The victim, for a policy that itself decides how large its classes get. None leaves it to
    /// the victim policy.
    fn victim(&mut self, _candidates: &Candidates<'_>) -> Option<u32> {
        None
    }

    /// How many segments are cleaned together.
    fn batch_segments(&self) -> u32 {
        1
    }

    /// By what the live blocks of a batch are sorted before they are written, least first.
    fn age_key(&self, _word: u64) -> u64 {
        0
    }

    /// What it needs to be told.
    fn needs(&self) -> Needs {
        Needs::default()
    }
}

/// A placement policy by name.
pub struct Entry {
    /// What settings call it.
    pub name: &'static str,
    /// Its rule in a line.
    pub rule: &'static str,
    /// Where the rule comes from.
    pub source: &'static str,
    /// Memory a block, in bits; tables of a size that does not grow with the volume are not
    /// counted.
    pub bits_per_block: u32,
    /// True if it works on what is known at the time: not an oracle.
    pub online: bool,
    /// Open segments that it needs at least: classes that its rule names.
    pub classes: u8,
    /// Open segments that it can make use of at most.
    pub most_classes: u8,
    /// True if it counts on having seen every block from its first write on, so that it cannot work
    /// in a log that is mounted with blocks in it.
    pub from_birth: bool,
    make: fn(&Setting) -> Box<dyn Placement>,
}

impl std::fmt::Debug for Entry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name)
    }
}

impl Entry {
    /// True if it can work in a log with a past: on a mount.
    pub fn is_mountable(&self) -> bool {
        self.online && !self.from_birth
    }

    /// A policy of this kind.
    pub fn make(&self, setting: &Setting) -> Box<dyn Placement> {
        (self.make)(setting)
    }
}

/// What a log with one stream has if nothing is said.
pub const PLAIN: &str = "none";
/// What a log with two streams has if nothing is said.
pub const APART: &str = "sep-gc";

/// All placement policies; the first is the default.
const REGISTRY: &[Entry] = &[
    Entry {
        name: "twin",
        rule: "classes of equal death rate, measured for each kind of history and chosen to \
               cost least",
        source: "ours, see docs/cleaning.md",
        bits_per_block: 32,
        online: true,
        classes: 1,
        most_classes: 64,
        from_birth: false,
        make: |setting| Box::new(twin::Twin::new(setting)),
    },
    Entry {
        name: PLAIN,
        rule: "one class",
        source: "the plain log",
        bits_per_block: 0,
        online: true,
        classes: 1,
        most_classes: 1,
        from_birth: false,
        make: |_| Box::new(none::NoSeparation),
    },
    Entry {
        name: APART,
        rule: "0 what users write, 1 what the cleaner moves",
        source: "Van Houdt, Performance Evaluation 2013; SepGC in SepBIT's comparison",
        bits_per_block: 0,
        online: true,
        classes: 2,
        most_classes: 2,
        from_birth: false,
        make: |_| Box::new(sep_gc::SepGc),
    },
    Entry {
        name: "dac",
        rule: "a level a block: up by a user's write, down by a move, 0 to 5",
        source: "Chiang, Lee and Chang, Software Practice and Experience 1999",
        bits_per_block: 3,
        online: true,
        classes: 1,
        most_classes: 64,
        from_birth: false,
        make: |setting| Box::new(dac::Dac::new(setting)),
    },
    Entry {
        name: "sepbit",
        rule: "users: 0 if the block overwritten lived less than L, else 1; moves: 2 from \
               class 0, else 3 to 5 by age (below 4L, below 16L, older)",
        source: "Wang, Li, Lee, Lyu, Lee, Pang and Yang, FAST 2022",
        bits_per_block: 32,
        online: true,
        classes: 6,
        most_classes: 6,
        from_birth: false,
        make: |_| Box::new(sepbit::SepBit::new()),
    },
    Entry {
        name: "sfs",
        rule: "nearest of six centres of hotness (write count over age), k-means over segments",
        source: "Min et al., FAST 2012",
        bits_per_block: 64,
        online: true,
        classes: 1,
        most_classes: 64,
        from_birth: false,
        make: |setting| Box::new(sfs::Sfs::new(setting)),
    },
    Entry {
        name: "multi-log",
        rule: "colder by a move; hotter, with a probability, if rewritten sooner than its log expects",
        source: "Stoica and Ailamaki, VLDB 2013; as in SepBIT's code",
        bits_per_block: 35,
        online: true,
        classes: 1,
        most_classes: 64,
        from_birth: true,
        make: |setting| Box::new(multi_log::MultiLog::new(setting)),
    },
    Entry {
        name: "eti",
        rule: "extents with counters of 4 bits, halved every 4,096 requests, hot from 4; moves apart",
        source: "Shafaei, Desnoyers and Fitzpatrick, HotStorage 2016",
        bits_per_block: 0,
        online: true,
        classes: 3,
        most_classes: 3,
        from_birth: false,
        make: |setting| Box::new(eti::Eti::new(setting)),
    },
    Entry {
        name: "mq",
        rule: "chunks of 256 blocks in queues by the logarithm of writes, with expiry; moves apart",
        source: "Yang et al., AutoStream, SYSTOR 2017",
        bits_per_block: 1,
        online: true,
        classes: 2,
        most_classes: 64,
        from_birth: false,
        make: |setting| Box::new(multi_queue::MultiQueue::new(setting)),
    },
    Entry {
        name: "sfr",
        rule: "frequency of chunks of 512 blocks, decayed; sequential requests stay; moves apart",
        source: "Yang et al., AutoStream, SYSTOR 2017",
        bits_per_block: 1,
        online: true,
        classes: 2,
        most_classes: 64,
        from_birth: false,
        make: |setting| Box::new(sfr::Sfr::new(setting)),
    },
    Entry {
        name: "fadac",
        rule: "a level for each factor of ten that a block's count is above a fading average",
        source: "Kremer and Brinkmann, SYSTOR 2019; as in SepBIT's code",
        bits_per_block: 16,
        online: true,
        classes: 1,
        most_classes: 64,
        from_birth: false,
        make: |setting| Box::new(fadac::Fadac::new(setting)),
    },
    Entry {
        name: "warcip",
        rule: "on-line k-means over rewrite intervals, with split and merge; moves are class 0",
        source: "Yang, Pei and Yang, SYSTOR 2019; as in SepBIT's code",
        bits_per_block: 64,
        online: true,
        classes: 2,
        most_classes: 64,
        from_birth: false,
        make: |setting| Box::new(warcip::Warcip::new(setting)),
    },
    Entry {
        name: "midas",
        rule: "a hot group and a chain of queues; a model chooses their number and sizes each epoch",
        source: "Oh et al., FAST 2024",
        bits_per_block: 3,
        online: true,
        classes: 2,
        most_classes: 64,
        from_birth: true,
        make: |setting| Box::new(midas::Midas::new(setting)),
    },
    Entry {
        name: "f2fs",
        rule: "hot, warm and cold logs of nodes and data, by kind; data that is moved is cold",
        source: "Lee et al., FAST 2015",
        bits_per_block: 0,
        online: true,
        classes: 6,
        most_classes: 6,
        from_birth: false,
        make: |_| Box::new(f2fs::F2fs),
    },
    Entry {
        name: "age-sort",
        rule: "users' blocks apart; live blocks of four victims at a time, oldest first",
        source: "Rosenblum and Ousterhout, SOSP 1991 (Sprite LFS)",
        bits_per_block: 32,
        online: true,
        classes: 2,
        most_classes: 2,
        from_birth: false,
        make: |_| Box::new(age_sort::AgeSort),
    },
    Entry {
        name: "fk",
        rule: "min(5, remaining lifetime / segment): knows the future",
        source: "the oracle of SepBIT's comparison, FAST 2022; simulation only",
        bits_per_block: 32,
        online: false,
        classes: 1,
        most_classes: 64,
        from_birth: true,
        make: |setting| Box::new(fk::Fk::new(setting)),
    },
];

/// All placement policies; the first is the default.
pub fn registry() -> &'static [Entry] {
    REGISTRY
}

/// The policy called `name`.
pub fn by_name(name: &str) -> Option<&'static Entry> {
    registry().iter().find(|entry| entry.name == name)
}
