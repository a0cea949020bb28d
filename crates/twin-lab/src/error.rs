//! Why a simulated run failed.

use std::fmt;

use twin_fs::FsError;
use twin_rt::Stalled;
use twin_settings::outside;
use twin_trace::replay::ReplayError;

use crate::workload::WorkloadError;

/// Why a run failed.
#[derive(Debug)]
pub enum SimulateError {
    /// The workload is damaged or does not exist.
    Workload(WorkloadError),
    /// The disk or processor model cannot be built.
    Model(String),
    /// The file system returned an error.
    Fs(FsError),
    /// The replay failed.
    Replay(ReplayError),
    /// All tasks wait and no event is due.
    Stalled(Stalled),
    /// A policy from outside failed.
    Policy(String),
}

/// Checks that no policy from outside has failed since the last call on this thread: what was found with one is void.
pub(crate) fn check_policies() -> Result<(), SimulateError> {
    outside::take_fault_of_run().map_or(Ok(()), |words| Err(SimulateError::Policy(words)))
}

impl fmt::Display for SimulateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SimulateError::Workload(error) => write!(f, "{error}"),
            SimulateError::Model(error) | SimulateError::Policy(error) => f.write_str(error),
            SimulateError::Fs(error) => write!(f, "{error}"),
            SimulateError::Replay(error) => write!(f, "{error}"),
            SimulateError::Stalled(error) => write!(f, "{error}"),
        }
    }
}

impl std::error::Error for SimulateError {}

impl From<FsError> for SimulateError {
    fn from(error: FsError) -> Self {
        SimulateError::Fs(error)
    }
}

/// A model that cannot be built, with the reason.
pub fn model_error(error: impl fmt::Display) -> SimulateError {
    SimulateError::Model(error.to_string())
}
