//! The on-disk format, byte by byte; `docs/ondisk-lfs.md` says the same in words.
//!
//! Everything here is pure: it turns structures into bytes and bytes into structures or into a
//! clear refusal. Numbers are little-endian.

mod checkpoint;
mod ifile;
mod summary;
mod superblock;

pub use checkpoint::{Checkpoint, HeadPos, PICKED_MAX, STREAMS_MAX};
pub use ifile::{IFILE_INO, IMAP_ENTRY_BYTES, ImapEntry, SEG_ENTRY_BYTES, SegEntry};
pub(crate) use summary::inode_block_len;
pub use summary::{
    BlockInfo, Draft, Entry, Form, GROUP_CHECKPOINT, GROUP_CLEANER, GROUP_LAST, Header, InodeInfo,
    MOST_SUMMARY_BYTES, Placed, Summary, What,
};
pub(crate) use superblock::MAGIC;
pub use superblock::{CHECKPOINT_BYTES, Profile, SUPERBLOCK_BYTES, Superblock};
