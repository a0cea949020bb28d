//! Generated workloads: benchmarks, users and servers of papers, and those that a user describes.
//!
//! Each kind of workload is a file here and a line in [`REGISTRY`], and produces the same records as a
//! trace ([`twin_trace`]): nodes for the files that exist at the start, then timed requests with their
//! answers, as a stream. [`by_hand`] has those that a user describes, and [`Distribution`] the laws
//! from which these draw.
//!
//! A workload is named in a line of text, `build` or `build:files=300,clients=2`, in the grammar of
//! [`twin_settings`]. The same text and seed give the same records. No client changes a file that
//! another client uses, so a replayer may let each run at its own speed.
//!
//! Start at [`start`].
//!
//! ```
//! use twin_trace::{Reader, Source, Writer};
//! let mut workload = twin_generate::start("zipf:writes=100", 1).unwrap();
//! let mut writer = Writer::new(Vec::new(), &workload.header().clone())?;
//! while let Some(record) = workload.next_record()? {
//!     writer.record(&record)?;
//! }
//! let bytes = writer.finish()?;
//! let mut reader = Reader::new(&bytes[..])?;
//! assert!(reader.next_record()?.is_some());
//! # Ok::<(), twin_trace::TraceError>(())
//! ```

mod build;
pub mod by_hand;
mod distribution;
mod file_server;
mod large_file;
mod mail;
mod script;
mod small_files;
mod sprite_like;
mod sprite_tables;
mod tpcb;
mod zipf;

pub use distribution::{DISTRIBUTIONS, Distribution, Measured};
pub use zipf::Zipf;

use twin_settings::{Named, Param, Registry, SettingsError, Unit, Values};
use twin_trace::{AccessStats, Source};

/// A kind of workload in the registry.
pub struct Kind {
    /// The settings of the workload, besides [`COMMON`].
    pub params: &'static [Param],
    /// The workload that it replaces, if its statistics were fitted to published ones.
    pub stands_for: Option<StandsFor>,
    /// Starts it with these values and this seed.
    start: fn(Values, u64) -> Box<dyn Source>,
}

/// The unavailable workload that a generated one replaces.
#[derive(Clone, Copy)]
pub struct StandsFor {
    /// The name of the unavailable workload.
    pub what: &'static str,
    /// The published figures of that workload.
    pub published: fn() -> &'static [Published],
}

/// A published figure of something that a workload stands for.
pub struct Published {
    /// The figure, in words.
    pub what: &'static str,
    /// The unit of the figure.
    pub unit: &'static str,
    /// The value.
    pub value: f64,
    /// The smallest and the largest value that was measured, or 15% around the value.
    pub range: (f64, f64),
    /// The publication, and the value there.
    pub place: &'static str,
    /// The publication was at hand and says so. Otherwise range and place are from memory, and the
    /// figure is an assumption of ours.
    pub confirmed: bool,
    /// A search of the workload's parameters may use it; others are held out.
    pub given: bool,
    /// Computes the same figure of a workload.
    pub of: fn(&AccessStats) -> f64,
}

/// The unavailable workload that the one named by `text` replaces.
pub fn stands_for(text: &str) -> Result<Option<StandsFor>, SettingsError> {
    Ok(REGISTRY.get(Named::parse(text)?.name)?.stands_for)
}

/// All generated workloads, by name.
pub static REGISTRY: Registry<Kind> = Registry::new(
    "workload",
    &[
        build::ENTRY,
        small_files::ENTRY,
        mail::ENTRY,
        tpcb::ENTRY,
        large_file::ENTRY,
        zipf::ENTRY,
        sprite_like::ENTRY,
        file_server::ENTRY,
        sprite_like::FITTED,
    ],
);

/// The users of Sprite as they were remembered, and as they were fitted to the published tables.
pub const SPRITE_USERS: [&str; 2] = [sprite_like::ENTRY.name, sprite_like::FITTED.name];

/// The parameters of every workload.
pub const COMMON: &[Param] = &[
    Param::new("clients", "1", Unit::number(1, 4096), "clients that work side by side"),
    Param::new("think", "50us", Unit::MICROSECONDS, "mean time between operations"),
    Param::new(
        "service",
        "0us",
        Unit::MICROSECONDS,
        "mean time that an operation takes in the trace",
    ),
];

/// Starts the workload that `text` names.
///
/// # Errors
/// If there is no such workload or setting, or a value is out of its range.
pub fn start(text: &str, seed: u64) -> Result<Box<dyn Source>, SettingsError> {
    let named = Named::parse(text)?;
    let entry = REGISTRY.get(named.name)?;
    let mut values = Values::of(&[entry.params, COMMON]);
    values.apply(named.settings).map_err(|error| error.within(entry.name))?;
    Ok((entry.start)(values, seed))
}
