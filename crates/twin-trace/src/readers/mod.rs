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
mod tree;

use std::fmt;
use std::io::{BufRead, BufReader, Read};

use twin_settings::{Registry, SettingsError};

use crate::error::TraceError;
use crate::stream::Source;

pub(crate) use lines::Lines;

/// What is known of a foreign format: how an input is opened.
pub struct Format {
    open: fn(Input) -> Result<Box<dyn Source>, TraceError>,
}

/// All foreign formats.
pub static REGISTRY: Registry<Format> = Registry::new(
    "trace format",
    &[netbench::FORMAT, checkins::REWRITES, checkins::CHECKOUTS, blocks::FORMAT],
);

/// The input of a reader.
pub(crate) type Input = Box<dyn BufRead>;

/// Reads `input` as the format called `name`.
///
/// # Errors
/// If there is no such format, or the beginning of the input does not match it.
pub fn open(name: &str, input: impl Read + 'static) -> Result<Box<dyn Source>, OpenError> {
    let format = REGISTRY.get(name).map_err(OpenError::Name)?;
    let input = expanded(input).map_err(|error| OpenError::Trace(error.into()))?;
    (format.open)(input).map_err(OpenError::Trace)
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

/// The input, expanded if it is compressed with zstd or gzip.
pub(crate) fn expanded(input: impl Read + 'static) -> std::io::Result<Input> {
    const ZSTD: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];
    const GZIP: [u8; 3] = [0x1f, 0x8b, 8];
    let mut input = BufReader::with_capacity(64 << 10, input);
    let start = input.fill_buf()?;
    if start.starts_with(&ZSTD) {
        let decoder = zstd::stream::read::Decoder::with_buffer(input)?;
        return Ok(Box::new(BufReader::with_capacity(64 << 10, decoder)));
    }
    if start.starts_with(&GZIP) {
        let decoder = flate2::bufread::MultiGzDecoder::new(input);
        return Ok(Box::new(BufReader::with_capacity(64 << 10, decoder)));
    }
    Ok(Box::new(input))
}
