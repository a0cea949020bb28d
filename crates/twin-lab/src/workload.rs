//! Workloads by name: a trace in memory or where it is stored, or a generator's text. Each run reads it
//! from its beginning.

use std::fmt;
use std::io::{self, Read};
use std::sync::Arc;

use twin_generate::by_hand::{self, Plan};
use twin_settings::{SettingsError, help_of};
use twin_trace::readers::{self, Again, OpenError};
use twin_trace::replay::Population;
use twin_trace::{Reader, Source, TraceError};

use crate::keeping::{Keeping, MOST_BYTES};
use crate::steps::Beginning;

/// A workload that can be started repeatedly.
#[derive(Clone, Debug)]
pub enum Workload {
    /// The bytes of a trace.
    Trace(Arc<[u8]>),
    /// A trace in a foreign format: the format's name, and the bytes.
    Foreign(&'static str, Arc<[u8]>),
    /// A trace that each run opens and reads from its beginning, so that memory does not grow with it: in
    /// the foreign format of this name, or in our own.
    Stored(Option<&'static str>, Opener),
    /// A workload that was read once, and the files that exist before it begins.
    Read(Arc<Workload>, Arc<Population>),
    /// A generator, such as `build:files=300`, and its seed.
    Generated(String, u64),
    /// A workload by hand, and its seed.
    ByHand(Arc<Plan>, u64),
    /// The beginning of a workload: this number of its operations. The files that exist before it are those of the
    /// whole, so that its run is the beginning of a run of the whole.
    Part(Box<Workload>, u64),
}

/// Opens what is stored, from its beginning; this crate opens no files itself.
#[derive(Clone)]
pub struct Opener(Arc<dyn Fn() -> io::Result<Stored> + Send + Sync>);

/// What was opened.
pub type Stored = Box<dyn Read + Send>;

impl Opener {
    /// What is opened by this function, each time anew.
    pub fn new(open: impl Fn() -> io::Result<Stored> + Send + Sync + 'static) -> Opener {
        Opener(Arc::new(open))
    }

    fn open(&self) -> Result<Stored, WorkloadError> {
        (self.0)().map_err(|error| WorkloadError::Trace(error.into()))
    }
}

impl fmt::Debug for Opener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Opener")
    }
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

impl From<TraceError> for WorkloadError {
    fn from(error: TraceError) -> Self {
        WorkloadError::Trace(error)
    }
}

/// Help on the generated workloads and their settings, and on foreign traces.
pub fn help() -> String {
    let mut out = String::from("Generated workloads (name, or name:key=value,...):\n");
    for entry in &twin_generate::REGISTRY {
        out += &format!("  {:<12} {}\n", entry.name, entry.about);
        out += &help_of(entry.params, "    ");
    }
    out += "  settings of each workload:\n";
    out += &help_of(twin_generate::COMMON, "    ");
    out += "\nDistributions of workloads by hand (-w FILE.toml, docs/workloads.md):\n";
    for (name, needs) in twin_generate::DISTRIBUTIONS {
        out += &format!("  {name:<12} {needs}\n");
    }
    out += "\nForeign formats of traces (--trace FILE --trace-format NAME):\n";
    for entry in &readers::REGISTRY {
        out += &format!("  {:<12} {}\n", entry.name, entry.about);
    }
    out
}

impl Workload {
    /// Starts it from the beginning.
    ///
    /// # Errors
    /// If its beginning is not that of a workload.
    pub fn start(&self) -> Result<Box<dyn Source>, WorkloadError> {
        match self {
            Workload::Trace(bytes) => {
                let reader = Reader::new(io::Cursor::new(Arc::clone(bytes)));
                Ok(Box::new(reader.map_err(WorkloadError::Trace)?))
            }
            Workload::Foreign(format, bytes) => {
                let bytes = Arc::clone(bytes);
                foreign(format, Again::new(move || Ok(io::Cursor::new(Arc::clone(&bytes)))))
            }
            Workload::Stored(Some(format), opener) => {
                let opener = opener.clone();
                foreign(format, Again::new(move || (opener.0)()))
            }
            Workload::Stored(None, opener) => {
                let reader = Reader::new(io::BufReader::new(opener.open()?));
                Ok(Box::new(reader.map_err(WorkloadError::Trace)?))
            }
            Workload::Read(workload, _) => workload.start(),
            Workload::Generated(text, seed) => {
                twin_generate::start(text, *seed).map_err(WorkloadError::Settings)
            }
            Workload::ByHand(plan, seed) => {
                let (source, _) = by_hand::start(plan, *seed).map_err(WorkloadError::Settings)?;
                Ok(source)
            }
            Workload::Part(whole, operations) => {
                Ok(Box::new(Beginning::new(whole.start()?, *operations)))
            }
        }
    }

    /// Starts it for a reading that keeps for runs what they can share: see [`kept`](Self::kept).
    ///
    /// # Errors
    /// As [`start`](Self::start).
    pub fn start_keeping(&self) -> Result<Keeping, WorkloadError> {
        let is_foreign = matches!(self, Workload::Foreign(..) | Workload::Stored(Some(_), _));
        Ok(Keeping::at_most(self.start()?, if is_foreign { MOST_BYTES } else { 0 }))
    }

    /// The same workload with what was kept when it was read to its end, for any number of runs. Seeds no
    /// longer change it.
    pub fn kept(self, keeping: Keeping) -> Workload {
        let (columns, population) = keeping.end();
        let workload = columns.map_or(self, Workload::Trace);
        match population {
            Some(population) => Workload::Read(Arc::new(workload), population),
            None => workload,
        }
    }

    /// True if its requests came through the kernel of a mount when it was recorded.
    ///
    /// # Errors
    /// As [`start`](Self::start).
    pub fn is_of_mount(&self) -> Result<bool, WorkloadError> {
        Ok(self.start()?.header().traits.mounted)
    }

    /// True if some of its operations have to end by a certain time.
    ///
    /// # Errors
    /// As [`start`](Self::start).
    pub fn has_deadlines(&self) -> Result<bool, WorkloadError> {
        Ok(self.start()?.header().traits.deadlines)
    }

    /// True if the pauses of its clients are known.
    ///
    /// # Errors
    /// As [`start`](Self::start).
    pub fn is_timed(&self) -> Result<bool, WorkloadError> {
        Ok(!self.is_drawn() && self.has_times()?)
    }

    /// True if it has times at all, recorded or drawn, at which its operations are due.
    ///
    /// # Errors
    /// As [`start`](Self::start).
    pub fn has_times(&self) -> Result<bool, WorkloadError> {
        Ok(self.start()?.header().traits.timed)
    }

    /// The same workload with the seed of its generator raised by `more`. A trace stays as it is.
    pub fn with_seed(&self, more: u64) -> Workload {
        match self {
            Workload::Generated(text, seed) => {
                Workload::Generated(text.clone(), seed.wrapping_add(more))
            }
            Workload::ByHand(plan, seed) => {
                Workload::ByHand(Arc::clone(plan), seed.wrapping_add(more))
            }
            Workload::Part(whole, operations) => {
                Workload::Part(Box::new(whole.with_seed(more)), *operations)
            }
            _ => self.clone(),
        }
    }

    /// True if seeds change its operations.
    pub fn is_drawn(&self) -> bool {
        match self {
            Workload::Generated(..) | Workload::ByHand(..) => true,
            Workload::Part(whole, _) => whole.is_drawn(),
            _ => false,
        }
    }

    /// The files that exist before it begins.
    ///
    /// # Errors
    /// If the trace is damaged.
    pub fn population(&self) -> Result<Arc<Population>, WorkloadError> {
        match self {
            Workload::Part(whole, _) => whole.population(),
            Workload::Read(_, population) => Ok(Arc::clone(population)),
            whole => Ok(Arc::new(Population::collect(&mut whole.start()?)?)),
        }
    }
}

/// The records of an input in a foreign format.
fn foreign(format: &str, input: Again) -> Result<Box<dyn Source>, WorkloadError> {
    readers::open_again(format, input).map_err(|error| match error {
        OpenError::Name(error) => WorkloadError::Settings(error),
        OpenError::Trace(error) => WorkloadError::Trace(error),
    })
}
