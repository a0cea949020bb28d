//! The age of volumes: how well files lie on the device, what a volume looked like at an instant,
//! and volumes that are made old.
//!
//! Contract: everything here is a pure function of its arguments: no clock, no files, no device.
//! Times are seconds since 1970, places and lengths are bytes, unless stated otherwise.
//!
//! Main types: [`VolumeMap`] (where all blocks of all files are and what is free, of one of our
//! volumes or of any file system), [`Layout`] (its layout scores and its free space), [`snapshot`]
//! (a map as a file), [`history`] (many of them over time), [`Profile`] and [`Ageing`] (a workload
//! that makes a volume old), [`load`] (the loads of file servers), [`again`] (a recording continued
//! by a period of the same kind), [`Succession`] (the changes between snapshots), [`AtOnce`] (any of
//! these workloads without its pauses). Scores are those of Smith and Seltzer, "File Layout and File
//! System Performance" (Harvard TR-35-94, 1994); profiles those of Kadekodi, Nagarajan and Ganger,
//! "Geriatrix" (USENIX ATC 2018). Start at [`Layout::of`].
//!
//! ```
//! use twin_age::{Layout, VolumeMap, map::{FileKind, FileMap, Run}};
//!
//! // The paper's example: a file of three blocks at 100, 101 and 200.
//! let runs = vec![
//!     Run { lbn: 0, blocks: 2, at: 100 * 8192, bytes: 2 * 8192 },
//!     Run { lbn: 2, blocks: 1, at: 200 * 8192, bytes: 8192 },
//! ];
//! let file = FileMap { ino: 3, kind: FileKind::File, size: 3 * 8192, mtime_s: 0, runs };
//! let map = VolumeMap { block_size: 8192, files: vec![file], ..VolumeMap::default() };
//! assert_eq!(Layout::of(&map).score.value(), Some(0.5));
//! ```

pub mod again;
mod ageing;
mod at_once;
mod converge;
mod free;
pub mod history;
mod layout;
pub mod load;
pub mod map;
mod order;
mod profile;
mod queue;
mod recreate;
mod score;
pub mod snapshot;
mod succession;

pub use ageing::{Ageing, Plan, PlanError, Planned};
pub use at_once::AtOnce;
pub use converge::{Agreement, Bucket, agreement};
pub use free::{FreeSpace, RunClass, TENTHS};
pub use layout::{FileScore, Layout, by_directory, by_file};
pub use map::VolumeMap;
pub use profile::{Distribution, Profile, profile, profiles};
pub use recreate::{Recreate, Step};
pub use score::{Class, Score, SizeClass};
pub use succession::{Succession, SuccessionError};
