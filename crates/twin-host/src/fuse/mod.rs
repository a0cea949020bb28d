//! FUSE: a [`twin_fs::FileSystem`] as a mounted file system.
//!
//! From packet to packet: `parse` reads one, `translate` makes it an operation,
//! [`Session`] executes it on the core, `reply` writes the answer, which `held` may keep for a
//! moment to send it with others. `abi` has the kernel's structures and `errno` is the only place
//! where error numbers have a meaning. [`Mount`] puts a session in place, [`serve`] runs it until
//! somebody ends it, [`unmount`] ends it from outside, and [`in_background`] makes a daemon of it.
//!
//! Start at [`serve`], or at `examples/mirror.rs`, which does it all.

mod abi;
mod client;
mod daemon;
mod errno;
mod gatekeeper;
mod held;
mod mount;
pub(crate) mod mountinfo;
mod negotiate;
mod options;
mod parse;
mod porter;
mod reply;
mod serve;
mod server;
mod session;
#[cfg(test)]
mod session_tests;
mod single;
mod translate;
mod unmount;
mod usage;

pub use daemon::{Ready, in_background};
pub use errno::{errno, from_errno};
pub use mount::{Mount, MountError, MountOptions};
pub use options::SessionOptions;
pub use serve::serve;
pub use session::{End, Session, SessionStats};
pub use single::{answer, requests};
pub use unmount::{UnmountError, unmount, unmount_telling};
pub use usage::{DaemonUsage, daemon_usage};
