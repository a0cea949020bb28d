//! Traces of operations as streams: [`Source`], [`Writer`], [`Reader`].
//!
//! Both ends hold one frame in memory and nothing else.

use std::io::{Read, Write};

use twin_fs::Request;
use twin_rt::{Nanos, SECS};

use crate::codec::{Decoder, Encoder, tag};
use crate::error::{Problem, TraceError};
use crate::frame::{Ending, FrameReader, FrameSums, FrameWriter, Header, Kind, MAX_RAW};
use crate::record::{Node, Outcome, Record};

/// Anything that gives the records of a workload in order: a trace that is read, a generator, a
/// reader of a foreign format.
pub trait Source {
    /// What it says about itself.
    fn header(&self) -> &Header;

    /// The next record; none at the end.
    fn next_record(&mut self) -> Result<Option<Record>, TraceError>;

    /// Puts the next record in the place of `record`; false, and nothing done, at the end. The
    /// same as [`next_record`](Self::next_record) for who is in a hurry: records are large, and
    /// moving them about is what costs.
    fn next_into(&mut self, record: &mut Record) -> Result<bool, TraceError> {
        match self.next_record()? {
            Some(next) => *record = next,
            None => return Ok(false),
        }
        Ok(true)
    }

    /// The next record that is a node; none at the end. Skips what it can without reading it.
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
}

/// A frame is written when its records have this many bytes,
pub(crate) const FRAME_BYTES: usize = 256 << 10;
/// or when its first record is this old: what a crash may lose.
pub(crate) const FRAME_NS: Nanos = SECS;

/// Writes a trace of operations.
///
/// Call [`finish`](Self::finish) at the end: a trace without it counts as cut off, and lacks the
/// frame that was being filled.
pub struct Writer<W: Write> {
    frames: FrameWriter<W>,
    encoder: Encoder,
    sums: FrameSums,
    total: u64,
}

impl<W: Write> Writer<W> {
    /// Starts a trace; `header.kind` must be [`Kind::Operations`].
    pub fn new(out: W, header: &Header) -> Result<Writer<W>, TraceError> {
        expect_kind(header, Kind::Operations)?;
        Ok(Writer {
            frames: FrameWriter::new(out, header)?,
            encoder: Encoder::new(header.traits.contents),
            sums: FrameSums { records: 0, nodes: 0, at_ns: 0, request: 0 },
            total: 0,
        })
    }

    /// Adds any record. A request's own number is not looked at: requests are numbered as they
    /// come.
    pub fn record(&mut self, record: &Record) -> Result<(), TraceError> {
        match record {
            Record::Node(node) => self.node(node),
            Record::Request { at_ns, request } => self.request(*at_ns, request).map(|_| ()),
            Record::Reply { at_ns, id, outcome } => self.reply(*at_ns, *id, outcome),
        }
    }

    /// Adds something that existed before.
    pub fn node(&mut self, node: &Node) -> Result<(), TraceError> {
        self.make_room(None)?;
        self.encoder.node(node).map_err(too_big)?;
        self.sums.nodes += 1;
        self.added();
        Ok(())
    }

    /// Adds a request and gives its number in the trace. `at_ns` counts from the start of the
    /// trace; a time before that of the last record counts as equal to it.
    pub fn request(&mut self, at_ns: Nanos, request: &Request) -> Result<u64, TraceError> {
        self.make_room(Some(at_ns))?;
        self.encoder.request(at_ns, request).map_err(too_big)?;
        self.added();
        Ok(self.encoder.request_number())
    }

    /// Adds the answer to the request with this number.
    pub fn reply(&mut self, at_ns: Nanos, id: u64, outcome: &Outcome) -> Result<(), TraceError> {
        self.make_room(Some(at_ns))?;
        self.encoder.reply(at_ns, id, outcome);
        self.added();
        Ok(())
    }

    fn added(&mut self) {
        self.sums.records += 1;
        self.total += 1;
    }

    /// Ends the frame if it is full or, at this time, old.
    fn make_room(&mut self, at_ns: Option<Nanos>) -> Result<(), TraceError> {
        let old = at_ns.is_some_and(|at_ns| at_ns.saturating_sub(self.sums.at_ns) >= FRAME_NS);
        if self.encoder.len() >= FRAME_BYTES || self.encoder.is_full() || old {
            self.end_frame()?;
        }
        Ok(())
    }

    fn end_frame(&mut self) -> Result<(), TraceError> {
        if self.sums.records > 0 {
            debug_assert!(self.encoder.len() <= MAX_RAW);
            self.frames.frame(&self.sums, &self.encoder.columns)?;
        }
        let (at_ns, request) = (self.encoder.at_ns(), self.encoder.request_number());
        self.encoder.start(at_ns, request);
        self.sums = FrameSums { records: 0, nodes: 0, at_ns, request };
        Ok(())
    }

    /// Writes out what is there: nothing that was added so far can be lost by a crash of the
    /// recorder. Costs compression if it is done too often; once a second is plenty.
    pub fn flush(&mut self) -> Result<(), TraceError> {
        self.end_frame()?;
        self.frames.flush()
    }

    /// Records added so far.
    pub fn records(&self) -> u64 {
        self.total
    }

    /// Bytes written so far, without the frame that is being filled.
    pub fn written_bytes(&self) -> u64 {
        self.frames.written()
    }

    /// Closes the trace and gives the output back.
    pub fn finish(mut self) -> Result<W, TraceError> {
        self.end_frame()?;
        self.frames.end(self.encoder.at_ns(), self.encoder.request_number())
    }
}

pub(crate) fn expect_kind(header: &Header, expected: Kind) -> Result<(), TraceError> {
    if header.kind == expected {
        return Ok(());
    }
    Err(TraceError::header(Problem::WrongKind { expected, found: header.kind }))
}

pub(crate) fn too_big(error: crate::codec::TooBig) -> TraceError {
    TraceError::writing(Problem::TooBig(error.0))
}

/// Reads a trace of operations.
///
/// A trace that was cut off ends where its last whole frame ends; [`Source::ending`] tells.
pub struct Reader<R> {
    frames: FrameReader<R>,
    decoder: Decoder,
    /// Records of the frame read last that have not been given, and its number of records.
    left: u32,
    records: u32,
    /// After an error there is nothing more to read.
    failed: bool,
}

impl<R: Read> Reader<R> {
    /// Opens a trace.
    pub fn new(input: R) -> Result<Reader<R>, TraceError> {
        let frames = FrameReader::new(input)?;
        expect_kind(frames.header(), Kind::Operations)?;
        let (decoder, left, records) = (Decoder::new(), 0, 0);
        Ok(Reader { frames, decoder, left, records, failed: false })
    }

    /// Goes to the next frame, past those without nodes if only these are wanted. False at the
    /// end.
    fn next_frame(&mut self, nodes_only: bool) -> Result<bool, TraceError> {
        while let Some(head) = self.frames.next()? {
            if self.decoder.request_number() != head.request && self.records > 0 && !nodes_only {
                let problem = Problem::Field("the number of requests before the frame");
                return Err(self.frames.error(None, problem));
            }
            if nodes_only && head.nodes == 0 {
                continue;
            }
            let lens = self.frames.expand(self.decoder.payload_mut())?;
            self.decoder.start(&lens, head.at_ns, head.request);
            (self.left, self.records) = (head.records, head.records);
            return Ok(true);
        }
        Ok(false)
    }

    #[inline]
    fn decode(&mut self, out: &mut Record) -> Result<(), &'static str> {
        let (code, flags) = self.decoder.next_tag()?.ok_or("a frame with too few records")?;
        match code {
            tag::REPLY => {
                let (at_ns, id, outcome) = self.decoder.reply(flags)?;
                *out = Record::Reply { at_ns, id, outcome };
            }
            tag::NODE => *out = Record::Node(self.decoder.node(flags)?),
            _ => {
                let (at_ns, request) = self.decoder.request(code, flags)?;
                *out = Record::Request { at_ns, request };
            }
        }
        self.left -= 1;
        if self.left == 0 {
            self.decoder.finish()?;
        }
        Ok(())
    }

    fn next(&mut self, nodes_only: bool, out: &mut Record) -> Result<bool, TraceError> {
        if self.failed {
            return Ok(false);
        }
        while self.left == 0 {
            let more = self.next_frame(nodes_only);
            self.failed = more.is_err();
            if !more? {
                return Ok(false);
            }
        }
        let record = self.records - self.left;
        if let Err(why) = self.decode(out) {
            self.failed = true;
            return Err(self.frames.error(Some(record), Problem::Field(why)));
        }
        Ok(true)
    }
}

/// A record to be replaced by another.
pub(crate) fn blank() -> Record {
    Record::Reply { at_ns: 0, id: 0, outcome: Outcome::Done }
}

impl<R: Read> Source for Reader<R> {
    fn header(&self) -> &Header {
        self.frames.header()
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
        self.frames.ending()
    }
}
