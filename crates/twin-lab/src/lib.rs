//! Experiments: a workload on configurations, side by side.
//!
//! Main types: [`Config`] (a file system and the hardware under it, by name), [`simulate`] (one
//! run under virtual time), [`Figures`] (what a run measured), [`compare`] (many runs, one a
//! thread, with the same results as on one thread), [`Watcher`] (sees a run while it goes on),
//! [`History`] (the course of a run). [`volume`] is the same for bare volumes. Start at [`compare`].
//!
//! ```
//! use twin_lab::{Config, Workload, compare, rank};
//! use twin_trace::replay::Pace;
//!
//! let configs = [Config::parse("lfs:disk=disk-7200")?, Config::parse("ffs:disk=disk-7200")?];
//! let workload = Workload::Generated("tpcb:transactions=200".into(), 1);
//! let results = compare(&configs, &workload, Pace::Asap, 2, &|| 0.0, &|_, _| {});
//! let mut figures = results.into_iter().collect::<Result<Vec<_>, _>>()?;
//! rank(&mut figures.iter_mut().collect::<Vec<_>>());
//! for run in &figures {
//!     println!("{}: {:.0} operations a second, rank {:?}", run.config, run.ops_per_s, run.rank);
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub mod bench;
mod compare;
mod config;
mod event_log;
mod figures;
mod flight;
mod front_end;
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
pub use event_log::{EventLog, log_categories};
pub use figures::{DiskFigures, Figures, Latency, LogFigures, VerbFigures};
pub use flight::{CLOSE, FlightError, FlightSettings, Verified, verify_flight};
pub use front_end::FrontEnd;
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
