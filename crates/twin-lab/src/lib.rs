//! Experiments: a workload on configurations, side by side.
//!
//! Main types: [`Config`] (a file system and the hardware under it, by name), [`simulate`] (one
//! run under virtual time), [`Figures`] (what a run measured), [`compare`] (many runs, one a
//! thread, with the same results as on one thread), [`Watcher`] (sees a run while it goes on),
//! [`History`] (the course of a run). [`volume`] is the same for bare volumes. Start at [`compare`].

pub mod bench;
mod compare;
mod config;
mod damage;
mod event_log;
mod figures;
mod flight;
mod history;
pub mod layouts;
mod machine;
pub mod nfs_server;
mod page;
mod presets;
pub mod reproduce;
mod rewritten;
pub mod segment_map;
mod simulate;
mod status;
mod table;
pub mod volume;
mod watch;
mod workload;

pub use compare::{Progress, compare, compare_with_histories, rank};
pub use config::{Config, Costs, defaults, settings_help};
pub use damage::{Damaged, damaged_flight, damaged_trace};
pub use event_log::{EventLog, log_categories};
pub use figures::{DiskFigures, Figures, Latency, LogFigures, VerbFigures};
pub use flight::{CLOSE, FlightError, FlightSettings, Verified, verify_flight};
pub use history::{BINS, History, LogAtEnd, MOST_SAMPLES, Sampler};
pub use page::page;
pub use presets::{Preset, presets};
pub use simulate::{SimulateError, cut, simulate, simulate_watched, simulate_with_history};
pub use status::Status;
pub use table::table;
pub use twin_settings::SettingsError;
pub use twin_sim::{Parts, Served};
pub use watch::{Watcher, World};
pub use workload::{Workload, WorkloadError};
