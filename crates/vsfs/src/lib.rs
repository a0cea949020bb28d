//! The very simple file system of "Operating Systems: Three Easy Pieces" (Arpaci-Dusseau, chapter
//! "File System Implementation"), as a layout: one superblock, two bitmaps, a table of inodes, data.
//!
//! ```text
//!  block 0     1        2        3 ...          D ...
//! +-------+--------+--------+-------------+---------------------------+
//! | super | inode  | data   | inode table | data blocks               |
//! | block | bitmap | bitmap |             |                           |
//! +-------+--------+--------+-------------+---------------------------+
//! ```
//!
//! Read it in this order: [`mod@format`] (what lies where, as in the picture), `bitmap` (which numbers
//! are free), `space` and `inodes` (the data blocks and the inodes that are handed out), `write_back`
//! (how changes reach the disk), `layout` (the seam to the rest of twinfs, which knows names, directories
//! and file data), `open` (mkfs and mount), `check` (what a crash leaves, and its mending, on the `disk` without a mount), `dump`,
//! `kind` (the entry in the registry). `docs/ondisk-vsfs.md` has every byte.
//!
//! The rules of this file system are few:
//! - A block has one place for its life and is overwritten there.
//! - Space is reserved in memory before anything becomes dirty, so write-back always finds a block.
//! - Write-back sends all that is dirty, in no order. A crash in the middle may leave anything: the
//!   superblock says that the volume was in use, and the next mount checks and repairs it first.
//! - `fsync` and `sync` return when a whole write-back has reached the disk.

mod bitmap;
mod check;
mod disk;
mod dump;
pub mod format;
mod inodes;
mod kind;
mod layout;
mod open;
mod space;
mod write_back;

pub use kind::{VSFS, VsfsConfig};
pub use layout::Vsfs;
pub use open::MkfsOptions;
