//! Inodes: their records on the disk, and what is in memory of them.
//!
//! Contract: nothing here waits, and nothing here knows of blocks' places, of names or of operations.
//! Each part keeps its state to itself; [`Core`](crate::Core) puts them together.

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
pub(crate) use table::Table;
