//! Workloads: recorded, read, made up, replayed.
//!
//! A workload is a stream of [`Record`]s: what was there before ([`Node`]), requests with their
//! times, and what was answered ([`Outcome`]). A [`Source`] gives them: a trace that a [`Reader`]
//! reads, a workload that [`generate`] makes up, a foreign trace that one of the [`readers`]
//! understands ([`block`] has those of devices). A [`Writer`] writes them down, a [`Recorder`] around a file system tells it what
//! is done there, and a [`replay::Replayer`] does the same on another file system.
//!
//! A flight log ([`FlightWriter`], [`FlightReader`]) holds everything that entered the core of a
//! run, so that the run itself can be repeated. The bytes of both are described in
//! docs/trace-format.md.
//!
//! Start at [`Record`] and [`Source`].
//!
//! Nothing here opens files: readers and writers take what the caller has opened.
//!
//! ```
//! use twin_trace::{Reader, Source, Writer, generate};
//! let mut workload = generate::start("zipf:writes=100", 1).unwrap();
//! let mut writer = Writer::new(Vec::new(), &workload.header().clone())?;
//! while let Some(record) = workload.next_record()? {
//!     writer.record(&record)?;
//! }
//! let bytes = writer.finish()?;
//! let mut reader = Reader::new(&bytes[..])?;
//! assert!(reader.next_record()?.is_some());
//! # Ok::<(), twin_trace::TraceError>(())
//! ```

pub mod block;
mod codec;
mod error;
mod flight;
mod frame;
mod framed;
pub mod generate;
mod histogram;
mod kind;
pub mod nfs;
pub mod readers;
mod record;
mod recorder;
pub mod replay;
mod settings;
mod stream;
mod varint;

pub use error::{Place, Problem, TraceError};
pub use flight::{FlightReader, FlightRecord, FlightWriter, Piece};
pub use frame::{Ending, Header, Traits};
pub use histogram::Histogram;
pub use kind::{Kind, VERSION};
pub use record::{DirOutcome, ErrorCode, Node, NodeAttr, Outcome, Record, Verb};
pub use recorder::{Recorded, Recorder};
pub use settings::{Param, Settings, SettingsError};
pub use stream::{Reader, Source, Writer};
