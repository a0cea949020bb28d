//! Servers: several volumes on several disks and busses, in one simulation on one virtual time, with
//! one processor and one memory a host.
//!
//! Main types: [`ServerFile`] (the parts and how they are connected, from a TOML text),
//! [`simulate_server`] (the run), [`ServerFigures`] (what it measured, by part and for the whole), [`PRESETS`] (servers
//! that come with the program). Start at [`simulate_server`].
//!
//! ```
//! use twin_lab::Workload;
//! use twin_server::{Does, ServerFile, simulate_server};
//!
//! let server = ServerFile::parse(
//!     r#"
//!     [host.main]
//!     cache = "2M"
//!     [disk.a]
//!     model = "hp97560"
//!     [fs.home]
//!     disk = "a"
//!     config = "lfs"
//!     [[client]]
//!     fs = "home"
//!     workload = "zipf:writes=100,file-bytes=1M"
//!     pace = "asap"
//!     "#,
//! )?;
//! let workload = |does: &Does| match does {
//!     Does::Workload(text, seed) => Some(Workload::Generated(text.clone(), *seed)),
//!     Does::Trace(..) => None,
//! };
//! let workloads: Vec<_> = server.clients.iter().filter_map(|one| workload(&one.does)).collect();
//! let figures = simulate_server(&server, &workloads, None, None)?;
//! assert_eq!((figures.whole.failed, figures.disks.len()), (0, 1));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod build;
mod figures;
mod file;
mod presets;
mod report;
mod run;

pub use figures::{OfBus, OfDisk, OfFileSystem, OfHost, ServerFigures, Whole};
pub use file::{BusPart, Client, Disk, Does, FileSystemPart, Host, Pace, ServerFile};
pub use presets::{PRESETS, Preset, preset};
pub use report::report;
pub use run::{TimeTold, simulate_server, simulate_server_telling};
