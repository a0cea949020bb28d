//! What is set when a volume is opened.

use crate::reading::Overwrite;

/// What is set when a volume is opened and stays.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Bytes of memory for blocks.
    pub cache_bytes: u64,
    /// Inodes kept in memory beyond those in use.
    pub cached_inodes: usize,
    /// The replacement policy, by name.
    pub replacement: String,
    /// The flush policy, by name.
    pub flush: String,
    /// The flush policy's age limit; `None` for its own.
    pub flush_age_ns: Option<u64>,
    /// What was changed is durable after so long even if no client asks for it; `None`: the flush policy
    /// alone decides, and durable is what clients ask for.
    pub durable_within_ns: Option<u64>,
    /// The most that is read ahead of a sequential reader, in bytes; 0 for none.
    pub read_ahead_bytes: u32,
    /// Clients keep what they have read, as the kernel above a mount does: blocks that were read
    /// for a sequential reader leave memory once he has them, and make room for what follows.
    pub drop_behind: bool,
    /// How files are read, by name: see [`reading`](crate::reading). With any policy but the first,
    /// reads and writes go block by block.
    pub reading: String,
    /// When blocks that are overwritten are read first.
    pub overwrite: Overwrite,
    /// Neighbouring blocks are read with one request up to this many bytes; 0: the device's limit.
    pub cluster_bytes: u32,
    /// Synthetic data is stored as real bytes, not as stamps.
    pub expand_stamps: bool,
    /// No change is allowed.
    pub read_only: bool,
    /// What is read is checked against its checksum, where the format has one.
    pub check_data: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            cache_bytes: 64 << 20,
            cached_inodes: 16_384,
            replacement: twin_cache::replacement::registry()[0].name.into(),
            flush: twin_cache::flush::registry()[0].name.into(),
            flush_age_ns: None,
            durable_within_ns: None,
            read_ahead_bytes: 1 << 20,
            drop_behind: false,
            reading: crate::reading::registry()[0].name.into(),
            overwrite: Overwrite::Needed,
            cluster_bytes: 0,
            expand_stamps: false,
            read_only: false,
            check_data: true,
        }
    }
}
