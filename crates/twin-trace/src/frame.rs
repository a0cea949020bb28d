//! The container: a header, then frames, then an end frame if the trace was closed.
//!
//! A frame is written as a whole, has its own checksums and can be read alone, so a trace that was
//! cut off (by a crash of the recorder or of its machine) is good up to its last whole frame.
//! docs/trace-format.md describes every byte.

use std::fmt;
use std::io::{self, ErrorKind, Read, Write};

use twin_rt::{Nanos, Time};

use crate::codec::column::COUNT;
use crate::error::{Problem, TraceError};
use crate::kind::{Kind, MAGIC, VERSION};

const FRAME_MAGIC: [u8; 4] = *b"TWfr";
const HEADER_LEN: usize = 40;
const FRAME_HEADER_LEN: usize = 52;
const DIRECTORY_LEN: usize = COUNT * 8;
/// The longest text in a header, in bytes.
const MAX_TEXT: usize = 1 << 20;
/// The most bytes that the records of a frame may have before compression.
pub(crate) const MAX_RAW: usize = 16 << 20;
/// A column that compression does not shrink is stored as it is, so this bounds a frame.
const MAX_STORED: usize = DIRECTORY_LEN + MAX_RAW;
/// zstd's level: its default, some 200 MB of records a second.
const LEVEL: i32 = 3;

/// The header of a trace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    /// The kind of its records.
    pub kind: Kind,
    /// When it began, since the Unix epoch; zero if it was generated, not recorded.
    pub start: Time,
    /// The seed of the run or of the generator.
    pub seed: u64,
    /// Properties of the trace.
    pub traits: Traits,
    /// For a flight log the settings of the run, otherwise a description of the trace.
    pub text: String,
}

/// Properties of a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Traits {
    /// File contents are kept; otherwise only their lengths.
    pub contents: bool,
    /// The times are meaningful; otherwise only the order is.
    pub timed: bool,
    /// All nodes come before the first request.
    pub nodes_first: bool,
    /// Clients share nothing that one of them changes, so each client may run at its own speed.
    pub independent: bool,
    /// The requests came through a kernel that served a mount: the pauses between an answer and the
    /// client's next request contain the time of that kernel, not only that of the client.
    pub mounted: bool,
    /// An answer that comes later than its request has the time by which the operation must have
    /// ended; an answer at the same time means that there is no such time.
    pub deadlines: bool,
}

impl Traits {
    fn bits(self) -> u32 {
        u32::from(self.contents)
            | u32::from(self.timed) << 1
            | u32::from(self.nodes_first) << 2
            | u32::from(self.independent) << 3
            | u32::from(self.mounted) << 4
            | u32::from(self.deadlines) << 5
    }

    fn from_bits(bits: u32) -> Traits {
        let bit = |n: u32| bits >> n & 1 == 1;
        Traits {
            contents: bit(0),
            timed: bit(1),
            nodes_first: bit(2),
            independent: bit(3),
            mounted: bit(4),
            deadlines: bit(5),
        }
    }
}

impl Header {
    fn to_bytes(&self) -> Vec<u8> {
        let mut text = self.text.as_bytes();
        while text.len() > MAX_TEXT || std::str::from_utf8(text).is_err() {
            text = &text[..text.len().min(MAX_TEXT + 1) - 1];
        }
        let kind = self.kind.number();
        let mut out = Vec::with_capacity(HEADER_LEN + text.len() + 4);
        out.extend_from_slice(&MAGIC);
        out.extend_from_slice(&VERSION.to_le_bytes());
        out.extend_from_slice(&[kind, 0]);
        out.extend_from_slice(&0u32.to_le_bytes());
        out.extend_from_slice(&self.traits.bits().to_le_bytes());
        out.extend_from_slice(&(text.len() as u32).to_le_bytes());
        out.extend_from_slice(&self.start.0.to_le_bytes());
        out.extend_from_slice(&self.seed.to_le_bytes());
        out.extend_from_slice(text);
        out.extend_from_slice(&crc32c::crc32c(&out).to_le_bytes());
        out
    }

    fn read(input: &mut impl Read) -> Result<(Header, u64), Problem> {
        let mut raw = vec![0; HEADER_LEN];
        let got = read_full(input, &mut raw).map_err(Problem::Io)?;
        if got < MAGIC.len() || raw[..8] != MAGIC {
            return Err(Problem::NotATrace);
        }
        if got < HEADER_LEN {
            return Err(Problem::HeaderCut);
        }
        let version = u16::from_le_bytes([raw[8], raw[9]]);
        if version != VERSION {
            return Err(Problem::Version(version));
        }
        let text_len = u32_at(&raw, 20) as usize;
        if text_len > MAX_TEXT {
            return Err(Problem::Field("the length of the text in the header"));
        }
        raw.resize(HEADER_LEN + text_len + 4, 0);
        let got = read_full(input, &mut raw[HEADER_LEN..]).map_err(Problem::Io)?;
        if got < text_len + 4 {
            return Err(Problem::HeaderCut);
        }
        let body = HEADER_LEN + text_len;
        if crc32c::crc32c(&raw[..body]) != u32_at(&raw, body) {
            return Err(Problem::Checksum("the header"));
        }
        let kind = match raw[10] {
            1 => Kind::Operations,
            2 => Kind::Flight,
            _ => return Err(Problem::Field("the kind of the trace")),
        };
        if u32_at(&raw, 12) != 0 {
            return Err(Problem::Features(u32_at(&raw, 12)));
        }
        let text = std::str::from_utf8(&raw[HEADER_LEN..body]);
        let header = Header {
            kind,
            start: Time(u64_at(&raw, 24)),
            seed: u64_at(&raw, 32),
            traits: Traits::from_bits(u32_at(&raw, 16)),
            text: text.map_err(|_| Problem::Field("the text in the header"))?.to_owned(),
        };
        Ok((header, raw.len() as u64))
    }
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(std::array::from_fn(|i| bytes[at + i]))
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(std::array::from_fn(|i| bytes[at + i]))
}

/// Reads until `out` is full or the input ends; returns the number of bytes read.
fn read_full(input: &mut impl Read, out: &mut [u8]) -> io::Result<usize> {
    let mut got = 0;
    while got < out.len() {
        match input.read(&mut out[got..]) {
            Ok(0) => break,
            Ok(n) => got += n,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(got)
}

/// The head of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FrameHead {
    /// True for the frame that closes a trace; it has no records.
    pub(crate) end: bool,
    /// The number of the frame, from 0.
    pub(crate) number: u32,
    /// The number of its records.
    pub(crate) records: u32,
    /// The number of its nodes.
    pub(crate) nodes: u32,
    /// Time of the last record before it.
    pub(crate) at_ns: Nanos,
    /// Number of the last request before it.
    pub(crate) request: u64,
    stored: u32,
    crc: u32,
}

impl FrameHead {
    fn to_bytes(self) -> [u8; FRAME_HEADER_LEN] {
        let mut out = [0; FRAME_HEADER_LEN];
        out[..4].copy_from_slice(&FRAME_MAGIC);
        out[4] = if self.end { 2 } else { 1 };
        out[8..12].copy_from_slice(&self.number.to_le_bytes());
        out[12..16].copy_from_slice(&self.records.to_le_bytes());
        out[16..20].copy_from_slice(&self.nodes.to_le_bytes());
        out[20..24].copy_from_slice(&self.stored.to_le_bytes());
        out[24..28].copy_from_slice(&self.crc.to_le_bytes());
        out[32..40].copy_from_slice(&self.at_ns.to_le_bytes());
        out[40..48].copy_from_slice(&self.request.to_le_bytes());
        let crc = crc32c::crc32c(&out[..48]);
        out[48..].copy_from_slice(&crc.to_le_bytes());
        out
    }

    /// Parses a frame head; `None` unless the magic and the checksum are right.
    fn from_bytes(raw: &[u8; FRAME_HEADER_LEN]) -> Option<FrameHead> {
        if raw[..4] != FRAME_MAGIC || crc32c::crc32c(&raw[..48]) != u32_at(raw, 48) {
            return None;
        }
        Some(FrameHead {
            end: raw[4] == 2,
            number: u32_at(raw, 8),
            records: u32_at(raw, 12),
            nodes: u32_at(raw, 16),
            stored: u32_at(raw, 20),
            crc: u32_at(raw, 24),
            at_ns: u64_at(raw, 32),
            request: u64_at(raw, 40),
        })
    }
}

/// Writes a header and frames. After an error it writes nothing more.
pub(crate) struct FrameWriter<W> {
    out: W,
    written: u64,
    frames: u32,
    /// `None` if columns stay as they are.
    compressor: Option<zstd::bulk::Compressor<'static>>,
    stored: Vec<u8>,
}

/// The part of a frame's head that follows from its records.
pub(crate) struct FrameSums {
    pub(crate) records: u32,
    pub(crate) nodes: u32,
    pub(crate) at_ns: Nanos,
    pub(crate) request: u64,
}

impl<W: Write> FrameWriter<W> {
    pub(crate) fn new(mut out: W, header: &Header) -> Result<Self, TraceError> {
        let bytes = header.to_bytes();
        out.write_all(&bytes)?;
        let compressor = Some(zstd::bulk::Compressor::new(LEVEL)?);
        let written = bytes.len() as u64;
        Ok(FrameWriter { out, written, frames: 0, compressor, stored: Vec::new() })
    }

    /// The same, that compresses nothing.
    pub(crate) fn plain(self) -> Self {
        FrameWriter { compressor: None, ..self }
    }

    /// Bytes written so far.
    pub(crate) fn written(&self) -> u64 {
        self.written
    }

    /// Writes a frame of these columns.
    pub(crate) fn frame(
        &mut self,
        sums: &FrameSums,
        columns: &[Vec<u8>; COUNT],
    ) -> Result<(), TraceError> {
        self.stored.clear();
        self.stored.resize(DIRECTORY_LEN, 0);
        for (i, column) in columns.iter().enumerate() {
            let start = self.stored.len();
            self.store(column)?;
            let stored = (self.stored.len() - start) as u32;
            let at = i * 8;
            self.stored[at..at + 4].copy_from_slice(&(column.len() as u32).to_le_bytes());
            self.stored[at + 4..at + 8].copy_from_slice(&stored.to_le_bytes());
        }
        self.emit(false, sums)
    }

    /// Appends a column to the frame: compressed if that makes it shorter.
    fn store(&mut self, column: &[u8]) -> Result<(), TraceError> {
        // Below this length a zstd frame would be longer than the column.
        const WORTH: usize = 32;
        if let Some(compressor) = &mut self.compressor
            && column.len() >= WORTH
        {
            let start = self.stored.len();
            self.stored.resize(start + zstd::zstd_safe::compress_bound(column.len()), 0);
            let n = compressor.compress_to_buffer(column, &mut self.stored[start..])?;
            self.stored.truncate(start + n);
            if n < column.len() {
                return Ok(());
            }
            self.stored.truncate(start);
        }
        self.stored.extend_from_slice(column);
        Ok(())
    }

    fn emit(&mut self, end: bool, sums: &FrameSums) -> Result<(), TraceError> {
        let head = FrameHead {
            end,
            number: self.frames,
            records: sums.records,
            nodes: sums.nodes,
            stored: self.stored.len() as u32,
            crc: crc32c::crc32c(&self.stored),
            at_ns: sums.at_ns,
            request: sums.request,
        };
        // The counters change only after the whole frame: `broken` then closes the trace behind the last
        // whole one, whatever part of this frame the output has taken.
        self.out.write_all(&head.to_bytes())?;
        self.out.write_all(&self.stored)?;
        self.written += (FRAME_HEADER_LEN + self.stored.len()) as u64;
        self.frames += 1;
        Ok(())
    }

    /// Passes the written bytes on to the operating system.
    pub(crate) fn flush(&mut self) -> Result<(), TraceError> {
        Ok(self.out.flush()?)
    }

    /// The state after a frame that could not be written: the output, the time at which the last
    /// whole frame ended, and the number of requests up to there.
    pub(crate) fn broken(self, at_ns: Nanos, request: u64) -> (W, u64, Vec<u8>) {
        let FrameWriter { out, written, frames, compressor, .. } = self;
        let mut last =
            FrameWriter { out: Vec::new(), written: 0, frames, compressor, stored: Vec::new() };
        // Memory takes all that is written to it.
        let _ = last.emit(true, &FrameSums { records: 0, nodes: 0, at_ns, request });
        (out, written, last.out)
    }

    /// Closes the trace and returns the output.
    pub(crate) fn end(mut self, at_ns: Nanos, request: u64) -> Result<W, TraceError> {
        self.stored.clear();
        self.emit(true, &FrameSums { records: 0, nodes: 0, at_ns, request })?;
        self.out.flush()?;
        Ok(self.out)
    }
}

/// How a trace ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// The trace was closed, so it is complete.
    Closed,
    /// The trace was cut off: everything up to `offset` is there, the next frame is not.
    Cut {
        /// The end of the last whole frame, in bytes from the start of the file.
        offset: u64,
        /// Bytes after that, which are part of a frame and lost.
        lost_bytes: u64,
    },
}

impl fmt::Display for Ending {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Ending::Closed => f.write_str("the trace is complete"),
            Ending::Cut { offset, lost_bytes } => write!(
                f,
                "the trace was cut off: it is whole up to byte {offset}, \
                 {lost_bytes} bytes of an unfinished frame follow and are lost"
            ),
        }
    }
}

/// Reads a header and frames.
pub(crate) struct FrameReader<R> {
    input: R,
    header: Header,
    /// Offset of the next frame.
    offset: u64,
    /// Offset of the frame read last.
    frame_offset: u64,
    frames: u32,
    decompressor: zstd::bulk::Decompressor<'static>,
    stored: Vec<u8>,
    ending: Option<Ending>,
}

impl<R: Read> FrameReader<R> {
    pub(crate) fn new(mut input: R) -> Result<Self, TraceError> {
        let (header, offset) = Header::read(&mut input).map_err(TraceError::header)?;
        let decompressor = zstd::bulk::Decompressor::new()
            .map_err(|error| TraceError::header(Problem::Io(error)))?;
        Ok(FrameReader {
            input,
            header,
            offset,
            frame_offset: 0,
            frames: 0,
            decompressor,
            stored: Vec::new(),
            ending: None,
        })
    }

    pub(crate) fn header(&self) -> &Header {
        &self.header
    }

    /// How the trace ended, once [`next`](Self::next) has returned `None`.
    pub(crate) fn ending(&self) -> Option<Ending> {
        self.ending
    }

    /// An error in the last frame, in the record with index `record` if that is known.
    pub(crate) fn error(&self, record: Option<u32>, problem: Problem) -> TraceError {
        let frame = Some(self.frames.saturating_sub(1));
        let place = crate::Place::Byte { offset: self.frame_offset, frame, record };
        TraceError { place, problem }
    }

    /// Reads the next frame, with its bytes in stored form; `None` at the end.
    pub(crate) fn next(&mut self) -> Result<Option<FrameHead>, TraceError> {
        if self.ending.is_some() {
            return Ok(None);
        }
        self.frame_offset = self.offset;
        let here = |problem| TraceError::frame(self.frame_offset, self.frames, problem);
        let io = |error| here(Problem::Io(error));
        let mut raw = [0; FRAME_HEADER_LEN];
        let got = read_full(&mut self.input, &mut raw).map_err(io)?;
        if got < raw.len() {
            return Ok(self.cut(got as u64));
        }
        let Some(head) = FrameHead::from_bytes(&raw) else {
            return self.cut_or_damaged(&raw, "a frame's header");
        };
        if head.number != self.frames {
            let (expected, found) = (self.frames, head.number);
            return Err(here(Problem::Sequence { expected, found }));
        }
        if !matches!(raw[4], 1 | 2) {
            return Err(here(Problem::Field("the type of the frame")));
        }
        if head.stored as usize > MAX_STORED {
            return Err(here(Problem::Field("the length of the frame")));
        }
        self.stored.resize(head.stored as usize, 0);
        let got = read_full(&mut self.input, &mut self.stored).map_err(io)?;
        if got < self.stored.len() {
            return Ok(self.cut((raw.len() + got) as u64));
        }
        if crc32c::crc32c(&self.stored) != head.crc {
            let mut bytes = raw.to_vec();
            bytes.append(&mut self.stored);
            return self.cut_or_damaged(&bytes, "a frame");
        }
        self.offset += (raw.len() + self.stored.len()) as u64;
        self.frames += 1;
        if head.end {
            return self.close();
        }
        Ok(Some(head))
    }

    /// Checks that nothing follows the end frame.
    fn close(&mut self) -> Result<Option<FrameHead>, TraceError> {
        let got = read_full(&mut self.input, &mut [0]);
        match got.map_err(|error| self.error(None, Problem::Io(error)))? {
            0 => {
                self.ending = Some(Ending::Closed);
                Ok(None)
            }
            _ => Err(self.error(None, Problem::Field("bytes after the end of the trace"))),
        }
    }

    fn cut(&mut self, lost_bytes: u64) -> Option<FrameHead> {
        self.ending = Some(Ending::Cut { offset: self.offset, lost_bytes });
        None
    }

    /// The bytes `bad` do not match their checksum. If no frame follows them, they are the torn end
    /// of a trace that was cut off; otherwise the trace is damaged.
    fn cut_or_damaged(
        &mut self,
        bad: &[u8],
        what: &'static str,
    ) -> Result<Option<FrameHead>, TraceError> {
        let here = |problem| TraceError::frame(self.frame_offset, self.frames, problem);
        let mut window = bad[1..].to_vec();
        let mut total = bad.len() as u64;
        loop {
            let frames = window.windows(FRAME_HEADER_LEN).filter(|w| w[..4] == FRAME_MAGIC);
            let mut heads = frames.filter_map(|w| FrameHead::from_bytes(w.try_into().ok()?));
            if heads.next().is_some() {
                return Err(here(Problem::Checksum(what)));
            }
            let keep = window.len().min(FRAME_HEADER_LEN - 1);
            window.drain(..window.len() - keep);
            window.resize(keep + (64 << 10), 0);
            let got = read_full(&mut self.input, &mut window[keep..])
                .map_err(|error| here(Problem::Io(error)))?;
            window.truncate(keep + got);
            total += got as u64;
            if got == 0 {
                return Ok(self.cut(total));
            }
        }
    }

    /// Expands the columns of the last frame into `payload`, one after the other, and returns their
    /// lengths.
    pub(crate) fn expand(&mut self, payload: &mut Vec<u8>) -> Result<[u32; COUNT], TraceError> {
        let bad = |problem| Err(self.error(None, problem));
        if self.stored.len() < DIRECTORY_LEN {
            return bad(Problem::Field("the length of the frame"));
        }
        let sizes: [(u32, u32); COUNT] =
            std::array::from_fn(|i| (u32_at(&self.stored, i * 8), u32_at(&self.stored, i * 8 + 4)));
        let raw: u64 = sizes.iter().map(|&(raw, _)| u64::from(raw)).sum();
        let stored: u64 = sizes.iter().map(|&(_, stored)| u64::from(stored)).sum();
        if raw > MAX_RAW as u64 || stored != (self.stored.len() - DIRECTORY_LEN) as u64 {
            return bad(Problem::Field("the lengths of the columns"));
        }
        payload.clear();
        payload.resize(raw as usize, 0);
        let (mut from, mut to) = (DIRECTORY_LEN, 0);
        for (raw, stored) in sizes {
            let source = &self.stored[from..from + stored as usize];
            let target = &mut payload[to..to + raw as usize];
            if raw == stored {
                target.copy_from_slice(source);
            } else {
                let got = self.decompressor.decompress_to_buffer(source, target);
                if got.ok() != Some(raw as usize) {
                    return Err(self.error(None, Problem::Compression));
                }
            }
            (from, to) = (from + stored as usize, to + raw as usize);
        }
        Ok(sizes.map(|(raw, _)| raw))
    }
}
