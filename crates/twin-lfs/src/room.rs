//! Room in the log: how much is left after all that is dirty or admitted, and when it is short.
//!
//! Contract: it looks at accounts, and gives writers allowance for what the cleaner gained.

use twin_fs::Core;

use crate::lfs::Lfs;
use crate::pacing::PacedWriter;
use crate::sizing;

impl Lfs {
    /// Bytes that the log must take if everything that is dirty now were written with a
    /// checkpoint.
    pub(crate) fn pending_log_bytes(&self, core: &Core) -> u64 {
        let inode = u64::from(self.sb.geometry.inode_size.max(self.sb.geometry.frag_size));
        let table = self.sb.usage_blocks() * u64::from(self.sb.geometry.block_size);
        core.cache.dirty_bytes()
            + core.dirty_inode_count() as u64 * inode
            + self.checkpoints.deferred_count() as u64 * inode
            + table
    }

    /// Bytes that the log could still take if all that is dirty, or admitted, were written.
    pub(crate) fn room_left(&self, core: &Core) -> u64 {
        self.usage
            .log_room()
            .saturating_sub(self.pending_log_bytes(core) + self.admission.admitted_bytes())
    }

    /// Bytes that no writer gets: the cleaner must be able to move a victim, with all its parents,
    /// in any case; and each stream may leave a segment that is not full.
    pub(crate) fn cleaner_reserve(&self) -> u64 {
        (4 + self.extra_streams()) * u64::from(self.sb.segment_size)
    }

    /// With less room left than this, writers keep pace with the cleaner.
    fn pacing_threshold(&self) -> u64 {
        let ahead = u64::from(self.low_water() - sizing::reserve_segments(&self.sb));
        self.cleaner_reserve() + ahead * u64::from(self.sb.segment_size) / 2
    }

    /// True if room is short: the cleaner hurries, and writers keep pace with it.
    pub(crate) fn is_short(&self, core: &Core) -> bool {
        self.room_left(core) < self.pacing_threshold()
    }

    /// True if room is so short that writers may soon not get any until the next checkpoint.
    pub(crate) fn is_nearly_out(&self, core: &Core) -> bool {
        self.room_left(core) < (2 * self.cleaner_reserve() + self.pacing_threshold()) / 3
    }

    /// True if a writer may go on, as far as pace goes. Where the cleaner does not work there is no
    /// pace to keep: on a full volume it may have nothing to gain.
    pub(crate) fn keeps_pace(&self, core: &Core, bytes: u64, writer: &mut PacedWriter) -> bool {
        !self.is_short(core) || !self.cleaner.is_at_work() || self.pacing.admits(bytes, writer)
    }

    /// Victims with so much garbage are done: writers may go on with as much of it as there is
    /// room, twice all of it at the most.
    pub(crate) fn grant_allowance(&self, core: &Core, garbage: u64) {
        let segment = u64::from(self.sb.segment_size);
        // What is empty waits for a checkpoint only.
        let room = self.room_left(core) + u64::from(self.empty_count()) * segment;
        let over = room.saturating_sub(self.cleaner_reserve());
        let whole = self.pacing_threshold() - self.cleaner_reserve();
        let allowance = garbage as f64 * 2.0 * (over as f64 / whole as f64).min(1.0);
        self.pacing.grant(allowance as u64, segment);
        self.space.notify();
    }
}
