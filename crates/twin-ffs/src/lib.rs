//! The clustered fast-file-system layout: cylinder groups, blocks and fragments, written in place.
//!
//! The tradition is McKusick, Joy, Leffler and Fabry's fast file system (1984), McVoy and Kleiman's
//! clustering (1991) and 4.4BSD's implementation of both, which Seltzer et al. measured against
//! LFS (1995). Main types: [`Ffs`] (an open layout, implements [`twin_fs::Layout`]),
//! [`MkfsOptions`], [`FfsSettings`], [`mod@format`] (the bytes on disk). Start at [`Ffs::mkfs`] and
//! [`Ffs::open`]. `docs/design-ffs.md` tells the whole story, `docs/ondisk-ffs.md` the format.
//!
//! [`Ffs`] is put together from parts that keep their state to themselves, and files use each other in
//! this order only, each those above it:
//! - [`allocation`]: policies of where a block goes; `preference`, `search` and `group`: the place itself; `space`: what is free, reserved, and
//!   not to be used yet; `writes`: what is on its way to the device; `journal`: the ring of records;
//! - `ffs`: the open layout, which holds the parts; `inodes`: inodes in their tables; `take`: dirty blocks
//!   as they are at a moment; `realloc`: clusters;
//! - `sums`: checksums of everything, as a device above that of the volume;
//! - `commit` and `flush`: what is written when; [`ordering`] says what that promises of a crash;
//! - `scrub`: what lies on the device of a volume in use; `layout`: the seam; `open` and `replay`; `free_map`: the free space of one volume on another; [`mod@check`], which looks at all of it without the volume's
//!   code and can repair it; `start`: the opening of a mount, which may need a repair.
//!
//! ```
//! use std::rc::Rc;
//!
//! use twin_disk::MemDisk;
//! use twin_ffs::{Ffs, FfsSettings, MkfsOptions};
//! use twin_fs::{Cpu, Op, ROOT_INO, Request, Settings};
//! use twin_rt::{ClockOnly, Rt};
//!
//! let (rt, disk) = (Rt::new(ClockOnly::default(), 1), Rc::new(MemDisk::new(64 << 20)));
//! rt.block_on(Ffs::mkfs(&rt, Rc::clone(&disk) as _, &MkfsOptions::modern([7; 16]))).unwrap()?;
//! let opening = Ffs::open(&rt, disk, Cpu::none(), Settings::default(), FfsSettings::default());
//! let (volume, _recovered) = rt.block_on(opening).unwrap()?;
//! let make = Op::MakeDir { dir: ROOT_INO, name: b"src".as_slice().into(), mode: 0o755 };
//! rt.block_on(volume.execute(Request::root(1, make))).unwrap()?;
//! rt.block_on(volume.close()).unwrap()?;
//! println!("{:?}", volume.layout.stats());
//! # Ok::<(), twin_fs::FsError>(())
//! ```
//!
//! What holds always:
//! - Space is reserved in whole blocks before anything becomes dirty, so a place is always found.
//! - Two writes of one place reach the device in the order in which they were asked.
//! - A block that was given up is used again only when the ordering says that this is safe.

pub mod allocation;
mod bits;
pub mod check;
mod commit;
pub mod dir_placement;
pub mod dump;
mod ffs;
mod flush;
pub mod format;
mod free_map;
mod group;
mod hints;
mod inode_set;
mod inode_state;
mod inodes;
mod journal;
mod kind;
mod layout;
mod open;
pub mod ordering;
mod placement_hints;
mod preference;
mod realloc;
mod replay;
mod scrub;
mod search;
mod settings;
mod space;
mod start;
mod sums;
mod take;
pub mod write_behind;
mod writes;

pub use ffs::{Ffs, FfsStats};
pub use format::read_state;
pub use kind::{FFS, FfsConfig};
pub use open::{MkfsOptions, Recovered};
pub use settings::{FfsSettings, PlantedFault};
pub use space::SearchStats;
