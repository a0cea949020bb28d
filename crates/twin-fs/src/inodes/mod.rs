//! Inodes: their records on disk, and their state in memory.
//!
//! Contract: nothing here waits, and nothing here knows places of blocks, names or operations. The
//! state of each part is private; [`Core`](crate::Core) puts the parts together.

pub mod dinode;
mod dirty;
mod inode;
mod refs;
mod table;

pub(crate) use dirty::DirtyInodes;
pub use inode::Inode;
pub(crate) use inode::ReadAhead;
pub(crate) use refs::References;
pub use refs::Refs;
pub(crate) use table::InodeTable;
