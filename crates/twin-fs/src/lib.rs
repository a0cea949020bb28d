//! The file system above its layout: operations, names, inodes, permissions, file data.
//!
//! Main types: [`Op`], [`Request`] and [`Reply`] (what clients ask and get), [`FileSystem`]
//! (what executes them), [`Volume`] (an open file system, over a [`Layout`]), [`Core`] (what its
//! layers share), [`Features`] (what files of a layout can do), [`LayoutKind`] (a layout as programs
//! know it), [`FsError`]. Start at [`Op`], then [`Volume`], which names the layers.
//!
//! The block map of a file does not depend on where the layout puts the blocks. The geometry alone
//! decides which pointer leads to which block:
//!
//! ```
//! use twin_fs::geometry::{Geometry, Parent};
//!
//! // 4.4BSD's format with blocks of 8 KiB: twelve pointers in the inode, then indirect blocks.
//! let geometry = Geometry::classic(8192, 1024);
//! assert_eq!(geometry.parent(11), Parent::Inode(11));
//! let Parent::Indirect(indirect, index) = geometry.parent(12 + 5) else { panic!() };
//! assert_eq!(index, 5);
//! assert_eq!(geometry.parent(indirect), Parent::Inode(12));
//! // The last block of a small file takes only the fragments that it needs.
//! assert_eq!(geometry.data_len(1, 8192 + 1500), 2048);
//! ```
//!
//! `crates/twin-lfs/examples/embed.rs` drives a whole volume through this crate's interface.

#![allow(missing_docs)] // Fields of `Op`'s variants are documented on their variant.

pub mod acl;
mod admission;
mod below;
mod block_walk;
mod core;
mod cpu;
mod data;
pub mod dir;
mod dirty_limit;
pub mod dump;
mod error;
mod features;
pub mod file_type;
mod flushing;
mod following;
mod freeze;
pub mod geometry;
mod inodes;
mod kind;
mod layout;
mod log_status;
mod nvram;
mod observing;
mod op;
mod ops;
mod orphans;
pub mod perm;
mod places;
pub mod quota;
pub mod reading;
mod reads;
mod room;
#[cfg(test)]
mod room_tests;
pub mod scrub;
mod scrub_view;
mod settings;
pub mod snapshots;
mod snapshots_directory;
mod space_map;
mod stop;
mod volume;
#[cfg(test)]
mod volume_tests;
mod write_back;
pub mod xattr_list;

pub use admission::{Admission, AdmissionGuard};
pub use block_walk::{BlockWalk, Step};
pub use core::{BlockMapHook, Core};
pub use cpu::{Cpu, CpuModel, OpKind, Work};
pub use data::dirty_parents;
pub use error::{FsError, Result};
pub use features::{DirFormat, Features};
pub use file_type::admission::StreamCounts;
pub use flushing::{Chosen, flush_by_name, set_flush_by};
pub use following::{Following, HasLost, STATES_MOST, number_on_volume};
pub use freeze::FreezeGuard;
pub use inodes::{Inode, Refs, dinode};
pub use kind::{
    CheckReport, CheckRequest, DeclaredConfig, Identity, KeyHelp, LayoutConfig, LayoutKind, Opened,
    VolumeProperty,
};
pub use layout::{
    Answer, Change, Cleaned, Cleaning, Dirty, Figures, Growth, GrowthView, HintedRun, InodeEvent,
    Layout, LogView, NO_GROWTH, NO_SNAPSHOTS, Need, OpenedState, Picked, PlacementHints,
    SnapshotView, SyncScope, UpdateOrder, Views, Written, write_cost,
};
pub use log_status::{
    CleanedCounts, CleanerCounts, IdleCounts, LogStatus, SegmentPhase, SegmentStatus, TimeCounts,
};
pub use nvram::Nvram;
pub use observing::{Begun, OperationObserver};
pub use op::*;
pub use reads::{ReadGate, ReadPass};
pub use room::{Gate, GateChange, WriteVerdict, collected_bytes};
pub use scrub_view::{Flaw, ScrubNotes, ScrubView, ScrubbedInodes};
pub use settings::Settings;
pub use space_map::{Region, RegionState, SpaceMap};
pub use volume::{Executing, Volume, VolumeOf};
