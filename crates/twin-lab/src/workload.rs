//! Workloads by name: a trace in memory, or a generator's text. Each run reads its own copy.

use std::fmt;
use std::sync::Arc;

use twin_trace::replay::Population;
use twin_trace::{Reader, SettingsError, Source, TraceError, generate};

/// A workload that can be started again and again.
#[derive(Clone, Debug)]
pub enum Workload {
    /// The bytes of a trace.
    Trace(Arc<[u8]>),
    /// A generator, as `build:files=300`, and its seed.
    Generated(String, u64),
}

/// Why a workload cannot be used.
#[derive(Debug)]
pub enum WorkloadError {
    /// The trace is damaged.
    Trace(TraceError),
    /// The generator or its settings do not exist.
    Settings(SettingsError),
}

impl fmt::Display for WorkloadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            WorkloadError::Trace(error) => write!(f, "{error}"),
            WorkloadError::Settings(error) => write!(f, "{error}"),
        }
    }
}

impl std::error::Error for WorkloadError {}

impl Workload {
    /// Starts it from the beginning.
    ///
    /// # Errors
    /// If it does not begin as one.
    pub fn start(&self) -> Result<Box<dyn Source>, WorkloadError> {
        match self {
            Workload::Trace(bytes) => {
                let reader = Reader::new(std::io::Cursor::new(Arc::clone(bytes)));
                Ok(Box::new(reader.map_err(WorkloadError::Trace)?))
            }
            Workload::Generated(text, seed) => {
                generate::start(text, *seed).map_err(WorkloadError::Settings)
            }
        }
    }

    /// What is there before it begins.
    ///
    /// # Errors
    /// If the trace is damaged.
    pub fn population(&self) -> Result<Population, WorkloadError> {
        Population::collect(&mut self.start()?).map_err(WorkloadError::Trace)
    }
}
