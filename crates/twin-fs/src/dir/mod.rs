//! Directories as they lie on disk: pure functions on bytes, without waiting.
//!
//! [`block`] is the format of a directory's own blocks, in two profiles; [`index`] is the hash
//! table that the modern profile keeps beside a directory of more than a few blocks;
//! [`name_hash`] is its hash. Reading and writing the blocks is the caller's.

pub mod block;
pub mod index;

mod name_hash;
pub use crate::features::LINK_MAX;
pub use name_hash::name_hash;

/// The longest target of a symbolic link, in bytes.
pub const SYMLINK_MAX: usize = 4095;
/// The longest value of an extended attribute, in bytes.
pub const XATTR_VALUE_MAX: usize = 65_536;
