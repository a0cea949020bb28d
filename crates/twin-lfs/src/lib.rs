//! The log-structured layout: everything is written to the end of a log, in segments; a cleaner
//! makes room.
//!
//! The tradition is Rosenblum and Ousterhout's Sprite LFS (1992) and Seltzer, Bostic, McKusick and
//! Staelin's BSD-LFS (1993). Main types: [`Lfs`] (an open layout, implements
//! [`twin_fs::Layout`]), [`MkfsOptions`], [`LfsSettings`], [`mod@format`] (the bytes on disk). Start at
//! [`Lfs::mkfs`] and [`Lfs::open`], then read `build` (how dirty state becomes a log write),
//! `commit` (how it becomes durable), `recover` (how it is found again) and `cleaner`. [`check`]
//! looks at all of it without the volume's code, and [`dump`] shows it.
//!
//! ```
//! use std::rc::Rc;
//!
//! use twin_disk::MemDisk;
//! use twin_lfs::{Lfs, LfsSettings, MkfsOptions};
//! use twin_fs::{Cpu, FileSystem, Op, ROOT_INO, Request, Settings};
//! use twin_rt::{ClockOnly, Rt};
//!
//! let (rt, disk) = (Rt::new(ClockOnly::default(), 1), Rc::new(MemDisk::new(64 << 20)));
//! rt.block_on(Lfs::mkfs(&rt, Rc::clone(&disk) as _, &MkfsOptions::modern([7; 16]))).unwrap()?;
//! let opening = Lfs::open(&rt, disk, Cpu::none(), Settings::default(), LfsSettings::default());
//! let (volume, _recovered) = rt.block_on(opening).unwrap()?;
//! let make = Op::MakeDir { dir: ROOT_INO, name: b"src".as_slice().into(), mode: 0o755 };
//! rt.block_on(volume.execute(Request::root(1, make))).unwrap()?;
//! rt.block_on(volume.close()).unwrap()?;
//! println!("{:?}", volume.layout.stats());
//! # Ok::<(), twin_fs::FsError>(())
//! ```
//!
//! What holds always:
//! - A log write is a snapshot of the whole volume at an instant; recovery finds the last whole
//!   one. So a crash never leaves half an operation, and what is found is no older than the last
//!   fsync that was acknowledged.
//! - A segment is filled again only after a checkpoint that does not need it is durable.
//! - Space is promised before anything becomes dirty, and the log keeps room for all that is
//!   dirty, for a checkpoint and for the cleaner.

mod admission;
mod build;
pub mod check;
mod checkpoints;
mod cleaner;
mod commit;
pub mod dump;
pub mod format;
mod forwarding;
mod forwards;
mod inode_blocks;
mod inode_map;
mod inode_numbers;
mod inode_state;
mod kind;
mod layout;
mod lfs;
mod log_position;
mod open;
mod pacing;
mod partial_segments;
mod progress;
mod recover;
mod reservations;
mod segment_usage;
mod settings;
mod sizing;
mod stats;
mod streams;
mod view;

pub use admission::Permit;
pub use format::IFILE_INO;
pub use kind::{LFS, LfsConfig};
pub use lfs::Lfs;
pub use open::{MkfsOptions, read_checkpoint, read_superblock};
pub use recover::Recovered;
pub use segment_usage::{SegmentState, SegmentTable};
pub use settings::{LfsSettings, Sabotage};
pub use stats::LfsStats;
