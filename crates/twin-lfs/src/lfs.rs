//! The state of an open log-structured layout.

use std::cell::Cell;
use std::rc::Rc;

use twin_fs::{Core, FsError, Inode, Result};
use twin_rt::{Budget, Event, RwLock};

use crate::admission::Admission;
use crate::checkpoints::Checkpoints;
use crate::cleaner::CleanerState;
use crate::format::{Checkpoint, Superblock};
use crate::forwards::Forwards;
use crate::ifile::Ifile;
use crate::inode_blocks::InodeBlocks;
use crate::inode_numbers::InodeNumbers;
use crate::log_position::LogPosition;
use crate::pacing::Pacing;
use crate::progress::Progress;
use crate::reservations::Reservations;
use crate::segment_usage::{PolicySettings, SegmentTable, SegmentUsage};
use crate::settings::LfsSettings;
use crate::sizing;
use crate::snapshots::Snapshots;
use crate::stats::LfsStats;

/// An open log-structured layout.
pub struct Lfs {
    pub(crate) sb: Superblock,
    pub(crate) settings: LfsSettings,
    pub(crate) ifile: Ifile,
    /// Pointers that are newer than the blocks on the device that hold them.
    pub(crate) forwards: Rc<Forwards>,
    pub(crate) position: LogPosition,
    pub(crate) numbers: InodeNumbers,
    pub(crate) checkpoints: Checkpoints,
    pub(crate) reservations: Reservations,
    pub(crate) admission: Admission,
    pub(crate) progress: Rc<Progress>,
    /// Bytes of log writes that may be under way.
    pub(crate) in_flight: Budget,
    pub(crate) checkpointing: RwLock,
    /// Notified when segments become clean.
    pub(crate) space: Rc<Event>,
    /// Decides which writers may continue while room is short.
    pub(crate) pacing: Pacing,
    pub(crate) cleaner: CleanerState,
    pub(crate) usage: SegmentUsage,
    /// The states that are kept.
    pub(crate) snapshots: Snapshots,
    counters: Cell<LfsStats>,
    /// Inode blocks on their way to the device, and those read lately.
    pub(crate) inode_blocks: Rc<InodeBlocks>,
}

impl Lfs {
    /// The layout's state around an ifile and a log position.
    pub(crate) fn assemble(
        sb: Superblock,
        settings: LfsSettings,
        ifile: Rc<Inode>,
        checkpoint: &Checkpoint,
        table: SegmentTable,
        core: &Core,
    ) -> Result<Lfs> {
        let when = twin_clean::trigger::REGISTRY
            .get(&settings.trigger)
            .map_err(|_| FsError::Invalid("no such policy of when to clean"))?;
        let (streams, memory) = (checkpoint.heads.len(), core.settings.cache_bytes);
        let seed = core.rt.rng("cleaner policies").next_u64();
        // A placement policy is made later, when it is known how many streams there is room for.
        let plain = LfsSettings { placement: String::new(), ..settings.clone() };
        let policies = PolicySettings { settings: &plain, streams, memory_bytes: memory, seed };
        let usage = SegmentUsage::new(&sb, table, policies)?;
        let unit = u64::from(sb.geometry.block_size);
        let forwards = Rc::<Forwards>::default();
        core.set_block_map_hook(Rc::clone(&forwards) as _);
        let snapshots = Snapshots::new(&sb, checkpoint, core);
        let lfs = Lfs {
            forwards,
            reservations: Reservations::new(sizing::capacity(&sb, 0)),
            in_flight: Budget::new(settings.in_flight_bytes.max(u64::from(sb.segment_size))),
            ifile: Ifile::new(&sb, ifile),
            sb,
            settings,
            position: LogPosition::new(checkpoint.heads.clone(), checkpoint.serial),
            numbers: InodeNumbers::new(checkpoint.free_head, checkpoint.free_inodes),
            checkpoints: Checkpoints::new(checkpoint.number, core.rt.now()),
            counters: Cell::default(),
            admission: Admission::default(),
            progress: Rc::default(),
            checkpointing: RwLock::new(),
            space: Rc::default(),
            pacing: Pacing::default(),
            cleaner: CleanerState::new(when.make()),
            usage,
            snapshots,
            inode_blocks: Rc::new(InodeBlocks::new(unit)),
        };
        lfs.progress.begin_after(checkpoint.serial - 1);
        for event in [&lfs.space, lfs.progress.changed(), lfs.cleaner.wakes()] {
            core.wake_on_stop(event);
        }
        Ok(lfs)
    }

    /// The superblock: sizes, profile and features of the volume.
    pub fn superblock(&self) -> &Superblock {
        &self.sb
    }

    /// What was counted since the volume was opened.
    pub fn stats(&self) -> LfsStats {
        let mut stats = self.counters.get();
        stats.cleaner.idle = self.cleaner.idle_counts();
        stats
    }

    pub(crate) fn count(&self, f: impl FnOnce(&mut LfsStats)) {
        let mut stats = self.counters.get();
        f(&mut stats);
        self.counters.set(stats);
    }

    /// Pointers that are newer than what holds them on the device.
    pub fn forwarded_pointers(&self) -> usize {
        self.forwards.len()
    }

    /// Calls `f` with the segment usage table.
    pub fn with_segments<T>(&self, f: impl FnOnce(&SegmentTable) -> T) -> T {
        self.usage.with(f)
    }

    /// Bytes reserved or live, and the most that this may become.
    pub fn space(&self) -> (u64, u64) {
        (self.reservations.used(), self.reservations.limit())
    }
}
