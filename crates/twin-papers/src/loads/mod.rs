//! The loads that stand in for traces which are not to be had: what each was given of published tables, what was held
//! out, and what it yields.
//!
//! Contract: a figure is given if a parameter of the load was set to it or searched with it; everything else that is
//! published of the same loads is held out. Results of the papers under reproduction that checks are judged on are
//! never given to a load; where an older load was (the sessions of Heuristic Cleaning), its checks are of the kind
//! fitted, and say so here too. `twinfs reproduce --loads` prints the tables, and `--fit` searches a load's parameters
//! again (`crate::search`).

mod aged;
mod nvram;
mod report;
mod servers;
mod sprite;

pub use report::{fit_report, report};

use crate::progress::Progress;

/// What a published figure was used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// Parameters were set to it, or searched with it.
    Given,
    /// Nothing was.
    HeldOut,
}

impl Purpose {
    /// Its name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Purpose::Given => "given",
            Purpose::HeldOut => "held out",
        }
    }
}

/// A published figure of a load, and what the load yields.
#[derive(Clone, Debug)]
pub struct Figure {
    /// The figure, in words.
    pub what: String,
    /// Its unit.
    pub unit: &'static str,
    /// The published value, or the bound.
    pub published: String,
    /// The smallest and the largest value that is met.
    pub range: (f64, f64),
    /// Paper and place.
    pub source: String,
    /// What the load yields.
    pub generated: f64,
    /// What it was used for.
    pub purpose: Purpose,
}

impl Figure {
    /// Whether the load yields what was published.
    pub fn is_met(&self) -> bool {
        (self.range.0..=self.range.1).contains(&self.generated)
    }
}

/// A load.
pub struct Load {
    /// Its name on the command line.
    pub name: &'static str,
    /// What it stands for.
    pub about: &'static str,
    /// The numbers that were set or searched with given figures in view, and that no source has.
    pub numbers: usize,
    /// Yields the figures.
    figures: fn(threads: usize, progress: &Progress) -> Result<Vec<Figure>, String>,
    /// The parameters that a search finds.
    fitted: Option<&'static Fitted>,
}

/// A parameter's name with a value.
type Setting = (&'static str, String);

/// A load whose parameters are searched.
pub struct Fitted {
    /// Searches them; returns each parameter's name with the value found.
    search: fn(progress: &Progress) -> Result<Vec<Setting>, String>,
    /// The declared value of a parameter.
    declared: fn(&str) -> String,
    /// The figures with other values.
    figures: fn(values: &[Setting]) -> Result<Vec<Figure>, String>,
}

/// All loads.
pub const LOADS: &[Load] = &[sprite::LOAD, servers::LOAD, aged::HOMES_LOAD, aged::NEWS_LOAD];

/// The load called `name`.
///
/// # Errors
/// If there is none; the names that there are.
pub fn load(name: &str) -> Result<&'static Load, twin_settings::SettingsError> {
    let unknown =
        || twin_settings::SettingsError::unknown("load", name, LOADS.iter().map(|load| load.name));
    LOADS.iter().find(|load| load.name == name).ok_or_else(unknown)
}
