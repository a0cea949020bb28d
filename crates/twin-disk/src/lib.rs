//! The device seam: what a file system hands to a disk and gets back.
//!
//! Main types: [`Block`] (user data or metadata, possibly without its bytes), [`Io`] (one request
//! to a device), [`BlockDevice`] (the seam itself: a simulated disk, a file, a raw device), and
//! [`Stamp`] (what stands for user data in a simulation). Start at [`BlockDevice`].
//!
//! ```
//! use twin_disk::{Block, BlockDevice, Class, Io, MemDisk, Origin, Stamp};
//! use twin_rt::{ClockOnly, Rt};
//!
//! let (rt, disk) = (Rt::new(ClockOnly::default(), 1), MemDisk::new(1 << 20));
//! // User data of a simulation is a stamp: it says which file's bytes these are, and holds none.
//! let data = Block::Stamp(Stamp { ino: 7, lbn: 0, version: 1, off: 0, len: 4096 });
//! let write = disk.submit(Io::write(8192, vec![data.clone()], Class::Data, Origin::User));
//! rt.block_on(write).unwrap()?;
//! rt.block_on(disk.submit(Io::flush(Origin::User))).unwrap()?;
//! let read = disk.submit(Io::read(8192, 4096, Class::Data, Origin::User));
//! let read = rt.block_on(read).unwrap()?;
//! // A simulated disk gives the stamp back; one that keeps bytes, those which the stamp stands for.
//! assert_eq!(read[0].to_bytes(), data.to_bytes());
//! # Ok::<(), twin_disk::IoError>(())
//! ```
//!
//! Nothing above this crate looks inside user data; nothing below it knows what a file is.

mod block;
mod buf;
mod device;
mod flight;
mod logged;
mod mem;
mod overlay;
mod yielding;

pub use block::{Block, Stamp, gather};
pub use buf::{Buf, BufPool, Bytes};
pub use device::{
    BlockDevice, Class, Completion, DeviceInfo, Io, IoError, IoErrorKind, IoKind, IoResult, Origin,
    Pending, all_parts, pending,
};
pub use flight::{DeviceLog, Recorded};
pub use logged::logged;
pub use mem::MemDisk;
pub use overlay::Overlay;
pub use yielding::yielding;
