//! The block cache: blocks of files in memory, which to keep, and when to write them back.
//!
//! Main types: [`Frame`] (one block in memory), [`FileFrames`] (the frames of one file, by
//! logical block), [`Cache`] (the memory that all files share), [`Replacement`] and
//! [`FlushPolicy`] (the policies, by name in [`replacement::registry`] and [`flush::registry`]).
//! Start at [`Cache`]. To compare replacement policies on accesses alone: [`study`].
//!
//! A frame is pinned by holding its `Rc`: only frames that nobody holds are evicted. A frame that
//! is dirty stays until it is written. The cache knows no addresses: a layout says where a block
//! comes from ([`load`]) and where it goes.

mod by_block;
mod cache;
pub mod flush;
mod frame;
mod miss;
pub mod replacement;
pub mod study;

pub use cache::{Cache, CacheStats};
pub use flush::{FlushAdvice, FlushPolicy, FlushState};
pub use frame::{FileFrames, Frame, FrameError};
pub use miss::{LoadError, Wanted, load, whole};
pub use replacement::{Removal, Replacement};

/// A logical block of a file: data from 0 up, metadata (indirect blocks) below 0.
pub type Lbn = i64;
