//! The device seam: the interface between a file system and a disk.
//!
//! Main types: [`Block`] (user data or metadata, possibly without its bytes), [`Io`] (one request
//! to a device), [`BlockDevice`] (the seam itself: a simulated disk, an image file, a real disk),
//! [`Stamp`] (which stands for user data in a simulation), and [`queue`] (the order in which waiting
//! requests are served), and [`journaled`] (a journal on a faster device before a device). Start at [`BlockDevice`].
//!
//! ```
//! use twin_disk::{Block, BlockDevice, Class, Io, MemDisk, Origin, Stamp};
//! use twin_rt::{ClockOnly, Rt};
//!
//! let (rt, disk) = (Rt::new(ClockOnly::default(), 1), MemDisk::new(1 << 20));
//! // User data of a simulation is a stamp: it says which bytes of which file it is.
//! let data = Block::Stamp(Stamp { ino: 7, lbn: 0, version: 1, off: 0, len: 4096 });
//! let write = disk.submit(Io::write(8192, vec![data.clone()], Class::Data, Origin::User));
//! rt.block_on(write).unwrap()?;
//! rt.block_on(disk.submit(Io::flush(Origin::User))).unwrap()?;
//! let read = disk.submit(Io::read(8192, 4096, Class::Data, Origin::User));
//! let read = rt.block_on(read).unwrap()?;
//! // Some simulated disks return the stamp; this one returns the bytes that it stands for.
//! assert_eq!(read[0].to_bytes(), data.to_bytes());
//! # Ok::<(), twin_disk::IoError>(())
//! ```
//!
//! No code above this crate looks at the contents of user data; no code below it knows files.

mod block;
mod buf;
mod device;
pub mod fields;
mod flight;
mod freezing;
pub mod journaled;
pub mod local;
mod logged;
mod mem;
mod overlay;
mod partition;
pub mod queue;
pub mod ring;
mod yielding;

pub use block::{Block, Stamp, checksum, cut, gather, total};
pub use buf::{Buf, BufPool, Bytes};
pub use device::{
    BlockDevice, Class, Completion, DeviceInfo, Io, IoError, IoErrorKind, IoKind, IoResult, Origin,
    Pending, Purpose, ServiceBounds, all_parts, pending,
};
pub use flight::{DeviceLog, Recorded};
pub use freezing::{Freezable, Frozen, OldContent, Unfrozen};
pub use logged::logged;
pub use mem::MemDisk;
pub use overlay::Overlay;
pub use partition::Partition;
pub use yielding::yielding;
