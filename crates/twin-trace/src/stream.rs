//! Traces of operations as streams: [`Source`], [`Writer`], [`Reader`].

use std::io::{Read, Write};

use twin_fs::Request;
use twin_rt::Nanos;

use crate::codec::tag;
use crate::error::TraceError;
use crate::frame::{Ending, Header};
use crate::framed::{Ended, Framed, Unframed};
use crate::kind::Kind;
use crate::reading::Reading;
use crate::record::{Node, Outcome, Record};

/// A source of the records of a workload, in order: a trace, a generator, or a reader of a foreign
/// format.
pub trait Source {
    /// The header of the trace, which describes it.
    fn header(&self) -> &Header;

    /// The next record; `None` at the end.
    fn next_record(&mut self) -> Result<Option<Record>, TraceError>;

    /// Replaces `record` by the next record; returns false, and changes nothing, at the end. A
    /// faster form of [`next_record`](Self::next_record): records are large, and this avoids moving
    /// them.
    fn next_into(&mut self, record: &mut Record) -> Result<bool, TraceError> {
        match self.next_record()? {
            Some(next) => *record = next,
            None => return Ok(false),
        }
        Ok(true)
    }

    /// The next record that is a node; `None` at the end. Skips other records unread where
    /// possible.
    fn next_node(&mut self) -> Result<Option<Node>, TraceError> {
        loop {
            match self.next_record()? {
                None => return Ok(None),
                Some(Record::Node(node)) => return Ok(Some(node)),
                Some(_) if self.header().traits.nodes_first => return Ok(None),
                Some(_) => {}
            }
        }
    }

    /// How it ended, once it has.
    fn ending(&self) -> Option<Ending> {
        Some(Ending::Closed)
    }

    /// True if all requests are known to come from one client: a replay then need not read ahead to
    /// find requests of other clients.
    fn has_one_client(&self) -> bool {
        false
    }

    /// The report of a reader of a foreign trace on its input so far; complete once the source has
    /// ended. Empty for traces of our own and generators, which leave nothing out.
    fn reading(&self) -> Reading {
        Reading::default()
    }
}

impl<S: Source + ?Sized> Source for Box<S> {
    fn header(&self) -> &Header {
        (**self).header()
    }
    fn next_record(&mut self) -> Result<Option<Record>, TraceError> {
        (**self).next_record()
    }
    fn next_into(&mut self, record: &mut Record) -> Result<bool, TraceError> {
        (**self).next_into(record)
    }
    fn next_node(&mut self) -> Result<Option<Node>, TraceError> {
        (**self).next_node()
    }
    fn ending(&self) -> Option<Ending> {
        (**self).ending()
    }
    fn has_one_client(&self) -> bool {
        (**self).has_one_client()
    }
    fn reading(&self) -> Reading {
        (**self).reading()
    }
}

/// Writes a trace of operations.
///
/// Call [`finish`](Self::finish) at the end: a trace without it counts as cut off, and lacks its
/// last frame.
pub struct Writer<W: Write>(Framed<W>);

impl<W: Write> Writer<W> {
    /// Starts a trace; `header.kind` must be [`Kind::Operations`].
    pub fn new(out: W, header: &Header) -> Result<Writer<W>, TraceError> {
        Ok(Writer(Framed::new(out, header, Kind::Operations)?))
    }

    /// Starts a trace that stays in memory: its frames are not compressed, which takes several times the
    /// memory and makes reading it faster, and contents are kept whatever the header says.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn plain(out: W, header: &Header) -> Result<Writer<W>, TraceError> {
        Ok(Writer(Framed::new(out, header, Kind::Operations)?.plain()))
    }

    /// Adds any record. The request's own number is ignored: requests are numbered in order.
    pub fn record(&mut self, record: &Record) -> Result<(), TraceError> {
        match record {
            Record::Node(node) => self.node(node),
            Record::Request { at_ns, request } => self.request(*at_ns, request).map(|_| ()),
            Record::Reply { at_ns, id, outcome } => self.reply(*at_ns, *id, outcome),
        }
    }

    /// Adds a file that existed before the trace began.
    pub fn node(&mut self, node: &Node) -> Result<(), TraceError> {
        self.0.add(None, |encoder| encoder.node(node))?;
        self.0.count_node();
        Ok(())
    }

    /// Adds a request and returns its number in the trace. `at_ns` counts from the start of the
    /// trace; a time before that of the last record counts as equal to it.
    pub fn request(&mut self, at_ns: Nanos, request: &Request) -> Result<u64, TraceError> {
        self.0.add(Some(at_ns), |encoder| encoder.request(at_ns, request))?;
        Ok(self.0.request_number())
    }

    /// Adds the answer to the request with this number.
    pub fn reply(&mut self, at_ns: Nanos, id: u64, outcome: &Outcome) -> Result<(), TraceError> {
        self.0.add(Some(at_ns), |encoder| {
            encoder.reply(at_ns, id, outcome);
            Ok(())
        })
    }

    /// Writes out all records so far, so that a crash of the recorder cannot lose them. Frequent
    /// calls reduce compression; once a second is enough. Without calls a frame is written when it
    /// has 256 KiB, or 256 records and an age of a second.
    pub fn flush(&mut self) -> Result<(), TraceError> {
        self.0.flush()
    }

    /// Records added so far.
    pub fn records(&self) -> u64 {
        self.0.total()
    }

    /// Bytes written so far, without the frame that is being filled.
    pub fn written_bytes(&self) -> u64 {
        self.0.written()
    }

    /// The state of the output after writing has failed.
    pub(crate) fn broken(self, why: &TraceError) -> Ended<W> {
        self.0.broken(why)
    }

    /// Closes the trace and returns the output.
    pub fn finish(self) -> Result<W, TraceError> {
        self.0.finish()
    }
}

/// Reads a trace of operations.
///
/// A trace that was cut off ends where its last whole frame ends; see [`Source::ending`].
pub struct Reader<R>(Unframed<R>);

impl<R: Read> Reader<R> {
    /// Opens a trace of operations and reads its header.
    pub fn new(input: R) -> Result<Reader<R>, TraceError> {
        Ok(Reader(Unframed::new(input, Kind::Operations)?))
    }

    fn next(&mut self, nodes_only: bool, out: &mut Record) -> Result<bool, TraceError> {
        let next = self.0.next(nodes_only, |decoder, code, flags| {
            match code {
                tag::REPLY => {
                    let (at_ns, id, outcome) = decoder.reply(flags)?;
                    *out = Record::Reply { at_ns, id, outcome };
                }
                tag::NODE => *out = Record::Node(decoder.node(flags)?),
                _ => {
                    let (at_ns, request) = decoder.request(code, flags)?;
                    *out = Record::Request { at_ns, request };
                }
            }
            Ok(())
        });
        Ok(next?.is_some())
    }
}

/// A placeholder record, to be replaced.
pub(crate) fn blank() -> Record {
    Record::Reply { at_ns: 0, id: 0, outcome: Outcome::Done }
}

impl<R: Read> Source for Reader<R> {
    fn header(&self) -> &Header {
        self.0.header()
    }

    fn next_record(&mut self) -> Result<Option<Record>, TraceError> {
        let mut record = blank();
        Ok(self.next(false, &mut record)?.then_some(record))
    }

    fn next_into(&mut self, record: &mut Record) -> Result<bool, TraceError> {
        self.next(false, record)
    }

    fn next_node(&mut self) -> Result<Option<Node>, TraceError> {
        let mut record = blank();
        while self.next(true, &mut record)? {
            match record {
                Record::Node(node) => return Ok(Some(node)),
                _ if self.header().traits.nodes_first => return Ok(None),
                _ => {}
            }
        }
        Ok(None)
    }

    fn ending(&self) -> Option<Ending> {
        self.0.ending()
    }
}
