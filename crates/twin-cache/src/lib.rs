//! The block cache: blocks of files in memory, which to keep, and when to write them back.
//!
//! Main types: [`Frame`] (one block in memory), [`FileFrames`] (the frames of one file, by
//! logical block), [`Cache`] (the memory that all files share), [`Replacement`] and
//! [`FlushPolicy`] (the policies, by name in [`replacement::registry`] and [`flush::registry`]).
//! Start at [`Cache`]. To compare replacement policies on accesses alone: [`study`].
//!
//! ```
//! use twin_cache::{Cache, FileFrames, replacement};
//! use twin_disk::Block;
//!
//! // Room for two blocks of 4 KiB. A frame that nobody holds may be evicted.
//! let policy = replacement::by_name("lru").unwrap();
//! let cache = Cache::new(8192, 4096, policy);
//! let file = FileFrames::new(17);
//! let held = cache.insert(&file, 0, Some(Block::Zero(4096)));
//! for lbn in 1..10 {
//!     cache.insert(&file, lbn, Some(Block::Zero(4096)));
//! }
//! assert!(cache.get(&file, 0).is_some() && cache.get(&file, 1).is_none());
//! // A dirty one stays until it was written.
//! cache.mark_dirty(&file, &held);
//! assert_eq!(cache.dirty_bytes(), 4096);
//! ```
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
