//! The arguments that switch observers on.

use clap::Args;
use twin_observe::{Observing, abouts};
use twin_rt::{Nanos, SECS};
use twin_settings::SettingsError;

use crate::choices::choices;

/// The observers of simulated runs.
#[derive(Args, Clone, Debug)]
pub(crate) struct Observe {
    /// Show further statistics, such as latencies,queue-length or all, over the whole run and by interval
    /// of simulated time (docs/observers.md). The run itself does not change.
    #[arg(help_heading = "Results", long, value_name = "NAME,...|all", value_delimiter = ',', value_parser = observers())]
    observe: Vec<String>,
    /// With --observe: the interval, such as 1s or 15min; seconds without a unit. Default: 15min.
    #[arg(help_heading = "Results", long, requires = "observe", value_name = "TIME", value_parser = interval)]
    every: Option<Nanos>,
}

impl Observe {
    /// The observers that were asked for, if there are any.
    ///
    /// # Errors
    /// If the interval is empty.
    pub(crate) fn observing(&self) -> Result<Option<Observing>, SettingsError> {
        match self.observe.is_empty() {
            true => Ok(None),
            false => Observing::of(self.observe.iter().map(String::as_str), self.every).map(Some),
        }
    }
}

/// The observers of a mount.
#[derive(Args, Clone, Debug)]
pub(crate) struct ObserveMount {
    /// Show further statistics of the mount, such as latencies,queue-length or all (docs/observers.md).
    /// Statistics that a real device does not report are listed as missing.
    #[arg(help_heading = "Recording and watching", long, value_name = "NAME,...|all", value_delimiter = ',', value_parser = observers())]
    observe: Vec<String>,
    /// With --observe: the interval, such as 1s or 15min, at least 100ms; seconds without a unit. Default:
    /// 15min for mount, 10s for stat.
    #[arg(help_heading = "Recording and watching", long, requires = "observe", value_name = "TIME", value_parser = interval)]
    every: Option<Nanos>,
}

impl ObserveMount {
    /// The observers that were asked for, if there are any.
    ///
    /// # Errors
    /// If the interval is empty.
    pub(crate) fn observing(&self, every_ns: Nanos) -> Result<Option<Observing>, SettingsError> {
        let every = Some(self.every.unwrap_or(every_ns));
        match self.observe.is_empty() {
            true => Ok(None),
            false => Observing::of(self.observe.iter().map(String::as_str), every).map(Some),
        }
    }

    pub(crate) fn is_on(&self) -> bool {
        !self.observe.is_empty()
    }
}

/// The names of observers.
fn observers() -> clap::builder::PossibleValuesParser {
    choices(abouts())
}

pub(super) fn interval(text: &str) -> Result<Nanos, String> {
    match twin_settings::value::nanos(text, SECS) {
        Ok(0) => Err("the interval must be longer than 0".into()),
        Ok(ns) => Ok(ns),
        Err(error) => Err(error.to_string()),
    }
}
