//! The settings of an open volume that do not depend on its layout.

use twin_cache::flush::FlushBy;
use twin_rt::{Nanos, SECS};

use crate::reading::Overwrite;

/// The settings with which a volume is opened; they do not change while it is open.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Memory for blocks, in bytes.
    pub cache_bytes: u64,
    /// The number of inodes to keep in memory in addition to those in use.
    pub cached_inodes: usize,
    /// The replacement policy, by name.
    pub replacement: String,
    /// The flush policy, by name.
    pub flush: String,
    /// The age limit of the flush policy; `None` for the policy's default.
    pub flush_age_ns: Option<u64>,
    /// Who writes back when an operation needs room; `None` for the policy's default.
    pub flush_by: Option<FlushBy>,
    /// The bytes of memory that survives a power failure, for flush policies that keep dirty data in
    /// it.
    pub nvram_bytes: u64,
    /// Data leaves that memory when the device has reported its write, not when it is durable: right
    /// for devices whose own cache survives too.
    pub nvram_until_reported: bool,
    /// The time after which changes are durable even if no client asks for it. With `None` the
    /// flush policy alone decides when changes are written, and they are durable only when a client
    /// asks.
    pub durable_within_ns: Option<u64>,
    /// The flush policy alone decides what is durable when: the flusher makes durable what it writes, and
    /// the age of dirty data counts from its change. Otherwise a device may keep what was written in a
    /// cache that a power failure empties, and an age counts from the flusher's first look.
    pub durable_flush: bool,
    /// The most that is read ahead of a sequential reader, in bytes; 0 for none.
    pub read_ahead_bytes: u32,
    /// True if clients cache what they have read, as the kernel above a mount does. Blocks that
    /// were read for a sequential reader then leave memory as soon as the reader has them.
    pub drop_behind: bool,
    /// Files whose attributes say so are of another type than their mode alone says, for example
    /// active while they are open ([`file_type`](crate::file_type)). Without it attributes have no
    /// such effect, and opens need not reach the volume.
    pub file_types: bool,
    /// The read policy, by name: see [`reading`](crate::reading). With any policy but the first,
    /// reads and writes proceed block by block.
    pub reading: String,
    /// In which cases a block is read before it is overwritten.
    pub overwrite: Overwrite,
    /// The most bytes of neighbouring blocks that one request reads; 0: the device's limit.
    pub cluster_bytes: u32,
    /// Synthetic data is stored as real bytes, not as stamps.
    pub expand_stamps: bool,
    /// Synthetic data is stored as zeros, which take no room on a sparse device and have the same
    /// checksums in both worlds. Goes before `expand_stamps`.
    pub zeros: bool,
    /// Every change is refused.
    pub read_only: bool,
    /// Blocks that are read are compared with their checksums, where the format has them.
    pub check_data: bool,
}

/// Changes that a mount has taken are durable within this time, whether a client asks or not: the
/// kernel does not pass `sync` on.
const MOUNT_DURABLE_WITHIN_NS: Nanos = 2 * SECS;

impl Settings {
    /// These settings behind the kernel of a mount, which keeps what was read in caches of its own
    /// and passes `sync` on as writes, not as a request.
    #[must_use]
    pub fn mounted(self) -> Settings {
        Settings { drop_behind: true, durable_within_ns: Some(MOUNT_DURABLE_WITHIN_NS), ..self }
    }

    /// These settings of a mount whose flush policy alone decides when data becomes durable that no client has
    /// asked for.
    #[must_use]
    pub fn flushed_by_policy(self) -> Settings {
        Settings { durable_within_ns: None, durable_flush: true, ..self }
    }

    /// These settings behind a server of a network: as on a mount, but no cache is above this one.
    #[must_use]
    pub fn served(self) -> Settings {
        let drop_behind = self.drop_behind;
        Settings { drop_behind, ..self.mounted() }
    }
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            cache_bytes: 64 << 20,
            cached_inodes: 16_384,
            replacement: twin_cache::replacement::REGISTRY.default_entry().name.into(),
            flush: twin_cache::flush::REGISTRY.default_entry().name.into(),
            flush_age_ns: None,
            flush_by: None,
            nvram_bytes: 4 << 20,
            nvram_until_reported: false,
            durable_within_ns: None,
            durable_flush: false,
            read_ahead_bytes: 1 << 20,
            drop_behind: false,
            file_types: false,
            reading: crate::reading::REGISTRY.default_entry().name.into(),
            overwrite: Overwrite::Needed,
            cluster_bytes: 0,
            expand_stamps: false,
            zeros: false,
            read_only: false,
            check_data: true,
        }
    }
}
