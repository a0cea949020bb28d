//! Files compressed with xz.
//!
//! Contract: one or more streams behind each other, with padding between them, are read as one. What is cut
//! off, or does not match its checksum, is an error. No stream has more than [`DICTIONARY_MOST`] of memory;
//! `xz -9` needs 64 MiB.

use std::io::{self, BufRead, ErrorKind, Read};

use xz4rust::{XzDecoder, XzNextBlockResult};

/// The first bytes of a stream.
pub(super) const MAGIC: [u8; 6] = *b"\xfd7zXZ\0";
/// The largest dictionary, in bytes.
const DICTIONARY_MOST: usize = 128 << 20;
/// The dictionary with which a decoder begins.
const DICTIONARY: usize = 64 << 10;
/// How often a decoder may take and give nothing.
const IDLE_MOST: u32 = 4;

/// Reads what is compressed in `R`.
pub(super) struct Xz<R> {
    input: R,
    decoder: Box<XzDecoder<'static>>,
    /// A stream has ended, and none has begun since.
    between: bool,
}

impl<R: BufRead> Xz<R> {
    pub(super) fn new(input: R) -> Xz<R> {
        let decoder = XzDecoder::in_heap_with_alloc_dict_size(DICTIONARY, DICTIONARY_MOST);
        Xz { input, decoder, between: false }
    }

    /// Passes padding behind a stream. True if another stream begins.
    fn next_stream(&mut self) -> io::Result<bool> {
        loop {
            let bytes = self.input.fill_buf()?;
            if bytes.is_empty() {
                return Ok(false);
            }
            let padding = bytes.iter().take_while(|byte| **byte == 0).count();
            if padding == 0 {
                self.decoder.reset();
                self.between = false;
                return Ok(true);
            }
            self.input.consume(padding);
        }
    }
}

impl<R: BufRead> Read for Xz<R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let mut idle = 0;
        while !out.is_empty() {
            if self.between && !self.next_stream()? {
                return Ok(0);
            }
            let bytes = self.input.fill_buf()?;
            if bytes.is_empty() {
                return Err(io::Error::new(ErrorKind::UnexpectedEof, "the xz stream is cut off"));
            }
            let (taken, given) = match self.decoder.decode(bytes, out) {
                Ok(XzNextBlockResult::NeedMoreData(taken, given)) => (taken, given),
                Ok(XzNextBlockResult::EndOfStream(taken, given)) => {
                    self.between = true;
                    (taken, given)
                }
                Err(error) => return Err(io::Error::new(ErrorKind::InvalidData, error)),
            };
            self.input.consume(taken);
            if given > 0 {
                return Ok(given);
            }
            idle = if taken > 0 || self.between { 0 } else { idle + 1 };
            if idle > IDLE_MOST {
                let why = "the xz stream does not go on";
                return Err(io::Error::new(ErrorKind::InvalidData, why));
            }
        }
        Ok(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `printf 'one two three one two three one two three\n' | xz`.
    const SMALL: &[u8] = include_bytes!("../../tests/data/small.xz");
    const TEXT: &str = "one two three one two three one two three\n";

    fn expanded(bytes: &[u8]) -> io::Result<String> {
        let mut text = Vec::new();
        // Small pieces, as a slow pipe has them.
        Xz::new(io::BufReader::with_capacity(7, bytes)).read_to_end(&mut text)?;
        Ok(String::from_utf8_lossy(&text).into_owned())
    }

    #[test]
    fn streams_behind_each_other_are_one_and_padding_is_passed() {
        assert!(SMALL.starts_with(&MAGIC));
        assert_eq!(expanded(SMALL).unwrap(), TEXT);
        let two = [SMALL, &[0; 8], SMALL, &[0; 4]].concat();
        assert_eq!(expanded(&two).unwrap(), TEXT.repeat(2));
    }

    #[test]
    fn what_is_cut_off_or_damaged_is_an_error() {
        for len in 0..SMALL.len() {
            assert!(expanded(&SMALL[..len]).is_err(), "{len} bytes");
        }
        for bit in 0..SMALL.len() * 8 {
            let mut bytes = SMALL.to_vec();
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert!(expanded(&bytes).map_or(true, |text| text == TEXT), "bit {bit}");
        }
        assert!(expanded(&[SMALL, b"more"].concat()).is_err());
    }
}
