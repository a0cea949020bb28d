//! The state of an open log-structured layout.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use twin_cache::Frame;
use twin_fs::{Ino, Inode};
use twin_rt::{Budget, Event, RwLock, Time};

use crate::cleaner::CleanerState;
use crate::format::{HeadPos, Superblock};
use crate::forwards::Forwards;
use crate::inode_blocks::InodeBlocks;
use crate::pacing::Pacing;
use crate::placing::Placing;
use crate::segments::Segments;

/// The ifile's inode number.
pub const IFILE_INO: Ino = 1;

/// Settings of this layout that may change from mount to mount.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LfsSettings {
    /// Every log write takes all dirty indirect blocks along, as in 4.4BSD; otherwise they wait
    /// for a checkpoint, and roll-forward works them out.
    pub eager_indirect: bool,
    /// Segments written between checkpoints.
    pub checkpoint_segments: u32,
    /// The longest time between checkpoints while there are changes.
    pub checkpoint_age_ns: u64,
    /// The victim policy, by name: see [`twin_clean::victim`].
    pub victim: String,
    /// The placement policy, by name: see [`twin_clean::placement`]. Empty: what the cleaner moves
    /// is apart if the volume was made with two streams.
    pub placement: String,
    /// When the cleaner works beside the times when clean segments get few, by name: see
    /// [`twin_clean::when`].
    pub when: String,
    /// The cleaner runs on its own, not only when somebody waits for space.
    pub background_cleaning: bool,
    /// Bytes that the cleaner reads or writes with one request while nobody waits for it; it has
    /// one request under way.
    pub clean_step_bytes: u32,
    /// Bytes of log writes under way at the most.
    pub in_flight_bytes: u64,
    /// Whoever makes data dirty waits first until no log write is under way, so that processor and
    /// disk do not overlap: 4.4BSD-LFS as Seltzer et al. 1995 measured and analysed it (section 4:
    /// the time of a log write adds to that of its transactions).
    pub writers_wait: bool,
    /// fsync waits for the log writes under way and starts none, so that files gather until the
    /// flush policy writes them: not durable. One reading of how BSD-LFS of 1994 could fsync more
    /// files in a second than its disk turned (A Comparison of Logging and Clustering, table).
    pub lazy_fsync: bool,
    /// A fault built in on purpose, to show that tests find it.
    pub sabotage: Sabotage,
}

/// Faults that can be built in on purpose: negative controls of the crash tests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Sabotage {
    /// None.
    #[default]
    None,
    /// fsync does not flush the device.
    SkipFlush,
    /// Roll-forward believes summaries without looking at the checksums of their blocks.
    SkipChecksum,
    /// A summary is written, and counts as the write, before its blocks.
    SummaryFirst,
    /// A segment is filled again before the checkpoint that does not need it is durable.
    ReuseEarly,
}

impl Default for LfsSettings {
    fn default() -> Self {
        LfsSettings {
            eager_indirect: false,
            checkpoint_segments: 64,
            checkpoint_age_ns: 30 * twin_rt::SECS,
            victim: twin_clean::victim::OF_FILE_SYSTEMS.into(),
            placement: String::new(),
            when: twin_clean::when::OF_FILE_SYSTEMS.into(),
            background_cleaning: true,
            clean_step_bytes: 128 << 10,
            in_flight_bytes: 8 << 20,
            writers_wait: false,
            lazy_fsync: false,
            sabotage: Sabotage::None,
        }
    }
}

/// What was counted since the volume was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LfsStats {
    /// Log writes.
    pub groups: u64,
    /// Partial segments.
    pub partial_segments: u64,
    /// Bytes written to the log, all together.
    pub log_bytes: u64,
    /// Of these, file data and directories.
    pub data_bytes: u64,
    /// Of these, indirect blocks, inodes and the ifile.
    pub meta_bytes: u64,
    /// Of these, blocks that the cleaner moved.
    pub moved_bytes: u64,
    /// Checkpoints.
    pub checkpoints: u64,
    /// Segments cleaned, and how many of their bytes were live.
    pub cleaned_segments: u64,
    /// Live bytes of the cleaned segments.
    pub cleaned_live_bytes: u64,
    /// Bytes that the cleaner read.
    pub cleaner_read_bytes: u64,
    /// Operations that waited for the cleaner.
    pub space_waits: u64,
    /// How long they waited, all together.
    pub space_wait_ns: u64,
    /// How long the one that waited longest did.
    pub longest_space_wait_ns: u64,
}

impl LfsStats {
    /// What was counted since `before`.
    pub fn since(&self, before: &LfsStats) -> LfsStats {
        LfsStats {
            groups: self.groups - before.groups,
            partial_segments: self.partial_segments - before.partial_segments,
            log_bytes: self.log_bytes - before.log_bytes,
            data_bytes: self.data_bytes - before.data_bytes,
            meta_bytes: self.meta_bytes - before.meta_bytes,
            moved_bytes: self.moved_bytes - before.moved_bytes,
            checkpoints: self.checkpoints - before.checkpoints,
            cleaned_segments: self.cleaned_segments - before.cleaned_segments,
            cleaned_live_bytes: self.cleaned_live_bytes - before.cleaned_live_bytes,
            cleaner_read_bytes: self.cleaner_read_bytes - before.cleaner_read_bytes,
            space_waits: self.space_waits - before.space_waits,
            space_wait_ns: self.space_wait_ns - before.space_wait_ns,
            longest_space_wait_ns: self.longest_space_wait_ns,
        }
    }

    /// Write cost (Rosenblum and Ousterhout 1991, section 3.4): bytes moved to and from the disk
    /// for each byte of new data and metadata; 1 without cleaning.
    pub fn write_cost(&self) -> f64 {
        let new = self.log_bytes.saturating_sub(self.moved_bytes);
        if new == 0 {
            return 1.0;
        }
        (self.log_bytes + self.cleaner_read_bytes) as f64 / new as f64
    }
}

/// Where the log stands, and the tables that go with it.
pub(crate) struct Log {
    pub(crate) heads: Vec<HeadPos>,
    /// The serial number of the next partial segment.
    pub(crate) serial: u64,
    pub(crate) segments: Segments,
    pub(crate) free_head: Ino,
    pub(crate) free_inodes: u64,
    /// Numbers off the free list but not in use, with their map blocks.
    pub(crate) picked: BTreeMap<Ino, Rc<Frame>>,
    /// Inodes in need of work after a crash.
    pub(crate) orphans: BTreeSet<Ino>,
    /// Numbers freed since the last log write.
    pub(crate) freed: Vec<(Ino, u32)>,
    /// Inodes with indirect blocks that wait for a checkpoint.
    pub(crate) deferred: BTreeMap<Ino, Rc<Inode>>,
    pub(crate) checkpoint_number: u64,
    /// Bytes of the log written since the last checkpoint.
    pub(crate) since_checkpoint: u64,
    pub(crate) checkpoint_time: Time,
    pub(crate) stats: LfsStats,
}

/// Which log writes have reached the device, and which are durable.
#[derive(Default)]
pub(crate) struct Progress {
    /// Groups under way: number and requests that are not complete.
    pub(crate) under_way: RefCell<BTreeMap<u64, usize>>,
    /// The last group that was built.
    pub(crate) last: Cell<u64>,
    /// Every group up to this one is durable.
    pub(crate) durable: Cell<u64>,
    pub(crate) flushing: Cell<bool>,
    /// Frames of log writes that failed.
    pub(crate) lost: RefCell<Vec<Rc<Frame>>>,
    pub(crate) changed: Rc<Event>,
}

impl Progress {
    /// Every group up to this one has reached the device.
    pub(crate) fn written(&self) -> u64 {
        self.under_way.borrow().keys().next().map_or(self.last.get(), |first| first - 1)
    }
}

/// An open log-structured layout.
pub struct Lfs {
    pub(crate) sb: Superblock,
    pub(crate) settings: LfsSettings,
    pub(crate) ifile: Rc<Inode>,
    /// Pointers that are newer than what holds them on the device.
    pub(crate) forwards: Rc<Forwards>,
    /// The ifile's indirect blocks and its segment usage table, always in memory.
    pub(crate) pinned: RefCell<Vec<Rc<Frame>>>,
    pub(crate) log: RefCell<Log>,
    /// Bytes promised or live: all blocks and inodes of all files, the ifile included.
    pub(crate) used: Cell<u64>,
    /// The most that `used` may become.
    pub(crate) limit: Cell<u64>,
    /// Bytes that admitted operations may still make dirty.
    pub(crate) permitted: Rc<Cell<u64>>,
    /// Operations admitted so far.
    pub(crate) begun: Cell<u64>,
    pub(crate) progress: Rc<Progress>,
    /// Bytes of log writes that may be under way.
    pub(crate) in_flight: Budget,
    pub(crate) checkpointing: RwLock,
    /// Notified when segments become clean.
    pub(crate) space: Rc<Event>,
    /// Who may go on while room is short.
    pub(crate) pacing: Pacing,
    /// Live bytes when somebody was last told that the cleaner gains no room.
    pub(crate) hopeless: Cell<Option<u64>>,
    /// Operations that wait for clean segments.
    pub(crate) waiting: Cell<u32>,
    pub(crate) cleaner: CleanerState,
    /// Where blocks go, and which segments are cleaned.
    pub(crate) placing: RefCell<Placing>,
    /// Dirty bytes of the cache that wait for a checkpoint, as of the last log write.
    pub(crate) deferred_bytes: Cell<u64>,
    /// When the oldest change since the last log write was made.
    pub(crate) oldest: Cell<Option<Time>>,
    /// Blocks of inodes on their way to the device, and read lately.
    pub(crate) inode_blocks: Rc<InodeBlocks>,
}

impl Lfs {
    /// What the volume is.
    pub fn superblock(&self) -> &Superblock {
        &self.sb
    }

    /// What was counted since the volume was opened.
    pub fn stats(&self) -> LfsStats {
        self.log.borrow().stats
    }

    /// Pointers that are newer than what holds them on the device.
    pub fn forwarded_pointers(&self) -> usize {
        self.forwards.len()
    }

    /// Looks at the segment usage table.
    pub fn with_segments<T>(&self, f: impl FnOnce(&Segments) -> T) -> T {
        f(&self.log.borrow().segments)
    }

    /// Bytes promised or live, and the most that this may become.
    pub fn space(&self) -> (u64, u64) {
        (self.used.get(), self.limit.get())
    }

    /// The most bytes that files, their inodes and their maps may have on this volume, so that
    /// the cleaner always finds room to work in: the log less what is kept free of it, or less a
    /// fixed reserve if that leaves less. `more` segments are kept back besides.
    pub(crate) fn capacity(sb: &Superblock, more: u64) -> u64 {
        let segment = u64::from(sb.segment_size);
        // A segment loses its summaries, a block or more, and at its end less than a block.
        let block = u64::from(sb.shape.block_size);
        let payload = segment - (segment / 64).max(block) - block;
        let all = payload * u64::from(sb.segments);
        let reserve = payload * (u64::from(Lfs::reserve_segments(sb)) + more);
        let kept = all / 100 * u64::from(sb.minfree);
        (all - kept).min(all.saturating_sub(reserve))
    }

    /// Segments that are never counted on for data: for streams, the cleaner and checkpoints.
    pub(crate) fn reserve_segments(sb: &Superblock) -> u32 {
        // The usage table and the ifile's indirect blocks are written at every checkpoint.
        let table = sb.usage_blocks() * u64::from(sb.shape.block_size);
        let table_segments = (table / u64::from(sb.segment_size)) as u32 + 1;
        (8 + 2 * table_segments).min(sb.segments / 2)
    }
}
