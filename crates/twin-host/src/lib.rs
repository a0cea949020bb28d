//! The real world: real time, files and raw devices, FUSE mounts.
//!
//! Everything below this crate is a pure function of its inputs. The inputs enter here: this is the
//! only crate with a clock, descriptors, threads and `unsafe` code.
//!
//! Main types: [`Host`] (the runtime in real time, and the one place where a thread waits),
//! [`FileDevice`] (an image file or a raw device as a [`twin_disk::BlockDevice`]), [`fuse`] (a
//! mounted front end over any [`twin_fs::FileSystem`]), [`mirror`] (an existing directory as a
//! `FileSystem`), [`nfs`] (the sockets of a server of NFS), [`channel`]
//! (another process asks a mount), [`FlightLog`] (hears of everything that enters the core, in order).
//!
//! Start at [`Host::start`]:
//!
//! ```
//! use twin_disk::{Block, BlockDevice, Class, Io, Origin};
//! use twin_host::{FileDevice, Host, HostOptions, ImageOptions, create_image};
//! # let path = std::env::temp_dir().join(format!("twin-host-doc-{}", std::process::id()));
//! create_image(&path, 1 << 20)?;
//! let host = Host::start(HostOptions::default())?;
//! let disk = FileDevice::open(&host, &path, &ImageOptions::default())?;
//! let block = Block::Zero(4096);
//! let written = disk.submit(Io::write(0, vec![block], Class::Meta, Origin::User));
//! host.rt().block_on(written)??;
//! # std::fs::remove_file(&path)?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! One thread runs the core. Device requests go to the kernel through io_uring (or, where that
//! is refused, through a few helper threads), and requests of clients are read from `/dev/fuse`
//! by the thread that executes them, since a hand-over between threads would cost a third of
//! every operation.

#![deny(unsafe_op_in_unsafe_fn, clippy::undocumented_unsafe_blocks)]

pub mod apart;
mod attributes;
mod budget;
pub mod channel;
mod clock;
mod device;
pub mod extents;
mod flight;
pub mod fuse;
mod guard;
mod host;
mod idle_poll;
mod interrupts;
mod limits;
mod memory;
pub mod mirror;
mod modules;
mod new_files;
pub mod nfs;
mod notes;
mod offload;
mod own;
mod places;
mod progress;
mod random;
mod request_watch;
mod scratch;
pub mod serving;
mod signals;
mod slab;
mod stopwatch;
mod supervisor;
mod wait;
mod whole_files;
mod within;
mod words;
mod zeros;

pub use attributes::{attribute, remove_attribute, set_attribute};
pub use budget::Budget;
pub use device::{
    FileDevice, ImageError, ImageOptions, QueueChoice, RequestObserver, Requests, create_image,
    is_foreign,
};
pub use flight::FlightRecorder;
pub use guard::Guard;
pub use host::{FlightLog, Host, HostDriver, HostOptions, Source, Watch};
pub use idle_poll::{IdlePoll, IdlePolling};
pub use interrupts::{Interrupts, Undoing, on_interrupt};
pub use limits::{file_size_limit, take_limits};
pub use memory::keep_freed_buffers;
pub use modules::load_policies;
pub use new_files::{FileKind, NewFile, Page};
pub use notes::{Hearer, heard, note_line};
pub use offload::{Promised, WorkPanicked, offload, promise};
pub use own::{own_code, own_program, set_own_program};
pub use places::{Relation, absolute, is_remote, relation};
pub use progress::{Bar, Count, Counter, Hidden, Progress};
pub use random::{random_bytes, random_seed};
pub use request_watch::watch_requests;
pub use scratch::{ScratchDir, remove_by_force};
pub use signals::{Signals, take_signals};
pub use stopwatch::{real_clock, resident_bytes, thread_cpu_ns};
pub use whole_files::{bytes_of_file, text_of_file};
pub use within::{Late, within};
pub use words::{Grade, Words};
