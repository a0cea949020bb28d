//! Directories as they lie on disk: pure functions on bytes, without waiting.
//!
//! [`block`] is the format of a directory's own blocks, in two profiles; [`index`] is the hash
//! table that the modern profile keeps beside a directory of more than a few blocks;
//! [`name_hash`] is its hash. Reading and writing the blocks is the caller's.

pub mod block;
pub mod index;

mod name_hash;
pub use name_hash::name_hash;

/// The most names that an inode may have; for a directory, the most subdirectories and two.
pub const LINK_MAX: u32 = 65_000;
/// The longest target of a symbolic link, in bytes.
pub const SYMLINK_MAX: usize = 4095;
/// The longest value of an extended attribute, in bytes.
pub const XATTR_VALUE_MAX: usize = 65_536;
