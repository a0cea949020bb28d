//! XDR, the external data representation (RFC 4506): integers in big-endian order, everything
//! padded with zeros to four bytes.
//!
//! Contract: a [`Reader`] borrows from the packet, copies nothing and allocates nothing, so a
//! length in a packet can cost no more than the packet has bytes. It never panics.

/// A packet, or a part of it, is not what the protocol says it should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Garbage;

/// Reads values from a packet, one after the other.
#[derive(Clone, Debug)]
pub struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    /// A reader at the beginning of `bytes`.
    pub fn new(bytes: &'a [u8]) -> Reader<'a> {
        Reader { bytes, at: 0 }
    }

    /// The number of bytes that were read.
    pub fn position(&self) -> usize {
        self.at
    }

    /// The next `len` bytes; their padding is skipped.
    pub fn fixed(&mut self, len: usize) -> Result<&'a [u8], Garbage> {
        let padded = len.checked_next_multiple_of(4).ok_or(Garbage)?;
        let end = self.at.checked_add(padded).ok_or(Garbage)?;
        let bytes = self.bytes.get(self.at..end).ok_or(Garbage)?;
        self.at = end;
        Ok(&bytes[..len])
    }

    /// An unsigned integer.
    pub fn u32(&mut self) -> Result<u32, Garbage> {
        let bytes = self.fixed(4)?;
        bytes.try_into().map(u32::from_be_bytes).map_err(|_| Garbage)
    }

    /// An unsigned integer of eight bytes ("hyper").
    pub fn u64(&mut self) -> Result<u64, Garbage> {
        let bytes = self.fixed(8)?;
        bytes.try_into().map(u64::from_be_bytes).map_err(|_| Garbage)
    }

    /// A truth value, which also says whether an optional value follows.
    ///
    /// # Errors
    /// If the packet ends or the number is neither 0 nor 1.
    pub fn flag(&mut self) -> Result<bool, Garbage> {
        match self.u32()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(Garbage),
        }
    }

    /// Bytes with their length before them, of which there are at most `most`.
    ///
    /// # Errors
    /// If there are more, or the packet ends.
    pub fn opaque(&mut self, most: usize) -> Result<&'a [u8], Garbage> {
        let len = self.u32()? as usize;
        if len > most { Err(Garbage) } else { self.fixed(len) }
    }

    /// A value that a flag announces.
    pub fn optional<T>(
        &mut self,
        read: impl FnOnce(&mut Self) -> Result<T, Garbage>,
    ) -> Result<Option<T>, Garbage> {
        if self.flag()? { read(self).map(Some) } else { Ok(None) }
    }

    /// Checks that the whole packet was read.
    pub fn end(&self) -> Result<(), Garbage> {
        if self.at == self.bytes.len() { Ok(()) } else { Err(Garbage) }
    }
}

/// Writes values to the end of a packet.
#[derive(Clone, Debug, Default)]
pub struct Writer {
    bytes: Vec<u8>,
}

impl Writer {
    /// A writer that appends to `bytes`.
    pub fn after(bytes: Vec<u8>) -> Writer {
        Writer { bytes }
    }

    /// The bytes that were written so far.
    pub fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }

    /// The number of bytes so far.
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// True if nothing has been written.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Cuts the packet to its first `len` bytes.
    pub fn truncate(&mut self, len: usize) {
        self.bytes.truncate(len);
    }

    /// The integer that was written at this position; `None` behind the end.
    pub fn u32_at(&self, at: usize) -> Option<u32> {
        let bytes = self.bytes.get(at..)?.first_chunk()?;
        Some(u32::from_be_bytes(*bytes))
    }

    /// Replaces the integer that was written at this position.
    pub fn set_u32(&mut self, at: usize, value: u32) {
        self.bytes[at..at + 4].copy_from_slice(&value.to_be_bytes());
    }

    /// Writes an unsigned integer of 32 bits.
    pub fn u32(&mut self, value: u32) {
        self.bytes.extend_from_slice(&value.to_be_bytes());
    }

    /// An unsigned integer of eight bytes.
    pub fn u64(&mut self, value: u64) {
        self.bytes.extend_from_slice(&value.to_be_bytes());
    }

    /// Writes a truth value, which takes 32 bits.
    pub fn flag(&mut self, value: bool) {
        self.u32(u32::from(value));
    }

    /// Bytes without a length.
    pub fn fixed(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
        self.pad();
    }

    /// Bytes with their length before them.
    pub fn opaque(&mut self, bytes: &[u8]) {
        self.u32(bytes.len() as u32);
        self.fixed(bytes);
    }

    /// `len` bytes that `append` appends, with their length before them.
    pub fn opaque_with(&mut self, len: usize, append: impl FnOnce(&mut Vec<u8>)) {
        self.u32(len as u32);
        let end = self.bytes.len() + len;
        self.bytes.reserve(len + 4);
        append(&mut self.bytes);
        self.bytes.resize(end, 0);
        self.pad();
    }

    fn pad(&mut self) {
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_back() {
        let mut out = Writer::default();
        out.u32(7);
        out.u64(1 << 40);
        out.flag(true);
        out.opaque(b"abcde");
        out.opaque_with(3, |b| b.extend_from_slice(b"xyz"));
        let bytes = out.into_bytes();
        assert_eq!(bytes.len() % 4, 0);
        let mut r = Reader::new(&bytes);
        assert_eq!((r.u32(), r.u64(), r.flag()), (Ok(7), Ok(1 << 40), Ok(true)));
        assert_eq!((r.opaque(9), r.opaque(3)), (Ok(&b"abcde"[..]), Ok(&b"xyz"[..])));
        assert_eq!(r.end(), Ok(()));
    }

    #[test]
    fn lengths_that_a_packet_does_not_have_are_garbage() {
        for len in [5u32, 0x7fff_ffff, u32::MAX - 2, u32::MAX] {
            let mut bytes = len.to_be_bytes().to_vec();
            bytes.extend_from_slice(b"abcd");
            assert_eq!(Reader::new(&bytes).opaque(usize::MAX), Err(Garbage), "{len}");
        }
        let mut bytes = 4u32.to_be_bytes().to_vec();
        bytes.extend_from_slice(b"abcd");
        assert_eq!(Reader::new(&bytes).opaque(3), Err(Garbage), "more than the most");
        assert_eq!(Reader::new(&[0, 0, 0, 2]).flag(), Err(Garbage));
        assert_eq!(Reader::new(&[0, 0, 0]).u32(), Err(Garbage));
    }
}
