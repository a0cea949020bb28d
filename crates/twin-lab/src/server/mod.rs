//! Servers: several volumes on several disks and busses, in one simulation on one virtual time, with
//! one processor and one memory a host.
//!
//! Main types: [`ServerFile`] (the parts and how they are connected, from a TOML text),
//! [`simulate_server`] (the run), [`ServerFigures`] (what it measured, by part and for the whole).

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
