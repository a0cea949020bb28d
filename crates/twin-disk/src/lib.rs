//! The device seam: what a file system hands to a disk and gets back.
//!
//! Main types: [`Block`] (user data or metadata, possibly without its bytes), [`Io`] (one request
//! to a device), [`BlockDevice`] (the seam itself: a simulated disk, a file, a raw device), and
//! [`Stamp`] (what stands for user data in a simulation). Start at [`BlockDevice`].
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
