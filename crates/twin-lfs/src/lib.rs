//! The log-structured layout: everything is written to the end of a log, in segments; a cleaner
//! makes room.
//!
//! The tradition is Rosenblum and Ousterhout's Sprite LFS (1992) and Seltzer, Bostic, McKusick and
//! Staelin's BSD-LFS (1993). Main types: [`Lfs`] (an open layout, implements
//! [`twin_fs::Layout`]), [`MkfsOptions`], [`LfsSettings`], [`mod@format`] (the bytes on disk). Start at
//! [`Lfs::mkfs`] and [`Lfs::open`], then read `build` (how dirty state becomes a log write),
//! `commit` (how it becomes durable), `recover` (how it is found again) and `cleaner`. [`check`]
//! checks all of it without the code of the volume, and [`dump`] shows it.
//!
//! [`Lfs`] only puts parts together; each keeps its own state, and no other file changes it: where the
//! log goes on (`log_position`, `streams`), inode map and numbers (`ifile`, `inode_map`, `inode_numbers`,
//! `inode_blocks`), live bytes of segments (`segment_usage`), checkpoints (`checkpoints`), log
//! writes under way (`progress`), space and admission (`reservations`, `admission`, `pacing`,
//! `room`), forwarded pointers (`forwards`), and the cleaner (`cleaner`).
//!
//! ```
//! use std::rc::Rc;
//!
//! use twin_disk::MemDisk;
//! use twin_lfs::{Lfs, LfsSettings, MkfsOptions};
//! use twin_fs::{Cpu, Op, ROOT_INO, Request, Settings};
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
//! Invariants:
//! - A log write is a snapshot of the whole volume at one instant, and recovery finds the last whole
//!   log write. So a crash never leaves half an operation, and recovery never finds a state older
//!   than the last acknowledged fsync. Flush policies that name files make an exception: files whose
//!   names did not change are then written alone, so that a crash leaves each at an instant of its
//!   own; names, links and attributes stay those of one instant.
//! - A segment is filled again only after a checkpoint that does not need it is durable.
//! - Space is reserved before anything becomes dirty, and the log keeps room for everything dirty,
//!   for a checkpoint and for the cleaner.

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
mod gather;
mod grow;
mod ifile;
mod inode_blocks;
mod inode_map;
mod inode_numbers;
mod inode_state;
mod kind;
mod layout;
mod layout_file;
mod lfs;
mod log_items;
mod log_position;
mod open;
mod pacing;
mod partial_segments;
mod progress;
mod recover;
mod reservations;
mod room;
mod scrub;
mod segment_usage;
mod settings;
mod sizing;
mod snapshots;
mod some_files;
mod stats;
mod status;
mod streams;
mod volume_reader;

pub use format::IFILE_INO;
pub use kind::{LFS, LfsConfig};
pub use lfs::Lfs;
pub use open::{MkfsOptions, read_checkpoint, read_superblock};
pub use recover::Recovered;
pub use segment_usage::{SegmentState, SegmentTable};
pub use settings::{Gathering, LfsSettings, PlantedFault};
pub use stats::LfsStats;
