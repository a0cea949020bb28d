//! FUSE: a [`twin_fs::FileSystem`] as a mounted file system.
//!
//! The way of a packet: `parse` reads it, `translate` turns it into an operation, [`Session`]
//! executes the operation on the core, and `reply` writes the answer, which `reply_batch` may keep
//! for a moment to send it with others. `abi` has the structures of the kernel, and `errno` is the
//! only place where error numbers have a meaning. [`Mount`] mounts a session, [`serve`] runs it
//! until it ends, [`unmount`] ends it from another process, and [`in_background`] makes a daemon of
//! it. What must be done from within a mount, a [`Deputy`] does: no thread of a daemon calls into its
//! own mount.
//!
//! Start at [`serve`], or at `examples/mirror.rs`, which uses all of them.

mod abi;
mod asker;
mod blanks;
mod client;
mod counts;
mod daemon;
mod deputy;
mod deputy_work;
mod errand;
mod errno;
mod fetch;
#[cfg(test)]
mod fetch_tests;
mod gatekeeper;
mod mount;
pub(crate) mod mountinfo;
mod negotiate;
mod options;
mod parse;
mod porter;
mod replacement;
mod reply;
mod reply_batch;
mod serve;
mod server;
mod session;
#[cfg(test)]
mod session_tests;
mod single;
mod stat;
mod sync_all;
mod translate;
mod unmount;
mod unmounter;
mod usage;

pub use daemon::{Ready, in_background, in_background_with_note};
pub use deputy::Deputy;
pub use errno::{errno, from_errno};
pub use mount::{Mount, MountError, MountOptions};
pub use options::SessionOptions;
pub use serve::{serve, serve_while};
pub use session::{End, Session, SessionStats};
pub use single::{answer, requests};
pub(crate) use sync_all::FUSE_TYPE;
pub use sync_all::{hand_over, sync_file_system};
pub use unmount::{UnmountError, unmount, unmount_telling};
pub use usage::{DaemonUsage, daemon_usage};
