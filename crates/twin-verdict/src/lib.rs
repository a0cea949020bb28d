//! What is made of the figures of runs: which of several configurations is the best, by how much and why, and the
//! report that says so.
//!
//! Main types: [`MeasureEntry`] (what runs are judged by, an entry of [`MEASURES`]), [`Trust`] (how far simulated
//! times are trusted), [`verdict()`] (what the figures say, in sentences), [`Seeded`] (several runs of a configuration
//! that differ in their seeds), [`Comparison`] (the report on runs side by side), [`what_if()`] (what would change the
//! order of two configurations). The runs are those of [`twin_lab`]. Start at [`verdict()`].
//!
//! ```
//! use twin_lab::{Config, Workload, compare};
//! use twin_trace::replay::Pace;
//! use twin_verdict::{Judgement, MEASURES, Pauses, Trust, rank, verdict};
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
mod comparison;
mod labels;
mod seeds;
mod statistics;
mod trust;
mod verdict;
mod what_if;

pub use about::{Fit, about_workload, fit, fits, fits_in_words};
pub use comparison::{
    Comparison, LOG_EXPLAINED, default_settings, figures_report, log_course, settings,
};
pub use labels::labels;
pub use seeds::{Found, MOST_SEEDS, SeedRuns, Seeded, compare_seeds};
pub use statistics::differ;
pub use trust::{FIDELITY, Trust, error_of};
pub use verdict::{
    Judgement, MEASURES, Measure, MeasureEntry, NOISE, Pauses, measurable, measure_for, rank,
    rivals, text_of, value_of, verdict,
};
pub use what_if::{Before, cache_changes, what_if, what_if_changes};
