//! What an open volume counts.

use twin_fs::CleanerCounts;

/// What was counted since the volume was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LfsStats {
    /// The number of log writes.
    pub log_writes: u64,
    /// The number of partial segments.
    pub partial_segments: u64,
    /// Bytes written to the log, all together.
    pub log_bytes: u64,
    /// Of these, file data and directories.
    pub data_bytes: u64,
    /// Of these, indirect blocks, inodes and the ifile.
    pub meta_bytes: u64,
    /// Of these, file contents that users wrote: neither directories, nor what the cleaner moved.
    pub new_data_bytes: u64,
    /// Of these, blocks that the cleaner moved.
    pub moved_bytes: u64,
    /// The number of checkpoints.
    pub checkpoints: u64,
    /// Segments cleaned, and how many of their bytes were live.
    pub cleaned_segments: u64,
    /// Live bytes of the cleaned segments.
    pub cleaned_live_bytes: u64,
    /// Bytes that the cleaner read.
    pub cleaner_read_bytes: u64,
    /// Operations that waited for the cleaner, or still wait.
    pub space_waits: u64,
    /// The cleaner's work by reason, idle times, and the waits that have ended.
    pub cleaner: CleanerCounts,
}

impl LfsStats {
    /// What was counted since `before`.
    pub fn since(&self, before: &LfsStats) -> LfsStats {
        LfsStats {
            log_writes: self.log_writes - before.log_writes,
            partial_segments: self.partial_segments - before.partial_segments,
            log_bytes: self.log_bytes - before.log_bytes,
            data_bytes: self.data_bytes - before.data_bytes,
            meta_bytes: self.meta_bytes - before.meta_bytes,
            new_data_bytes: self.new_data_bytes - before.new_data_bytes,
            moved_bytes: self.moved_bytes - before.moved_bytes,
            checkpoints: self.checkpoints - before.checkpoints,
            cleaned_segments: self.cleaned_segments - before.cleaned_segments,
            cleaned_live_bytes: self.cleaned_live_bytes - before.cleaned_live_bytes,
            cleaner_read_bytes: self.cleaner_read_bytes - before.cleaner_read_bytes,
            space_waits: self.space_waits - before.space_waits,
            cleaner: self.cleaner.since(&before.cleaner),
        }
    }

    /// The write cost ([`twin_fs::write_cost`]).
    pub fn write_cost(&self) -> Option<f64> {
        twin_fs::write_cost(self.log_bytes, self.cleaner_read_bytes, self.new_data_bytes)
    }
}
