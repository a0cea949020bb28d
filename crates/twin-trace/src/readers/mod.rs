//! Readers of foreign traces. Each is a file here and a line in [`REGISTRY`], and gives records
//! as a trace of our own does, streaming.
//!
//! What such a trace does not say is made up and said in the reader's file. A line that makes no
//! sense is an error with its number. Input that is compressed with zstd or gzip is expanded on the way.

mod blocks;
mod checkins;
mod lines;
mod netbench;
mod tree;

use std::fmt;
use std::io::{BufRead, BufReader, Read};

use crate::error::TraceError;
use crate::settings::SettingsError;
use crate::stream::Source;

pub(crate) use lines::Lines;

/// A foreign format.
pub struct Spec {
    /// Its name.
    pub name: &'static str,
    /// What it is and where it comes from, in a line.
    pub about: &'static str,
    /// Starts to read.
    open: fn(Input) -> Result<Box<dyn Source>, TraceError>,
}

/// All foreign formats.
pub const REGISTRY: &[Spec] =
    &[netbench::SPEC, checkins::REWRITES, checkins::CHECKOUTS, blocks::SPEC];

/// What readers read from.
pub(crate) type Input = Box<dyn BufRead>;

/// Reads `input` as the format called `name`.
///
/// # Errors
/// If there is no such format, or the beginning of the input is not of it.
pub fn open(name: &str, input: impl Read + 'static) -> Result<Box<dyn Source>, OpenError> {
    let known = || REGISTRY.iter().map(|spec| spec.name).collect::<Vec<_>>();
    let spec = REGISTRY.iter().find(|spec| spec.name == name);
    let spec = spec.ok_or_else(|| unknown_format(name, &known()))?;
    let input = expanded(input).map_err(|error| OpenError::Trace(error.into()))?;
    (spec.open)(input).map_err(OpenError::Trace)
}

/// There is no such format, but these.
pub(crate) fn unknown_format(name: &str, known: &[&str]) -> OpenError {
    let known = known.join(", ");
    let why = format!("no trace format is called {name:?}; there are {known}");
    OpenError::Name(SettingsError::new(why))
}

/// Why a foreign trace cannot be read at all.
#[derive(Debug)]
pub enum OpenError {
    /// There is no format of this name.
    Name(SettingsError),
    /// It is not of the format.
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

impl fmt::Debug for Spec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}
