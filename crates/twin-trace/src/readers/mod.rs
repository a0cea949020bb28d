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
mod operations;
mod strace;
mod tree;
mod xz;

pub use checkins::CHECKOUTS;

use std::fmt;
use std::io::{self, BufRead, BufReader, Read};
use std::rc::Rc;
use std::sync::Arc;

use twin_settings::{Registry, RegistryEntry, SettingsError};

use crate::error::TraceError;
use crate::stream::Source;

pub(crate) use lines::{BYTE_ORDER_MARK, Lines};

/// A foreign format in the registry.
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
    /// The input is read more than once, because its beginning depends on its end.
    Again(fn(Again) -> Result<Box<dyn Source>, TraceError>),
}

/// An input that can be read from its beginning more than once.
#[derive(Clone)]
pub struct Again(Rc<dyn Fn() -> io::Result<Box<dyn Read + Send>>>);

impl Again {
    /// An input that `open` opens, each time at its beginning.
    pub fn new<R: Read + Send + 'static>(open: impl Fn() -> io::Result<R> + 'static) -> Again {
        Again(Rc::new(move || Ok(Box::new(open()?))))
    }

    /// The beginning of the input, expanded if it is compressed.
    fn open(&self) -> io::Result<Input> {
        expanded((self.0)()?)
    }
}

/// All formats of other programs that are read, by name.
pub static REGISTRY: Registry<Format> = Registry::new(
    "trace format",
    &[
        netbench::FORMAT,
        strace::FORMAT,
        operations::FORMAT,
        checkins::REWRITES,
        checkins::CHECKOUTS,
        blocks::FORMAT,
    ],
);

/// The name of the reader that makes operations on files of a block trace.
pub fn of_blocks() -> &'static str {
    blocks::FORMAT.name
}

/// The input of a reader.
pub(crate) type Input = Box<dyn BufRead + Send>;

/// Reads `input` as the format called `name`. What a reader has to read more than once is kept, compressed:
/// [`open_again`] takes no memory for that.
///
/// # Errors
/// If there is no such format, or the beginning of the input does not match it.
pub fn open(name: &str, input: impl Read + Send + 'static) -> Result<Box<dyn Source>, OpenError> {
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
    let bytes: Arc<[u8]> = encoder.finish()?.into();
    Ok(Again::new(move || Ok(io::Cursor::new(Arc::clone(&bytes)))))
}

/// Number of bytes by which a format is detected.
const PEEK_BYTES: u64 = 4 << 10;

/// The name of the format that the beginning of an input matches, compressed or not.
pub fn looks_like(input: impl Read + Send + 'static) -> std::io::Result<Option<&'static str>> {
    let mut start = Vec::new();
    // Damaged input looks like no format.
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

/// The first bytes of files that zstd, gzip and bzip2 have compressed.
const ZSTD: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];
const GZIP: [u8; 3] = [0x1f, 0x8b, 8];
const BZIP2: [u8; 3] = *b"BZh";

/// True for a beginning of zstd: a frame, or one that is skipped (RFC 8878, section 3.1.2), with which
/// pzstd begins.
fn is_zstd(start: &[u8]) -> bool {
    let is_skippable =
        |start: &[u8; 4]| start[0] & 0xf0 == 0x50 && start[1..] == [0x2a, 0x4d, 0x18];
    start.first_chunk().is_some_and(|start| *start == ZSTD || is_skippable(start))
}

/// True for a beginning of bzip2. A text may begin with the same letters; the digit is the size of blocks.
fn is_bzip2(start: &[u8]) -> bool {
    start.starts_with(&BZIP2) && matches!(start.get(3), Some(b'1'..=b'9'))
}

/// True if a file that begins so is compressed as [`expanded`] expands it.
pub fn is_compressed(start: &[u8]) -> bool {
    is_zstd(start) || is_bzip2(start) || start.starts_with(&GZIP) || start.starts_with(&xz::MAGIC)
}

/// The input, expanded if it is compressed with zstd, gzip, bzip2 or xz, in any number of frames, members
/// or streams. It is expanded as it is read, in pieces: how much it expands to costs time, not memory.
pub fn expanded(input: impl Read + Send + 'static) -> std::io::Result<Input> {
    let mut input = BufReader::with_capacity(64 << 10, input);
    let start = input.fill_buf()?;
    if is_zstd(start) {
        let decoder = zstd::stream::read::Decoder::with_buffer(input)?;
        return Ok(Box::new(BufReader::with_capacity(64 << 10, decoder)));
    }
    if start.starts_with(&xz::MAGIC) {
        return Ok(Box::new(BufReader::with_capacity(64 << 10, xz::Xz::new(input))));
    }
    if is_bzip2(start) {
        let decoder = bzip2::bufread::MultiBzDecoder::new(input);
        return Ok(Box::new(BufReader::with_capacity(64 << 10, decoder)));
    }
    if start.starts_with(&GZIP) {
        let decoder = flate2::bufread::MultiGzDecoder::new(input);
        return Ok(Box::new(BufReader::with_capacity(64 << 10, decoder)));
    }
    Ok(Box::new(input))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "0,303567,3584,w,0.000000\n1,55590,3072,R,0.026214\n";
    /// `printf ... | bzip2`: the traces of UMass are published so.
    const BZ2: &[u8] = include_bytes!("../../tests/data/small.spc.bz2");

    fn text_of(bytes: Vec<u8>) -> std::io::Result<String> {
        assert!(is_compressed(&bytes));
        let mut text = String::new();
        expanded(std::io::Cursor::new(bytes))?.read_to_string(&mut text).map(|_| text)
    }

    fn gzip(text: &str) -> Vec<u8> {
        let mut bytes = Vec::new();
        let mut encoder =
            flate2::read::GzEncoder::new(text.as_bytes(), flate2::Compression::fast());
        encoder.read_to_end(&mut bytes).unwrap();
        bytes
    }

    #[test]
    fn what_comes_in_several_pieces_is_one_text() {
        let zstd = |text: &str| zstd::bulk::compress(text.as_bytes(), 1).unwrap();
        let skippable = [0x53, 0x2a, 0x4d, 0x18, 4, 0, 0, 0, 1, 2, 3, 4];
        for (name, bytes, times) in [
            ("bzip2", BZ2.to_vec(), 1),
            ("two streams of bzip2", [BZ2, BZ2].concat(), 2),
            ("two members of gzip", [gzip(TEXT), gzip(TEXT)].concat(), 2),
            ("two frames of zstd", [zstd(TEXT), zstd(TEXT)].concat(), 2),
            ("pzstd", [&skippable, &*zstd(TEXT), &skippable, &*zstd(TEXT)].concat(), 2),
        ] {
            assert_eq!(text_of(bytes).unwrap(), TEXT.repeat(times), "{name}");
        }
    }

    #[test]
    fn what_is_cut_off_is_an_error() {
        for bytes in [BZ2.to_vec(), gzip(TEXT), zstd::bulk::compress(TEXT.as_bytes(), 1).unwrap()] {
            let cut = bytes[..bytes.len() - 5].to_vec();
            assert!(text_of(cut).is_err(), "{:x?}", &bytes[..4]);
        }
    }

    #[test]
    fn a_text_that_begins_with_the_letters_of_bzip2_is_a_text() {
        assert!(!is_compressed(b"BZh,op,lbn\n"));
    }
}
