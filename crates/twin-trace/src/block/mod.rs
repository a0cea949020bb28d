//! Block traces: which blocks of a device were read, written or trimmed, and when.
//!
//! A format is a file here and a line in [`REGISTRY`]. [`open`] reads a format by name,
//! [`open_any`] detects the format. All formats are streams of [`BlockRequest`]s in bytes; a line
//! that cannot be parsed is an error with its number (in a binary format: the number of the
//! record). What is left out and assumed is counted ([`BlockSource::reading`]). Input that is compressed
//! is expanded. The reader `blocks` of [`crate::readers`] turns a block trace into operations on files.

mod alibaba;
mod blkparse;
mod blkreplay;
mod cloudphysics;
mod columns;
mod disksim;
mod fields;
mod fio;
mod hplajw;
mod msr;
mod oracle_general;
mod references;
mod rocksdb;
mod spc;
mod tencent;

use std::borrow::Cow;
use std::io::{Cursor, Read};

use twin_rt::Nanos;
use twin_settings::{Registry, RegistryEntry};

use crate::error::TraceError;
use crate::readers::{BYTE_ORDER_MARK, Input, Lines, OpenError, expanded};
use crate::reading::Reading;

/// The kind of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BlockOp {
    /// The blocks are read.
    Read,
    /// The blocks are written.
    Write,
    /// The content of the blocks is not needed any more: discard, trim, a reset of a zone.
    Trim,
    /// Everything that was written before becomes durable. The request has no bytes.
    Sync {
        /// The times of a file need not become durable.
        data_only: bool,
    },
}

/// A request to a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockRequest {
    /// When it was issued, in nanoseconds since the zero of the trace.
    pub at_ns: Nanos,
    /// The device, in the numbering of the trace.
    pub device: u64,
    /// The kind of the request.
    pub op: BlockOp,
    /// The first byte on the device.
    pub offset_bytes: u64,
    /// The number of bytes; never zero, except where nothing is transferred.
    pub bytes: u64,
}

impl BlockRequest {
    fn sync(at_ns: Nanos, device: u64, data_only: bool) -> BlockRequest {
        BlockRequest { at_ns, device, op: BlockOp::Sync { data_only }, offset_bytes: 0, bytes: 0 }
    }
}

/// A stream of the requests of a block trace.
pub trait BlockSource {
    /// The next request; `None` at the end.
    ///
    /// # Errors
    /// If a line cannot be parsed or read.
    fn next_request(&mut self) -> Result<Option<BlockRequest>, TraceError>;

    /// What has been made of the input so far; complete at its end.
    fn reading(&self) -> Reading;

    /// True if the times of requests mean something.
    fn is_timed(&self) -> bool {
        true
    }

    /// The object that the latest request was for, in traces of whole objects.
    fn object(&self) -> Option<Object> {
        None
    }

    /// The bytes of a block, in formats that count in blocks or objects and do not say how large a block
    /// is.
    fn unit_bytes(&self) -> Option<u64> {
        None
    }
}

/// An object that is read or written whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Object {
    /// Objects are numbered in the order of their first access.
    pub number: u64,
    /// The size of the object in this request.
    pub bytes: u64,
}

/// A format of block traces in the registry.
pub struct Format {
    /// Whether input with this beginning may be of this format.
    is_like: fn(&[u8]) -> bool,
    open: fn(Input) -> Result<Box<dyn BlockSource>, TraceError>,
}

/// All formats of block traces; formats that their first line identifies come first.
pub static REGISTRY: Registry<Format> = Registry::new(
    "format of block traces",
    &[
        fio::FORMAT,
        hplajw::FORMAT,
        cloudphysics::FORMAT,
        rocksdb::FORMAT,
        blkreplay::FORMAT,
        blkparse::FORMAT,
        msr::FORMAT,
        alibaba::FORMAT,
        spc::FORMAT,
        tencent::FORMAT,
        disksim::FORMAT,
        references::ARC,
        references::REFERENCES,
        columns::FORMAT,
        oracle_general::FORMAT,
    ],
);

/// Number of bytes by which a format is detected.
const PEEK_BYTES: usize = 16 << 10;
/// The largest request; a larger one is an error in the trace.
pub(super) const REQUEST_MAX_BYTES: u64 = 1 << 40;

/// Reads `input` as the format called `name`.
///
/// # Errors
/// If there is no such format, or the beginning of the input does not match it.
pub fn open(
    name: &str,
    input: impl Read + Send + 'static,
) -> Result<Box<dyn BlockSource>, OpenError> {
    let format = REGISTRY.get(name).map_err(OpenError::Name)?;
    let input = expanded(input).map_err(|error| OpenError::Trace(error.into()))?;
    (format.open)(input).map_err(OpenError::Trace)
}

/// Reads `input` in the format that its beginning matches.
pub fn open_any(
    input: impl Read + Send + 'static,
) -> Result<(&'static RegistryEntry<Format>, Box<dyn BlockSource>), OpenError> {
    let io = |error: std::io::Error| OpenError::Trace(error.into());
    let mut input = expanded(input).map_err(io)?;
    let mut start = Vec::new();
    (&mut input).take(PEEK_BYTES as u64).read_to_end(&mut start).map_err(io)?;
    let Some(format) = REGISTRY.iter().find(|format| (format.is_like)(&start)) else {
        let known = REGISTRY.names().collect::<Vec<_>>().join(", ");
        let why = format!("this looks like no block trace that is known; name one of: {known}");
        return Err(OpenError::Trace(TraceError::line(1, why)));
    };
    let input: Input = Box::new(Cursor::new(start).chain(input));
    Ok((format, (format.open)(input).map_err(OpenError::Trace)?))
}

/// The complete lines at the beginning of a text.
fn lines(start: &[u8]) -> impl Iterator<Item = &str> {
    let whole = start.iter().rposition(|&byte| byte == b'\n').map_or(start.len(), |at| at + 1);
    let text = start[..whole].strip_prefix(BYTE_ORDER_MARK).unwrap_or(&start[..whole]);
    let lines = text.split(|byte| *byte == b'\n').map(|line| std::str::from_utf8(line));
    let lines = lines.map(|line| line.unwrap_or_default().trim_end_matches('\r'));
    lines.filter(|line| !line.trim().is_empty())
}

#[cfg(test)]
mod tests;

/// The meaning of a line of a text format.
enum Parsed {
    /// A request to the traced device.
    Request(BlockRequest),
    /// A request whose blocks are durable when it is answered.
    Durable(BlockRequest),
    /// Nothing, by the format's own rules.
    Passed,
    /// Something that has no counterpart, with the reason.
    LeftOut(Cow<'static, str>),
}

impl Parsed {
    fn left_out(why: impl Into<Cow<'static, str>>) -> Result<Parsed, String> {
        Ok(Parsed::LeftOut(why.into()))
    }
}

/// Why a request that transfers nothing is left out.
const NO_BYTES: &str = "of 0 bytes, which transfer nothing";

/// A text format with one request, or nothing of interest, in each line.
struct PerLine<P> {
    lines: Lines<Input>,
    parse: P,
    reading: Reading,
    is_timed: bool,
    /// The request after the latest one.
    then: Option<BlockRequest>,
}

impl<P> PerLine<P>
where
    P: FnMut(&str, &mut Reading) -> Result<Parsed, String> + 'static,
{
    fn start(input: Input, parse: P) -> Box<dyn BlockSource> {
        Box::new(PerLine::after(Lines::new(input), parse))
    }

    /// Reads from the line after the current one on.
    fn after(lines: Lines<Input>, parse: P) -> PerLine<P> {
        PerLine { lines, parse, reading: Reading::default(), is_timed: true, then: None }
    }

    /// The request of the current line.
    fn line(&mut self) -> Result<Option<BlockRequest>, TraceError> {
        let text = self.lines.lossy();
        if text.trim().is_empty() {
            return Ok(None);
        }
        let parsed = match (self.parse)(&text, &mut self.reading) {
            Ok(parsed) => parsed,
            Err(why) => return Err(self.lines.error(why)),
        };
        let request = match parsed {
            Parsed::Request(request) => request,
            Parsed::Durable(request) => {
                self.then = Some(BlockRequest::sync(request.at_ns, request.device, false));
                request
            }
            Parsed::Passed => {
                self.reading.pass_one();
                return Ok(None);
            }
            Parsed::LeftOut(why) => {
                self.reading.leave_out(self.lines.number(), &why);
                return Ok(None);
            }
        };
        checked(request).map_err(|why| self.lines.error(why))?;
        if request.bytes == 0 && !matches!(request.op, BlockOp::Sync { .. }) {
            // The flush of a write without blocks remains.
            return Ok(match self.then.take() {
                Some(flush) => {
                    self.reading.use_one();
                    Some(flush)
                }
                None => {
                    self.reading.leave_out(self.lines.number(), NO_BYTES);
                    None
                }
            });
        }
        self.reading.use_one();
        Ok(Some(request))
    }
}

impl<P> BlockSource for PerLine<P>
where
    P: FnMut(&str, &mut Reading) -> Result<Parsed, String> + 'static,
{
    fn next_request(&mut self) -> Result<Option<BlockRequest>, TraceError> {
        if let Some(request) = self.then.take() {
            return Ok(Some(request));
        }
        while self.lines.advance()? {
            if let Some(request) = self.line()? {
                return Ok(Some(request));
            }
        }
        Ok(None)
    }

    fn reading(&self) -> Reading {
        self.reading.clone()
    }

    fn is_timed(&self) -> bool {
        self.is_timed
    }
}

/// Checks that a request is possible.
fn checked(request: BlockRequest) -> Result<BlockRequest, &'static str> {
    match request {
        _ if request.bytes > REQUEST_MAX_BYTES => Err("the request is larger than a TiB"),
        _ if request.offset_bytes > u64::MAX / 4 => Err("the place is beyond 2^62 bytes"),
        _ => Ok(request),
    }
}

/// Reads the first line, which names the columns.
fn header(input: Input, columns: &str) -> Result<Lines<Input>, TraceError> {
    let mut lines = Lines::new(input);
    if !lines.advance()? || lines.text()? != columns {
        return Err(lines.error(format!("the columns should be {columns}")));
    }
    Ok(lines)
}
