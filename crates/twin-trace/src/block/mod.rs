//! Block traces: which blocks of a device were read, written or given up, and when.
//!
//! A format is a file here and a line in [`REGISTRY`]. [`open`] reads one by its name,
//! [`open_any`] finds out which it is. All formats give [`BlockRequest`]s in bytes, streaming; a
//! line that makes no sense is an error with its number (of a binary format: the number of the
//! record). Input that is compressed with zstd or gzip is expanded on the way. The reader `blocks`
//! of [`crate::readers`] makes operations on files of a block trace.

mod alibaba;
mod blkparse;
mod blkreplay;
mod cloudphysics;
mod disksim;
mod fields;
mod fio;
mod hplajw;
mod msr;
mod oracle_general;
mod rocksdb;
mod spc;
mod tencent;

use std::io::{Cursor, Read};

use twin_rt::Nanos;

use crate::error::TraceError;
use crate::readers::{Input, OpenError, expanded, unknown_format};

/// What is done to blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BlockOp {
    /// They are read.
    Read,
    /// They are written.
    Write,
    /// What they hold is not needed any more: discard, trim.
    Trim,
}

/// A request to a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockRequest {
    /// When it was issued, in nanoseconds from the trace's own zero.
    pub at_ns: Nanos,
    /// The device, as the trace numbers them.
    pub device: u32,
    /// What is done.
    pub op: BlockOp,
    /// The first byte on the device.
    pub offset_bytes: u64,
    /// How many bytes.
    pub bytes: u64,
}

/// A block trace that is read.
pub trait BlockSource {
    /// The next request; none at the end.
    ///
    /// # Errors
    /// If a line makes no sense, or cannot be read.
    fn next_request(&mut self) -> Result<Option<BlockRequest>, TraceError>;
}

/// A format of block traces.
pub struct Spec {
    /// Its name.
    pub name: &'static str,
    /// What it is and where it comes from, in a line.
    pub about: &'static str,
    /// True if the input, of which the beginning is given, may be of this format.
    is_like: fn(&[u8]) -> bool,
    open: fn(Input) -> Result<Box<dyn BlockSource>, TraceError>,
}

impl std::fmt::Debug for Spec {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name)
    }
}

/// All formats of block traces, those first that are told by their first line.
pub const REGISTRY: &[Spec] = &[
    fio::SPEC,
    hplajw::SPEC,
    cloudphysics::SPEC,
    rocksdb::SPEC,
    blkreplay::SPEC,
    blkparse::SPEC,
    msr::SPEC,
    alibaba::SPEC,
    spc::SPEC,
    tencent::SPEC,
    disksim::SPEC,
    oracle_general::SPEC,
];

/// Bytes by which a format is told.
const PEEK_BYTES: usize = 16 << 10;
/// No request is larger: one that is, is a slip.
pub(super) const REQUEST_MAX_BYTES: u64 = 1 << 40;

/// Reads `input` as the format called `name`.
///
/// # Errors
/// If there is no such format, or the beginning of the input is not of it.
pub fn open(name: &str, input: impl Read + 'static) -> Result<Box<dyn BlockSource>, OpenError> {
    let known = || REGISTRY.iter().map(|spec| spec.name).collect::<Vec<_>>();
    let spec = REGISTRY.iter().find(|spec| spec.name == name);
    let spec = spec.ok_or_else(|| unknown_format(name, &known()))?;
    let input = expanded(input).map_err(|error| OpenError::Trace(error.into()))?;
    (spec.open)(input).map_err(OpenError::Trace)
}

/// Reads `input` in the format that it looks like.
///
/// # Errors
/// If it looks like none.
pub fn open_any(
    input: impl Read + 'static,
) -> Result<(&'static Spec, Box<dyn BlockSource>), OpenError> {
    let io = |error: std::io::Error| OpenError::Trace(error.into());
    let mut input = expanded(input).map_err(io)?;
    let mut start = Vec::new();
    (&mut input).take(PEEK_BYTES as u64).read_to_end(&mut start).map_err(io)?;
    let Some(spec) = REGISTRY.iter().find(|spec| (spec.is_like)(&start)) else {
        let known = REGISTRY.iter().map(|spec| spec.name).collect::<Vec<_>>().join(", ");
        let why = format!("this looks like no block trace that is known; name one of: {known}");
        return Err(OpenError::Trace(TraceError::line(1, why)));
    };
    let input: Input = Box::new(Cursor::new(start).chain(input));
    Ok((spec, (spec.open)(input).map_err(OpenError::Trace)?))
}

/// The first lines of a text that is complete as far as it is shown.
fn lines(start: &[u8]) -> impl Iterator<Item = &str> {
    let whole = start.iter().rposition(|&byte| byte == b'\n').map_or(start.len(), |at| at + 1);
    let text = std::str::from_utf8(&start[..whole]).unwrap_or_default();
    text.lines().filter(|line| !line.trim().is_empty())
}

#[cfg(test)]
mod tests;

/// A text format whose lines each hold a request or nothing of interest.
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

/// Reads a first line that names the columns.
fn header(input: Input, columns: &str) -> Result<crate::readers::Lines<Input>, TraceError> {
    let mut lines = crate::readers::Lines::new(input);
    if !lines.advance()? || lines.text()? != columns {
        return Err(lines.error(format!("the columns should be {columns}")));
    }
    Ok(lines)
}
