//! The state of an open log-structured layout.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use twin_cache::Frame;
use twin_fs::{Ino, Inode};
use twin_rt::{Budget, Event, RwLock, Time};

use crate::admission::Admission;
use crate::cleaner::CleanerState;
use crate::format::{HeadPos, Superblock};
use crate::forwards::Forwards;
use crate::inode_blocks::InodeBlocks;
use crate::pacing::Pacing;
use crate::progress::Progress;
use crate::reservations::Reservations;
use crate::segment_usage::{SegmentTable, SegmentUsage};
use crate::settings::LfsSettings;
use crate::stats::LfsStats;

/// Where the log stands, and the tables that go with it.
pub(crate) struct Log {
    pub(crate) heads: Vec<HeadPos>,
    /// The serial number of the next partial segment.
    pub(crate) serial: u64,
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
    pub(crate) reservations: Reservations,
    pub(crate) admission: Admission,
    pub(crate) progress: Rc<Progress>,
    /// Bytes of log writes that may be under way.
    pub(crate) in_flight: Budget,
    pub(crate) checkpointing: RwLock,
    /// Notified when segments become clean.
    pub(crate) space: Rc<Event>,
    /// Who may go on while room is short.
    pub(crate) pacing: Pacing,
    pub(crate) cleaner: CleanerState,
    pub(crate) usage: SegmentUsage,
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
    pub fn with_segments<T>(&self, f: impl FnOnce(&SegmentTable) -> T) -> T {
        self.usage.with(f)
    }

    /// Bytes reserved or live, and the most that this may become.
    pub fn space(&self) -> (u64, u64) {
        (self.reservations.used(), self.reservations.limit())
    }
}
