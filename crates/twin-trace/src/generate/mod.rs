//! Synthetic workloads. Each is a file here and a line in [`REGISTRY`], and gives the same
//! records as a trace does: nodes for what is there at the start, then timed requests with their
//! answers, streaming.
//!
//! A workload is named in a line of text, `build` or `build:files=300,clients=2`. The same text
//! and seed give the same records. Clients change nothing that another one looks at, so a
//! replayer may let each run at its own speed.

mod build;
mod large_file;
mod mail;
mod script;
mod small_files;
mod tpcb;
mod zipf;

use std::fmt;

pub use zipf::Zipf;

use crate::settings::{Param, Settings, SettingsError};
use crate::stream::Source;

/// A kind of workload.
pub struct Spec {
    /// Its name.
    pub name: &'static str,
    /// What it does, in a line.
    pub about: &'static str,
    /// What can be set, apart from [`COMMON`].
    pub params: &'static [Param],
    /// Starts it.
    start: fn(Settings, u64) -> Box<dyn Source>,
}

/// All workloads.
pub const REGISTRY: &[Spec] =
    &[build::SPEC, small_files::SPEC, mail::SPEC, tpcb::SPEC, large_file::SPEC, zipf::SPEC];

/// What can be set for every workload.
pub const COMMON: &[Param] = &[
    Param::new("clients", 1, 1, 4096, "clients that work side by side"),
    Param::new("think_us", 50, 0, 1_000_000_000, "mean time between operations, microseconds"),
    Param::new("service_us", 0, 0, 1_000_000_000, "mean time that an operation takes in the trace"),
];

/// Starts the workload that `text` names.
///
/// # Errors
/// If there is no such workload or setting, or a value is out of its range.
pub fn start(text: &str, seed: u64) -> Result<Box<dyn Source>, SettingsError> {
    let (name, settings) = text.split_once(':').unwrap_or((text, ""));
    let spec = REGISTRY.iter().find(|spec| spec.name == name).ok_or_else(|| {
        let known: Vec<_> = REGISTRY.iter().map(|spec| spec.name).collect();
        SettingsError::new(format!(
            "no workload is called {name:?}; there are {}",
            known.join(", ")
        ))
    })?;
    let settings = Settings::parse(settings, &[spec.params, COMMON])?;
    Ok((spec.start)(settings, seed))
}

impl fmt::Debug for Spec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}
