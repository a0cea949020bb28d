//! Experiments: a workload on configurations, side by side.
//!
//! Main types: [`Config`] (a file system and the hardware under it), [`Run`] (a configuration, and what one
//! run of it is given besides), [`simulate`] (a run under virtual time), [`Figures`] (the results of a run), [`compare`] (many runs, one a thread,
//! with the same results as on one thread), [`Watcher`] (observes a running simulation),
//! [`History`] (the figures over the time of a run). [`volume`] is the same for bare volumes. Start
//! at [`compare`].
//!
//! ```
//! use twin_lab::{Config, Judgement, MEASURES, Pauses, Trust, Workload, compare, rank, verdict};
//! use twin_trace::replay::Pace;
//!
//! let configs = [Config::parse("lfs:disk=disk-7200")?, Config::parse("ffs:disk=disk-7200")?];
//! let workload = Workload::Generated("tpcb:transactions=200".into(), 1);
//! let results = compare(&configs, &workload, Pace::Asap, 2, &|_, _| {});
//! let mut figures = results.into_iter().collect::<Result<Vec<_>, _>>()?;
//! let measure = MEASURES.get("finish")?;
//! let trust = Trust::of(&configs);
//! rank(&mut figures.iter_mut().collect::<Vec<_>>(), measure, &trust);
//! let runs: Vec<_> = configs.iter().zip(&figures).collect();
//! let how = Judgement { measure, trust: &trust, pauses: Pauses::None };
//! println!("{}", verdict(&runs, &how).unwrap_or_default());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod about;
mod asked;
mod below;
mod bill;
mod by_hand;
pub mod caches;
mod cleaner_figures;
mod commands;
mod compare;
mod comparison;
mod config;
mod costs;
mod error;
mod event_log;
mod figures;
mod flight;
pub mod follow;
mod front_end;
pub mod frontier;
mod history;
mod keeping;
mod labels;
pub mod layouts;
mod log_at_end;
mod machine;
mod machine_file;
mod machine_times;
mod mount_flush;
mod planted;
mod presets;
pub mod remote;
mod rewritten;
mod run;
mod seeds;
pub mod segment_map;
mod simulate;
mod statistics;
mod status;
mod steps;
mod trust;
mod verdict;
pub mod volume;
mod watch;
mod what_if;
mod workload;

pub use about::{Fit, about_workload, fit, fits, fits_in_words};
pub use below::Below;
pub use bill::BillFigures;
pub use by_hand::plan;
pub use cleaner_figures::CleanerFigures;
pub use commands::{Commands, FLUSH, MOUNT_CACHE, MOUNT_FLUSH, is_of_machine};
pub use compare::{Progress, compare, side_by_side};
pub use comparison::{
    Comparison, LOG_EXPLAINED, default_settings, figures_report, log_course, settings,
};
pub use config::{Config, Front, JournalDisk, Store, compared_by_default, settings_help};
pub use costs::Costs;
pub use error::{SimulateError, model_error};
pub use event_log::{EventLog, log_categories};
pub use figures::{
    BusFigures, DiskFigures, Figures, Latency, Lateness, LogFigures, Moment, NetworkFigures,
    SpaceFigures, Spread, Trusted, VerbFigures, WAITING, WearFigures, median,
};
pub use flight::{CLOSE, FlightError, FlightSettings, Verified, verify_flight};
pub use front_end::FrontEnd;
pub use history::{History, Sampler};
pub use keeping::Keeping;
pub use labels::labels;
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
pub use seeds::{Found, MOST_SEEDS, SeedRuns, Seeded, compare_seeds};
pub use simulate::{cut, disk_figures, simulate, simulate_watched, simulate_with_history};
pub use statistics::differ;
pub use status::Status;
pub use steps::{Counted, Steps};
pub use trust::{FIDELITY, Trust, error_of};
pub use twin_settings::SettingsError;
pub use twin_sim::{Platter, Served, TimeBreakdown};
pub use verdict::{
    Judgement, MEASURES, Measure, MeasureEntry, NOISE, Pauses, measurable, measure_for, rank,
    rivals, text_of, value_of, verdict,
};
pub use watch::{WatchedRun, Watcher, World, watched_runtime};
pub use what_if::{Before, cache_changes, what_if, what_if_changes};
pub use workload::{Opener, Stored, Workload, WorkloadError, help as workload_help};
