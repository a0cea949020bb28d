//! Experiments: a workload on configurations, simulated, and the figures of each run.
//!
//! Main types: [`Config`] (a file system and the hardware under it), [`Workload`] (what is done on it), [`Run`] (a
//! configuration, and what one run of it is given besides), [`simulate()`] (a run under virtual time), [`Figures`] (the
//! results of a run), [`compare()`] (many runs, one a thread, with the same results as on one thread), [`Watcher`]
//! (observes a running simulation), [`History`] (the figures over the time of a run). Start at [`simulate()`]. What the
//! figures of several configurations say is in the crate twin-verdict.
//!
//! ```
//! use twin_lab::{Config, Workload, simulate};
//! use twin_trace::replay::Pace;
//!
//! let config = Config::parse("lfs:disk=disk-7200")?;
//! let workload = Workload::Generated("tpcb:transactions=200".into(), 1);
//! let figures = simulate(config, &workload, Pace::Asap)?;
//! println!("{} operations in {:.1} simulated seconds", figures.ops, figures.finish_s);
//! assert_eq!(figures.failed, 0);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod asked;
mod below;
mod bill;
mod by_hand;
mod cleaner_figures;
mod commands;
mod compare;
mod config;
mod costs;
mod error;
mod event_log;
mod figures;
pub mod follow;
mod history;
mod keeping;
pub mod layouts;
mod log_at_end;
mod machine;
mod machine_file;
mod machine_times;
mod mount_flush;
mod planted;
mod presets;
mod run;
pub mod segment_map;
mod simulate;
mod status;
mod steps;
mod watch;
mod workload;

pub use below::{Below, Remains};
pub use bill::BillFigures;
pub use by_hand::plan;
pub use cleaner_figures::CleanerFigures;
pub use commands::{Commands, FLUSH, MOUNT_CACHE, MOUNT_FLUSH, is_of_machine};
pub use compare::{Progress, compare, side_by_side};
pub use config::{Config, Front, JournalDisk, Store, compared_by_default, settings_help};
pub use costs::Costs;
pub use error::{SimulateError, model_error};
pub use event_log::{EventLog, log_categories};
pub use figures::{
    BusFigures, DiskFigures, Figures, JournalFigures, Latency, Lateness, LogFigures, Moment,
    NetworkFigures, SpaceFigures, Spread, Trusted, VerbFigures, WAITING, WearFigures, median,
};
pub use history::{History, Sampler};
pub use keeping::Keeping;
pub use log_at_end::{BINS, LogAtEnd};
pub use machine::{OnVolume, disk_builder, disk_of, on_volume};
pub use machine_file::{
    Checked, ColdStart, Device, FORMAT as MACHINE_FORMAT, Fuse, MachineFile, Pause, Processor,
    Transfers, Validated,
};
pub use machine_times::{Distribution, Stalls, distributions};
pub use mount_flush::MountFlush;
pub use planted::PlantedFault;
pub use presets::{FITTED_TO_1994, Preset, presets};
pub use run::{NOBODY, Run};
pub use simulate::{cut, disk_figures, simulate, simulate_watched, simulate_with_history};
pub use status::Status;
pub use steps::{Counted, Steps};
pub use watch::{WatchedRun, Watcher, World, watched_runtime};
pub use workload::{Opener, Stored, Workload, WorkloadError, help as workload_help};
