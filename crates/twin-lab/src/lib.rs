//! Experiments: a workload on configurations, side by side.
//!
//! Main types: [`Config`] (a file system and the hardware under it, by name), [`simulate`] (one
//! run under virtual time), [`Figures`] (what a run measured), [`compare`] (many runs, one a
//! thread, with the same results as on one thread). [`volume`] is the same for
//! bare volumes. Start at [`compare`].

pub mod bench;
mod compare;
mod config;
mod damage;
mod figures;
mod flight;
mod machine;
pub mod nfs_server;
mod presets;
pub mod reproduce;
pub mod segment_map;
mod simulate;
mod status;
mod table;
pub mod volume;
mod workload;

pub use compare::{Progress, compare};
pub use config::{Config, ConfigError, Costs, LayoutKind, defaults, settings_help};
pub use damage::{Damaged, damaged_flight, damaged_trace};
pub use figures::{DiskFigures, Figures, Latency, LogFigures, VerbFigures};
pub use flight::{CLOSE, FlightError, FlightSettings, Verified, verify_flight};
pub use presets::{Preset, presets};
pub use simulate::{SimulateError, cut, simulate};
pub use status::Status;
pub use table::table;
pub use workload::{Workload, WorkloadError};
