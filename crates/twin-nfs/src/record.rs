//! Record marking (RFC 5531, section 11): how messages are told apart on a TCP connection.
//!
//! Contract: a record consists of fragments, each with its length before it. [`Records`] takes the
//! bytes of a connection in pieces of any size and gives whole records. It holds no more memory
//! than the bytes that have arrived, whatever lengths they announce, and gives up on a connection
//! whose records are longer than [`RECORD_MAX`].

use twin_disk::{Buf, Bytes};

/// The most bytes of data that one READ or WRITE moves.
pub const TRANSFER_MAX: u32 = 1 << 20;
/// The longest record: a WRITE of the most data, with room for the rest of the call.
pub const RECORD_MAX: usize = TRANSFER_MAX as usize + 4096;
/// The most fragments of a record. Clients send one, or a few.
pub(crate) const FRAGMENTS_MAX: u32 = 1024;
/// The mark of a record's last fragment.
pub(crate) const LAST: u32 = 1 << 31;

/// The bytes of a connection cannot be divided into records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooLong;

/// Divides the bytes of a connection into records.
#[derive(Debug, Default)]
pub struct Records {
    /// The bytes of the record so far, without marks.
    partial: Vec<u8>,
    /// The bytes of a mark that is not whole yet.
    mark: [u8; 4],
    mark_len: usize,
    /// The bytes of the current fragment that have not arrived.
    missing: usize,
    is_last: bool,
    fragments: u32,
}

impl Records {
    /// The bytes of an unfinished record that are held; 0 between records.
    pub fn pending(&self) -> usize {
        let begun = self.mark_len > 0 || self.missing > 0 || self.fragments > 0;
        self.partial.len() + usize::from(begun)
    }

    /// Takes bytes, and calls `each` with every record that they complete.
    ///
    /// # Errors
    /// If a record is too long: the connection must be closed.
    pub fn feed(&mut self, mut bytes: &[u8], mut each: impl FnMut(Bytes)) -> Result<(), TooLong> {
        while !bytes.is_empty() {
            if self.missing == 0 {
                let take = bytes.len().min(4 - self.mark_len);
                self.mark[self.mark_len..self.mark_len + take].copy_from_slice(&bytes[..take]);
                self.mark_len += take;
                bytes = &bytes[take..];
                if self.mark_len < 4 {
                    return Ok(());
                }
                self.begin_fragment()?;
            }
            let take = bytes.len().min(self.missing);
            self.missing -= take;
            let whole = self.missing == 0 && self.is_last;
            if whole && self.partial.is_empty() {
                each(Bytes::copy_of(&bytes[..take]));
            } else {
                self.partial.extend_from_slice(&bytes[..take]);
                if whole {
                    // Large buffers are not kept: there may be a thousand connections.
                    each(Buf::taking(std::mem::take(&mut self.partial)).freeze());
                }
            }
            if whole {
                self.fragments = 0;
            }
            bytes = &bytes[take..];
        }
        Ok(())
    }

    fn begin_fragment(&mut self) -> Result<(), TooLong> {
        let mark = u32::from_be_bytes(self.mark);
        self.mark_len = 0;
        self.is_last = mark & LAST != 0;
        self.missing = (mark & !LAST) as usize;
        self.fragments += 1;
        let too_long = self.partial.len() + self.missing > RECORD_MAX;
        if too_long || self.fragments > FRAGMENTS_MAX { Err(TooLong) } else { Ok(()) }
    }
}

/// The mark of a record that is sent as one fragment.
pub(crate) fn mark(len: usize) -> [u8; 4] {
    (len as u32 | LAST).to_be_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(records: &mut Records, bytes: &[u8], piece: usize) -> Result<Vec<Vec<u8>>, TooLong> {
        let mut got = Vec::new();
        for piece in bytes.chunks(piece) {
            records.feed(piece, |record| got.push(record.to_vec()))?;
        }
        Ok(got)
    }

    #[test]
    fn records_are_found_wherever_the_bytes_are_cut() {
        let mut bytes = Vec::new();
        for text in [&b"one"[..], b"", b"three and more"] {
            bytes.extend_from_slice(&mark(text.len()));
            bytes.extend_from_slice(text);
        }
        // A record of two fragments, the second of which is empty.
        bytes.extend_from_slice(&4u32.to_be_bytes());
        bytes.extend_from_slice(b"frag");
        bytes.extend_from_slice(&mark(0));
        bytes.extend_from_slice(&mark(1));
        bytes.extend_from_slice(b"z");
        let expected = [&b"one"[..], b"", b"three and more", b"frag", b"z"];
        for piece in 1..bytes.len() + 1 {
            let mut records = Records::default();
            assert_eq!(all(&mut records, &bytes, piece).unwrap(), expected, "{piece}");
            assert_eq!(records.pending(), 0);
        }
    }

    #[test]
    fn a_length_costs_nothing_before_its_bytes_arrive() {
        let mut records = Records::default();
        assert_eq!(all(&mut records, &mark(RECORD_MAX), 4), Ok(vec![]));
        assert!(records.partial.capacity() < 1024);
        assert_eq!(records.pending(), 1);
        for len in [RECORD_MAX + 1, 0x7fff_ffff] {
            assert_eq!(all(&mut Records::default(), &mark(len), 4), Err(TooLong));
        }
    }

    #[test]
    fn empty_fragments_without_end_are_refused() {
        let bytes = [0u8; 4 * 2000];
        assert_eq!(all(&mut Records::default(), &bytes, 64), Err(TooLong));
    }
}
