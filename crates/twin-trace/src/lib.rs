//! Workloads: recorded, read, replayed.
//!
//! A workload is a stream of [`Record`]s: files that existed before ([`Node`]), requests with their
//! times, and answers ([`Outcome`]). A [`Source`] produces them: a [`Reader`] reads a trace,
//! and the [`readers`] parse foreign traces ([`block`] those of devices); workloads that are made up
//! are sources in a crate of their own, twin-generate. A [`Writer`] writes them. A [`Recorder`]
//! around a file system records its operations, and a [`replay::Replayer`] repeats them on another
//! file system.
//!
//! A flight log ([`FlightWriter`], [`FlightReader`]) holds everything that entered the core of a
//! run, so that the run itself can be repeated. docs/trace-format.md describes the bytes of both.
//!
//! Start at [`Record`] and [`Source`].
//!
//! This crate opens no files: readers and writers take what the caller has opened.
//!
//! ```
//! use twin_trace::{Reader, Source, Writer, readers};
//! let table = "op,path,offset,length,at_s,client\nwrite,a/b,0,100,1,1\n";
//! let mut workload = readers::open("path-operations", table.as_bytes()).unwrap();
//! let mut writer = Writer::new(Vec::new(), &workload.header().clone())?;
//! while let Some(record) = workload.next_record()? {
//!     writer.record(&record)?;
//! }
//! let bytes = writer.finish()?;
//! let mut reader = Reader::new(&bytes[..])?;
//! assert!(reader.next_record()?.is_some());
//! # Ok::<(), twin_trace::TraceError>(())
//! ```

mod accesses;
pub mod block;
mod byte_ages;
mod codec;
mod error;
mod flight;
mod frame;
mod framed;
mod histogram;
mod kind;
pub mod nfs;
mod paths;
pub mod readers;
mod reading;
mod record;
mod recorder;
pub mod replay;
mod stream;
pub mod varint;

pub use accesses::AccessStats;
pub use error::{Place, Problem, TraceError};
pub use flight::{FlightReader, FlightRecord, FlightWriter, Piece};
pub use frame::{Ending, Header, Traits};
pub use framed::Ended;
pub use histogram::Histogram;
pub use kind::{Kind, VERSION};
pub use paths::{PathOperation, Paths};
pub use reading::{Assumed, LeftOut, Reading};
pub use record::{DirOutcome, ErrorCode, Node, NodeAttr, Outcome, Record, Transfer, Verb};
pub use recorder::{Recorded, Recorder, RecorderOptions};
pub use stream::{Reader, Source, Writer};
