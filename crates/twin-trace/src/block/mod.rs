//! Block traces: which blocks of a device were read, written or trimmed, and when.
//!
//! A format is a file here and a line in [`REGISTRY`]. [`open`] reads a format by name,
//! [`open_any`] detects the format. All formats are streams of [`BlockRequest`]s in bytes; a line
//! that cannot be parsed is an error with its number (in a binary format: the number of the
//! record). Input that is compressed with zstd or gzip is expanded. The reader `blocks` of
//! [`crate::readers`] turns a block trace into operations on files.

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

use std::io::{Cursor, Read};

use twin_rt::Nanos;
use twin_settings::{Registry, RegistryEntry};

use crate::error::TraceError;
use crate::readers::{Input, OpenError, expanded};
use crate::reading::Reading;

/// The kind of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BlockOp {
    /// The blocks are read.
    Read,
    /// The blocks are written.
    Write,
    /// Their content is not needed any more: discard, trim.
    Trim,
}

/// A request to a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockRequest {
    /// When it was issued, in nanoseconds since the zero of the trace.
    pub at_ns: Nanos,
    /// The device, in the numbering of the trace.
    pub device: u32,
    /// The kind of the request.
    pub op: BlockOp,
    /// The first byte on the device.
    pub offset_bytes: u64,
    /// The number of bytes.
    pub bytes: u64,
}

/// A stream of the requests of a block trace.
pub trait BlockSource {
    /// The next request; `None` at the end.
    ///
    /// # Errors
    /// If a line cannot be parsed or read.
    fn next_request(&mut self) -> Result<Option<BlockRequest>, TraceError>;

    /// What has been made of the input so far; complete at its end.
    fn reading(&self) -> Reading {
        Reading::default()
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
    /// Its size, as this request has it.
    pub bytes: u64,
}

/// What is known of a format of block traces.
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
pub fn open(name: &str, input: impl Read + 'static) -> Result<Box<dyn BlockSource>, OpenError> {
    let format = REGISTRY.get(name).map_err(OpenError::Name)?;
    let input = expanded(input).map_err(|error| OpenError::Trace(error.into()))?;
    (format.open)(input).map_err(OpenError::Trace)
}

/// Reads `input` in the format that its beginning matches.
///
/// # Errors
/// If it matches no format.
pub fn open_any(
    input: impl Read + 'static,
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
    let text = std::str::from_utf8(&start[..whole]).unwrap_or_default();
    text.lines().filter(|line| !line.trim().is_empty())
}

#[cfg(test)]
mod tests;

/// A text format with one request, or nothing of interest, in each line.
struct PerLine<P> {
    lines: crate::readers::Lines<Input>,
    parse: P,
}

impl<P> PerLine<P>
where
    P: FnMut(&str) -> Result<Option<BlockRequest>, String> + 'static,
{
    fn start(input: Input, parse: P) -> Box<dyn BlockSource> {
        Box::new(PerLine { lines: crate::readers::Lines::new(input), parse })
    }
}

impl<P> BlockSource for PerLine<P>
where
    P: FnMut(&str) -> Result<Option<BlockRequest>, String>,
{
    fn next_request(&mut self) -> Result<Option<BlockRequest>, TraceError> {
        while self.lines.advance()? {
            let text = self.lines.text()?;
            if text.trim().is_empty() {
                continue;
            }
            match (self.parse)(text) {
                Ok(Some(request)) if request.bytes > REQUEST_MAX_BYTES => {
                    return Err(self.lines.error("the request is larger than a TiB"));
                }
                Ok(Some(request)) if request.offset_bytes > u64::MAX / 4 => {
                    return Err(self.lines.error("the place is beyond 2^62 bytes"));
                }
                Ok(Some(request)) => return Ok(Some(request)),
                Ok(None) => {}
                Err(why) => return Err(self.lines.error(why)),
            }
        }
        Ok(None)
    }
}

/// Reads the first line, which names the columns.
fn header(input: Input, columns: &str) -> Result<crate::readers::Lines<Input>, TraceError> {
    let mut lines = crate::readers::Lines::new(input);
    if !lines.advance()? || lines.text()? != columns {
        return Err(lines.error(format!("the columns should be {columns}")));
    }
    Ok(lines)
}
