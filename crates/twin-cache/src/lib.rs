//! The block cache: it holds blocks of files in memory, and its policies decide which blocks to
//! keep and when to write them back.
//!
//! Main types: [`Frame`] (one block in memory), [`FileFrames`] (the frames of one file, by
//! logical block), [`Cache`] (the memory that all files share), [`Replacement`] and
//! [`FlushPolicy`] (the policies, by name in [`replacement::REGISTRY`] and [`flush::REGISTRY`]).
//! Start at [`Cache`]. To compare replacement policies on accesses alone: [`study`].
//!
//! ```
//! use twin_cache::{Cache, Capacity, FileFrames, replacement};
//! use twin_disk::Block;
//!
//! // Room for two blocks of 4 KiB. A frame that is not held may be evicted.
//! let policy = replacement::REGISTRY.get("lru").unwrap().make(Capacity::frames(2));
//! let cache = Cache::new(8192, 4096, policy);
//! let file = FileFrames::new(17);
//! let held = cache.insert(&file, 0, Some(Block::Zero(4096)));
//! for lbn in 1..10 {
//!     cache.insert(&file, lbn, Some(Block::Zero(4096)));
//! }
//! assert!(cache.get(&file, 0).is_some() && cache.get(&file, 1).is_none());
//! // A dirty frame stays until it is written.
//! cache.mark_dirty(&file, &held);
//! assert_eq!(cache.dirty_bytes(), 4096);
//! ```
//!
//! A frame is pinned while a task holds its `Rc`; only frames that no task holds are evicted. A
//! dirty frame stays until it is written. The cache knows no addresses: the code above says from
//! which address a block is read ([`load`]), and the layout decides to which address it is written.

mod by_block;
mod cache;
pub mod flush;
mod frame;
mod memory;
mod miss;
pub mod replacement;
pub mod study;

pub use cache::{Cache, CacheStats};
pub use flush::{FlushAdvice, FlushPolicy, FlushState};
pub use frame::{FileFrames, Frame, FrameError};
pub use memory::{Access, Memory, Sharer};
pub use miss::{FrameRequest, LoadError, load, whole};
pub use replacement::{Capacity, Item, Key, Policy, Removal, Replacement, Rules};

/// The number of a logical block of a file: data blocks from 0 on, indirect blocks below 0.
pub type Lbn = i64;
