//! Readers of foreign traces. Each is a file here and a line in [`REGISTRY`], and produces the same
//! records as a trace of our own, as a stream.
//!
//! Where such a trace lacks information the reader makes it up, as its file describes. A line that
//! cannot be parsed is an error with its number. Input that is compressed with zstd or gzip is
//! expanded.

mod blocks;
mod checkins;
mod lines;
mod netbench;
mod strace;
mod tree;
mod xz;

pub use checkins::CHECKOUTS;

use std::fmt;
use std::io::{self, BufRead, BufReader, Read};
use std::rc::Rc;

use twin_settings::{Registry, RegistryEntry, SettingsError};

use crate::error::TraceError;
use crate::stream::Source;

pub(crate) use lines::{BYTE_ORDER_MARK, Lines};

/// What is known of a foreign format: how an input is opened.
pub struct Format {
    /// Whether input with this beginning is of this format; `None` if another one with the same
    /// beginning is the default.
    is_like: Option<fn(&[u8]) -> bool>,
    open: Opening,
}

/// How a reader reads its input.
#[derive(Clone, Copy)]
enum Opening {
    /// Once, from the beginning to the end.
    Once(fn(Input) -> Result<Box<dyn Source>, TraceError>),
    /// More than once: what comes first depends on what comes last.
    Again(fn(Again) -> Result<Box<dyn Source>, TraceError>),
}

/// An input that can be read from its beginning more than once.
#[derive(Clone)]
pub struct Again(Rc<dyn Fn() -> io::Result<Box<dyn Read>>>);

impl Again {
    /// An input that `open` opens, each time at its beginning.
    pub fn new<R: Read + 'static>(open: impl Fn() -> io::Result<R> + 'static) -> Again {
        Again(Rc::new(move || Ok(Box::new(open()?))))
    }

    /// Its beginning, expanded if it is compressed.
    fn open(&self) -> io::Result<Input> {
        expanded((self.0)()?)
    }
}

/// All foreign formats.
pub static REGISTRY: Registry<Format> = Registry::new(
    "trace format",
    &[netbench::FORMAT, strace::FORMAT, checkins::REWRITES, checkins::CHECKOUTS, blocks::FORMAT],
);

/// The name of the reader that makes operations on files of a block trace.
pub fn of_blocks() -> &'static str {
    blocks::FORMAT.name
}

/// The input of a reader.
pub(crate) type Input = Box<dyn BufRead>;

/// Reads `input` as the format called `name`. What a reader has to read more than once is kept, compressed:
/// [`open_again`] takes no memory for that.
///
/// # Errors
/// If there is no such format, or the beginning of the input does not match it.
pub fn open(name: &str, input: impl Read + 'static) -> Result<Box<dyn Source>, OpenError> {
    let format = REGISTRY.get(name).map_err(OpenError::Name)?;
    let input = expanded(input).map_err(|error| OpenError::Trace(error.into()))?;
    match format.open {
        Opening::Once(open) => open(input).map_err(OpenError::Trace),
        Opening::Again(open) => {
            let kept = kept(input).map_err(|error| OpenError::Trace(error.into()))?;
            open(kept).map_err(OpenError::Trace)
        }
    }
}

/// Reads an input that can be opened again as the format called `name`.
///
/// # Errors
/// As [`open`].
pub fn open_again(name: &str, input: Again) -> Result<Box<dyn Source>, OpenError> {
    let format = REGISTRY.get(name).map_err(OpenError::Name)?;
    match format.open {
        Opening::Once(open) => {
            let input = input.open().map_err(|error| OpenError::Trace(error.into()))?;
            open(input).map_err(OpenError::Trace)
        }
        Opening::Again(open) => open(input).map_err(OpenError::Trace),
    }
}

/// Keeps an input in memory. It is kept compressed, as texts shrink to a tenth or less.
fn kept(mut input: Input) -> io::Result<Again> {
    let mut encoder = zstd::stream::write::Encoder::new(Vec::new(), 1)?;
    io::copy(&mut input, &mut encoder)?;
    let bytes: Rc<[u8]> = encoder.finish()?.into();
    Ok(Again::new(move || Ok(io::Cursor::new(Rc::clone(&bytes)))))
}

/// Number of bytes by which a format is detected.
const PEEK_BYTES: u64 = 4 << 10;

/// The name of the format that the beginning of an input matches, compressed or not.
///
/// # Errors
/// If it cannot be read.
pub fn looks_like(input: impl Read + 'static) -> std::io::Result<Option<&'static str>> {
    let mut start = Vec::new();
    // What is damaged looks like nothing.
    let Ok(input) = expanded(input) else { return Ok(None) };
    if input.take(PEEK_BYTES).read_to_end(&mut start).is_err() {
        return Ok(None);
    }
    let is_like = |format: &&RegistryEntry<Format>| format.is_like.is_some_and(|is| is(&start));
    Ok(REGISTRY.iter().find(is_like).map(|format| format.name))
}

/// Why a foreign trace cannot be opened.
#[derive(Debug)]
pub enum OpenError {
    /// There is no format of this name.
    Name(SettingsError),
    /// The input does not match the format.
    Trace(TraceError),
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            OpenError::Name(error) => write!(f, "{error}"),
            OpenError::Trace(error) => write!(f, "{error}"),
        }
    }
}

impl std::error::Error for OpenError {}

/// What files compressed with zstd and gzip begin with.
const ZSTD: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];
const GZIP: [u8; 3] = [0x1f, 0x8b, 8];

/// True if a file that begins so is compressed as [`expanded`] expands it.
pub fn is_compressed(start: &[u8]) -> bool {
    [&ZSTD[..], &GZIP[..], &xz::MAGIC[..]].iter().any(|magic| start.starts_with(magic))
}

/// The input, expanded if it is compressed with zstd, gzip or xz.
///
/// # Errors
/// If it cannot be read.
pub fn expanded(input: impl Read + 'static) -> std::io::Result<Input> {
    let mut input = BufReader::with_capacity(64 << 10, input);
    let start = input.fill_buf()?;
    if start.starts_with(&ZSTD) {
        let decoder = zstd::stream::read::Decoder::with_buffer(input)?;
        return Ok(Box::new(BufReader::with_capacity(64 << 10, decoder)));
    }
    if start.starts_with(&xz::MAGIC) {
        return Ok(Box::new(BufReader::with_capacity(64 << 10, xz::Xz::new(input))));
    }
    if start.starts_with(&GZIP) {
        let decoder = flate2::bufread::MultiGzDecoder::new(input);
        return Ok(Box::new(BufReader::with_capacity(64 << 10, decoder)));
    }
    Ok(Box::new(input))
}
