//! Placement policies: which class of segment a block is written to.
//!
//! A policy is a file here and a line in [`REGISTRY`]. The log keeps one open segment for each
//! class. A policy may keep up to 64 bits with each block (its word, zero at first); a log can hold
//! that word in memory or in its summaries. The registry entry says how many of these bits a policy
//! uses.

mod age_sort;
mod dac;
mod eti;
mod f2fs;
mod fadac;
mod file_sort;
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

use twin_settings::{Registry, RegistryEntry};

use crate::inputs::{CleanerWrite, LogView, MovedBlock, Needs, SegmentInfo, Setting, UserWrite};
use crate::victim::Candidates;

/// Chooses the class of each block that is written.
///
/// The order of calls for a user write: [`Placement::request`] for the request to which it belongs,
/// then [`Placement::user_write`] when the old copy counts as garbage and the new one does not
/// exist yet. For a victim: [`Placement::collected`], then [`Placement::cleaner_write`] for each
/// live block in order of position (see [`Placement::move_key`]).
pub trait Placement {
    /// The class of a block that a user writes.
    fn user_write(&mut self, write: &UserWrite, word: &mut u64, view: &LogView<'_>) -> u8;

    /// The class of a block that the cleaner moves.
    fn cleaner_write(&mut self, write: &CleanerWrite, word: &mut u64, view: &LogView<'_>) -> u8;

    /// The class of all blocks that the cleaner moves out of a segment of this class, for a policy
    /// that looks at neither block nor word: the log may then move them without a call for each.
    fn class_of_moved(&self, _victim_class: u8) -> Option<u8> {
        None
    }

    /// A block that was in the log before the policy was made is about to be written or moved for
    /// the first time since then. Only the time when its segment was written is known; the word is
    /// zero.
    fn import_block(&mut self, _written_at: u64, _word: &mut u64, _view: &LogView<'_>) {}

    /// A user's request; calls for its blocks follow.
    fn request(&mut self, _first_block: u32, _blocks: u32, _view: &LogView<'_>) {}

    /// A block has been deleted.
    fn trimmed(&mut self, _block: u32, _old_segment: u32, _word: &mut u64, _view: &LogView<'_>) {}

    /// A segment is full.
    fn sealed(&mut self, _segment: &SegmentInfo, _view: &LogView<'_>) {}

    /// A segment is about to be cleaned.
    fn collected(&mut self, _segment: &SegmentInfo, _view: &LogView<'_>) {}

    /// The victim, for a policy that itself controls how large its classes become. `None` leaves
    /// the choice to the victim policy.
    fn victim(&mut self, _candidates: &Candidates<'_>) -> Option<u32> {
        None
    }

    /// How many segments are cleaned together.
    fn batch_segments(&self) -> u32 {
        1
    }

    /// The key by which the live blocks of a batch are sorted before they are written, least first.
    fn move_key(&self, _block: &MovedBlock) -> (u64, i64) {
        (0, 0)
    }

    /// The additional inputs that it needs.
    fn needs(&self) -> Needs {
        Needs::default()
    }
}

/// Makes a policy for a setting. It may hold what it needs for that.
pub type Maker = &'static (dyn Fn(&Setting) -> Box<dyn Placement> + Send + Sync);

/// What is known of a policy beside its name and its rule.
pub struct PlacementSpec {
    /// The publication of the rule.
    pub source: &'static str,
    /// Memory for each block, in bits, without tables of a size that does not grow with the volume.
    pub bits_per_block: u32,
    /// Whether it works with what is known at the time, unlike an oracle.
    pub online: bool,
    /// The least number of open segments that it needs, one for each class that its rule names.
    pub classes: u8,
    /// The largest number of open segments that it can use.
    pub most_classes: u8,
    /// Whether it must have seen every block from its first write on, so that it cannot work in a
    /// log that is mounted with blocks in it.
    pub from_birth: bool,
    make: Maker,
}

impl PlacementSpec {
    /// A policy from outside, to be [added](Registry::add) to the [registry](REGISTRY): the least and the largest
    /// number of open segments that it can use, and the bits that it keeps with each block. It works in a log that
    /// is mounted. It is kept until the program ends.
    pub fn from_outside(
        source: &str,
        classes: std::ops::RangeInclusive<u8>,
        bits_per_block: u32,
        make: impl Fn(&Setting) -> Box<dyn Placement> + Send + Sync + 'static,
    ) -> PlacementSpec {
        PlacementSpec {
            source: String::from(source).leak(),
            bits_per_block,
            online: true,
            classes: *classes.start(),
            most_classes: *classes.end(),
            from_birth: false,
            make: Box::leak(Box::new(make)),
        }
    }

    /// Whether it can work in a log that already holds blocks, as on a mount.
    pub fn is_mountable(&self) -> bool {
        self.online && !self.from_birth
    }

    /// A new policy of this kind.
    pub fn make(&self, setting: &Setting) -> Box<dyn Placement> {
        (self.make)(setting)
    }
}

/// The default of a log with one stream.
pub const PLAIN: &str = "none";
/// The default of a log with two streams.
pub const APART: &str = "sep-gc";

/// A policy in the registry.
pub type PlacementEntry = RegistryEntry<PlacementSpec>;

/// All policies. What is said about an entry is its rule.
pub static REGISTRY: Registry<PlacementSpec> = Registry::with_default(
    "placement policy",
    "twin",
    &[
        RegistryEntry::new(
            "twin",
            "classes of equal death rate, measured for each kind of history and chosen to \
               cost least",
            PlacementSpec {
                source: "ours, see docs/cleaning.md",
                bits_per_block: 32,
                online: true,
                classes: 1,
                most_classes: 64,
                from_birth: false,
                make: &|setting| Box::new(twin::Twin::new(setting)),
            },
        ),
        RegistryEntry::new(
            PLAIN,
            "one class",
            PlacementSpec {
                source: "the plain log",
                bits_per_block: 0,
                online: true,
                classes: 1,
                most_classes: 1,
                from_birth: false,
                make: &|_| Box::new(none::NoSeparation),
            },
        ),
        RegistryEntry::new(
            APART,
            "class 0 for user writes, class 1 for moves by the cleaner",
            PlacementSpec {
                source: "Van Houdt, Performance Evaluation 2013; SepGC in SepBIT's comparison",
                bits_per_block: 0,
                online: true,
                classes: 2,
                most_classes: 2,
                from_birth: false,
                make: &|_| Box::new(sep_gc::SepGc),
            },
        ),
        RegistryEntry::new(
            "dac",
            "a level a block: up by a user's write, down by a move, 0 to 5",
            PlacementSpec {
                source: "Chiang, Lee and Chang, Software Practice and Experience 1999",
                bits_per_block: 3,
                online: true,
                classes: 1,
                most_classes: 64,
                from_birth: false,
                make: &|setting| Box::new(dac::Dac::new(setting)),
            },
        ),
        RegistryEntry::new(
            "sepbit",
            "users: 0 if the block overwritten lived less than L, else 1; moves: 2 from \
               class 0, else 3 to 5 by age (below 4L, below 16L, older)",
            PlacementSpec {
                source: "Wang, Li, Lee, Lyu, Lee, Pang and Yang, FAST 2022",
                bits_per_block: 32,
                online: true,
                classes: 6,
                most_classes: 6,
                from_birth: false,
                make: &|_| Box::new(sepbit::SepBit::new()),
            },
        ),
        RegistryEntry::new(
            "sfs",
            "nearest of six centres of hotness (write count over age), k-means over segments",
            PlacementSpec {
                source: "Min et al., FAST 2012",
                bits_per_block: 64,
                online: true,
                classes: 1,
                most_classes: 64,
                from_birth: false,
                make: &|setting| Box::new(sfs::Sfs::new(setting)),
            },
        ),
        RegistryEntry::new(
            "multi-log",
            "colder by a move; hotter, with a probability, if rewritten sooner than its log expects",
            PlacementSpec {
                source: "Stoica and Ailamaki, VLDB 2013; as in SepBIT's code",
                bits_per_block: 35,
                online: true,
                classes: 1,
                most_classes: 64,
                from_birth: true,
                make: &|setting| Box::new(multi_log::MultiLog::new(setting)),
            },
        ),
        RegistryEntry::new(
            "eti",
            "extents with counters of 4 bits, halved every 4,096 requests, hot from 4; moves apart",
            PlacementSpec {
                source: "Shafaei, Desnoyers and Fitzpatrick, HotStorage 2016",
                bits_per_block: 0,
                online: true,
                classes: 3,
                most_classes: 3,
                from_birth: false,
                make: &|setting| Box::new(eti::Eti::new(setting)),
            },
        ),
        RegistryEntry::new(
            "mq",
            "chunks of 256 blocks in queues by the logarithm of writes, with expiry; moves apart",
            PlacementSpec {
                source: "Yang et al., AutoStream, SYSTOR 2017",
                bits_per_block: 1,
                online: true,
                classes: 2,
                most_classes: 64,
                from_birth: false,
                make: &|setting| Box::new(multi_queue::MultiQueue::new(setting)),
            },
        ),
        RegistryEntry::new(
            "sfr",
            "frequency of chunks of 512 blocks, decayed; sequential requests stay; moves apart",
            PlacementSpec {
                source: "Yang et al., AutoStream, SYSTOR 2017",
                bits_per_block: 1,
                online: true,
                classes: 2,
                most_classes: 64,
                from_birth: false,
                make: &|setting| Box::new(sfr::Sfr::new(setting)),
            },
        ),
        RegistryEntry::new(
            "fadac",
            "a level for each factor of ten that a block's count is above a fading average",
            PlacementSpec {
                source: "Kremer and Brinkmann, SYSTOR 2019; as in SepBIT's code",
                bits_per_block: 16,
                online: true,
                classes: 1,
                most_classes: 64,
                from_birth: false,
                make: &|setting| Box::new(fadac::Fadac::new(setting)),
            },
        ),
        RegistryEntry::new(
            "warcip",
            "on-line k-means over rewrite intervals, with split and merge; moves are class 0",
            PlacementSpec {
                source: "Yang, Pei and Yang, SYSTOR 2019; as in SepBIT's code",
                bits_per_block: 64,
                online: true,
                classes: 2,
                most_classes: 64,
                from_birth: false,
                make: &|setting| Box::new(warcip::Warcip::new(setting)),
            },
        ),
        RegistryEntry::new(
            "midas",
            "a hot group and a chain of queues; a model chooses their number and sizes each epoch",
            PlacementSpec {
                source: "Oh et al., FAST 2024",
                bits_per_block: 3,
                online: true,
                classes: 2,
                most_classes: 64,
                from_birth: true,
                make: &|setting| Box::new(midas::Midas::new(setting)),
            },
        ),
        RegistryEntry::new(
            "f2fs",
            "hot, warm and cold logs of nodes and data, by kind; data that is moved is cold",
            PlacementSpec {
                source: "Lee et al., FAST 2015",
                bits_per_block: 0,
                online: true,
                classes: 6,
                most_classes: 6,
                from_birth: false,
                make: &|_| Box::new(f2fs::F2fs),
            },
        ),
        RegistryEntry::new(
            "age-sort",
            "users' blocks apart; live blocks of four victims at a time, oldest first",
            PlacementSpec {
                source: "Rosenblum and Ousterhout, SOSP 1991 (Sprite LFS)",
                bits_per_block: 32,
                online: true,
                classes: 2,
                most_classes: 2,
                from_birth: false,
                make: &|_| Box::new(age_sort::AgeSort),
            },
        ),
        RegistryEntry::new(
            "file-sort",
            "users' blocks apart; live blocks of eight victims at a time, file by file",
            PlacementSpec {
                source: "Rosenblum and Ousterhout, SOSP 1991, section 3.4 (a suggestion)",
                bits_per_block: 0,
                online: true,
                classes: 2,
                most_classes: 2,
                from_birth: false,
                make: &|_| Box::new(file_sort::FileSort),
            },
        ),
        RegistryEntry::new(
            "fk",
            "min(5, remaining lifetime / segment): knows the future",
            PlacementSpec {
                source: "the oracle of SepBIT's comparison, FAST 2022; simulation only",
                bits_per_block: 32,
                online: false,
                classes: 1,
                most_classes: 64,
                from_birth: true,
                make: &|setting| Box::new(fk::Fk::new(setting)),
            },
        ),
    ],
);
