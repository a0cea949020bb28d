//! The bytes on disk: superblock, state, cylinder groups, journal records. `docs/ondisk-ffs.md`
//! describes them byte by byte; inodes, pointers and directories are those of `twin_fs`.

mod cylinder_group;
mod journal;
mod state;
mod superblock;

pub(crate) use journal::header_io;
pub(crate) use state::state_io;
pub(crate) use superblock::{MAGIC, Plan};

pub use cylinder_group::{CgCounts, CgImage};
pub use journal::{
    JOURNAL_HEADERS, JournalHeader, RECORD_FIXED_BYTES, Record, RecordEntry, RecordEntryKind,
    record_blocks,
};
pub use state::{STATE_AT, STATE_BYTES, VolumeState, read_state};
pub use superblock::{
    CG_FIXED_BYTES, DiskGeometry, Profile, SUPERBLOCK_BYTES, Superblock, Tuning, find_replica,
    read_superblock,
};
