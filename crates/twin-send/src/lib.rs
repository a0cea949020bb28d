//! Kept states of a volume as streams, for backups: a whole state, or what it has that an older one has not.
//!
//! Contract: bytes in and bytes out; nothing here opens a file. [`send()`] walks a state, beside its base if there is one,
//! and gives [`Record`]s, which a [`Writer`] makes a stream. A [`Reader`] takes a stream in pieces of any size and gives
//! its records, each only after its checksum and its place in the order were found right. A [`Receiver`] applies records
//! to any [`FileSystem`](twin_fs::FileSystem): a volume, a model, or a directory of the host.
//!
//! A stream names paths alone, so the receiver need not be a volume of twinfs. The format is documented in
//! `docs/send-format.md`.
//!
//! ```
//! use twin_send::{Header, Reader, Record, StateId, Writer};
//!
//! let state = StateId { volume: [1; 16], id: 7, time_ns: 3, name: "monday".into() };
//! let mut writer = Writer::new();
//! let mut stream = writer.write(&Record::Header(Header { state, base: None }))?;
//! stream.extend(writer.end()?);
//! let mut reader = Reader::new();
//! reader.push(&stream);
//! assert!(matches!(reader.next_record()?, Some(Record::Header(_))));
//! assert!(matches!(reader.next_record()?, Some(Record::End(_))));
//! reader.finish()?;
//! # Ok::<(), twin_send::StreamError>(())
//! ```

#![allow(missing_docs)] // Fields of `Record`'s variants are documented on their variant.

mod mark;
mod order;
mod receive;
mod record;
mod send;
mod stream;

pub use mark::{MARK_ATTRIBUTE, Mark, Progress, Refusal};
pub use receive::{ReceiveError, Receiver};
pub use record::{Attributes, DATA_MAX, Header, PATH_MAX, Record, StateId, Totals};
pub use send::{SendError, send};
pub use stream::{MAGIC, PAYLOAD_MAX, Reader, StreamError, VERSION, Writer};
