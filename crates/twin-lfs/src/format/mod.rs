//! The on-disk format, byte by byte; `docs/ondisk-lfs.md` says the same in words.
//!
//! Everything here is pure: it turns structures into bytes and bytes into structures or into a
//! clear refusal. Numbers are little-endian.

mod checkpoint;
mod ifile;
mod snapshots;
mod summary;
mod superblock;

pub use checkpoint::{Checkpoint, HeadPos, PICKED_MAX, STREAMS_MAX};
pub use ifile::{IFILE_INO, IMAP_ENTRY_BYTES, ImapEntry, SEG_ENTRY_BYTES, SNAPSHOTS_INO, SegEntry};
pub use snapshots::{
    FIRST_HEAD, RecordKind, SNAPSHOT_NAME_MAX, SNAPSHOT_SLOT_BYTES, SNAPSHOTS_MAX, SnapshotRecord,
    SnapshotsFile, is_snapshot_name,
};
pub(crate) use summary::inode_block_len;
pub use summary::{
    BlockContents, BlockInfo, Header, HolderVersion, InodeInfo, LOG_WRITE_CHECKPOINT,
    LOG_WRITE_CLEANER, LOG_WRITE_LAST, MOST_SUMMARY_BYTES, PlacedBlock, Summary, SummaryDraft,
    SummaryEntry,
};
pub(crate) use superblock::MAGIC;
pub use superblock::{CHECKPOINT_BYTES, HAS_SNAPSHOTS, Profile, SUPERBLOCK_BYTES, Superblock};
