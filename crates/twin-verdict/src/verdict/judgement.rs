//! How runs are judged.

use twin_lab::{Workload, WorkloadError};
use twin_trace::replay::Pace;

use super::measure::{MeasureEntry, keeps_pauses};
use crate::trust::Trust;

/// What is known of the pauses of a workload's clients in runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pauses {
    /// They are as they were recorded.
    Recorded,
    /// They are those of a generator.
    Drawn,
    /// There are recorded ones, and the runs are without them.
    LeftOut,
    /// There are none.
    None,
}

impl Pauses {
    /// Those of a workload at a pace.
    ///
    /// # Errors
    /// If the workload cannot be started.
    pub fn of(workload: &Workload, pace: Pace) -> Result<Pauses, WorkloadError> {
        Ok(match (keeps_pauses(pace), workload.is_timed()?) {
            (true, true) => Pauses::Recorded,
            (true, false) => Pauses::Drawn,
            (false, true) => Pauses::LeftOut,
            (false, false) => Pauses::None,
        })
    }
}

/// How runs are judged.
#[derive(Clone, Copy)]
pub struct Judgement<'a> {
    /// By what.
    pub measure: &'a MeasureEntry,
    /// How far simulated times are trusted.
    pub trust: &'a Trust,
    /// What the runs have of the pauses of clients.
    pub pauses: Pauses,
}
