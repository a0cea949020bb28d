//! The common part of traces of operations and flight logs: putting records into frames and reading
//! them from frames. One frame is in memory at a time.

use std::io::{Read, Write};

use twin_rt::{Nanos, SECS};

use crate::codec::{Decoder, Encoder, TooBig};
use crate::error::{Problem, TraceError};
use crate::frame::{Ending, FrameReader, FrameSums, FrameWriter, Header, MAX_RAW};
use crate::kind::Kind;

/// A frame is written when its records have this many bytes, or
const FRAME_BYTES: usize = 256 << 10;
/// when its first record is this old (a crash may lose that much)
const FRAME_NS: Nanos = SECS;
/// and it has at least this many records, so that it is worth its overhead.
const FRAME_RECORDS: u32 = 256;

/// A recording that ended because its output takes no more. Cut to its whole frames, with the end
/// behind them, the output is a trace that was closed there.
#[derive(Debug)]
pub struct Ended<W> {
    /// The output to which the frames were written.
    pub out: W,
    /// The end of the last whole frame, in bytes.
    pub whole_bytes: u64,
    /// The bytes that close the trace when they are written behind that.
    pub closing: Vec<u8>,
    /// The error, in words.
    pub why: String,
}

/// Collects records into frames and writes them.
pub(crate) struct Framed<W: Write> {
    frames: FrameWriter<W>,
    encoder: Encoder,
    sums: FrameSums,
    total: u64,
}

impl<W: Write> Framed<W> {
    pub(crate) fn new(out: W, header: &Header, kind: Kind) -> Result<Framed<W>, TraceError> {
        expect_kind(header, kind)?;
        Ok(Framed {
            frames: FrameWriter::new(out, header)?,
            encoder: Encoder::new(header.traits.contents),
            sums: FrameSums { records: 0, nodes: 0, at_ns: 0, request: 0 },
            total: 0,
        })
    }

    /// The same for a trace that stays in memory, before its first record: nothing is compressed, and
    /// contents are kept whatever the header says.
    pub(crate) fn plain(self) -> Framed<W> {
        Framed { frames: self.frames.plain(), encoder: Encoder::new(true), ..self }
    }

    /// Adds a record of this time (if it has one). `put` encodes the record, or refuses it and
    /// encodes nothing.
    pub(crate) fn add(
        &mut self,
        at_ns: Option<Nanos>,
        put: impl FnOnce(&mut Encoder) -> Result<(), TooBig>,
    ) -> Result<(), TraceError> {
        let age_ns = at_ns.map_or(0, |at_ns| at_ns.saturating_sub(self.sums.at_ns));
        let old = age_ns >= FRAME_NS && self.sums.records >= FRAME_RECORDS;
        if self.encoder.len() >= FRAME_BYTES || self.encoder.is_full() || old {
            self.end_frame()?;
        }
        put(&mut self.encoder).map_err(|big| TraceError::writing(Problem::TooBig(big.0)))?;
        self.sums.records += 1;
        self.total += 1;
        Ok(())
    }

    /// Counts the last record as a node.
    pub(crate) fn count_node(&mut self) {
        self.sums.nodes += 1;
    }

    /// The number of the last request.
    pub(crate) fn request_number(&self) -> u64 {
        self.encoder.request_number()
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

    pub(crate) fn flush(&mut self) -> Result<(), TraceError> {
        self.end_frame()?;
        self.frames.flush()
    }

    /// Records added so far.
    pub(crate) fn total(&self) -> u64 {
        self.total
    }

    /// Bytes written so far, without the frame that is being filled.
    pub(crate) fn written(&self) -> u64 {
        self.frames.written()
    }

    /// The state of the output after writing has failed.
    pub(crate) fn broken(self, why: &TraceError) -> Ended<W> {
        let (out, whole_bytes, closing) = self.frames.broken(self.sums.at_ns, self.sums.request);
        Ended { out, whole_bytes, closing, why: why.to_string() }
    }

    pub(crate) fn finish(mut self) -> Result<W, TraceError> {
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

/// Reads frames and decodes their records one by one.
pub(crate) struct Unframed<R> {
    frames: FrameReader<R>,
    decoder: Decoder,
    /// Records of the last frame that have not been returned, and its number of records.
    left: u32,
    records: u32,
    /// Set by an error: nothing more is read.
    failed: bool,
}

impl<R: Read> Unframed<R> {
    pub(crate) fn new(input: R, kind: Kind) -> Result<Unframed<R>, TraceError> {
        let frames = FrameReader::new(input)?;
        expect_kind(frames.header(), kind)?;
        Ok(Unframed { frames, decoder: Decoder::new(), left: 0, records: 0, failed: false })
    }

    pub(crate) fn header(&self) -> &Header {
        self.frames.header()
    }

    pub(crate) fn ending(&self) -> Option<Ending> {
        self.frames.ending()
    }

    /// Goes to the next frame, skipping frames without nodes if `nodes_only` is set. Returns false
    /// at the end.
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

    /// Decodes the next record: `get` is called with its code and flags. `None` at the end.
    #[inline]
    pub(crate) fn next<T>(
        &mut self,
        nodes_only: bool,
        get: impl FnOnce(&mut Decoder, u8, u8) -> Result<T, &'static str>,
    ) -> Result<Option<T>, TraceError> {
        if self.failed {
            return Ok(None);
        }
        while self.left == 0 {
            let more = self.next_frame(nodes_only);
            self.failed = more.is_err();
            if !more? {
                return Ok(None);
            }
        }
        let record = self.records - self.left;
        match self.decode(get) {
            Ok(value) => Ok(Some(value)),
            Err(why) => {
                self.failed = true;
                Err(self.frames.error(Some(record), Problem::Field(why)))
            }
        }
    }

    #[inline]
    fn decode<T>(
        &mut self,
        get: impl FnOnce(&mut Decoder, u8, u8) -> Result<T, &'static str>,
    ) -> Result<T, &'static str> {
        let (code, flags) = self.decoder.next_tag()?.ok_or("a frame with too few records")?;
        let value = get(&mut self.decoder, code, flags)?;
        self.left -= 1;
        if self.left == 0 {
            self.decoder.finish()?;
        }
        Ok(value)
    }
}
