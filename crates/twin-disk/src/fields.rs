//! Numbers in records and objects: little-endian, one after another, behind a magic and a CRC-32C.

/// Why bytes are not what they should be, in words.
pub type Malformed = &'static str;

/// Bytes before the first field: magic and checksum.
const FRONT: usize = 12;

/// Writes an object's fields.
pub struct Writer(Vec<u8>);

impl Writer {
    /// An object that begins with `magic`.
    pub fn new(magic: &[u8; 8]) -> Writer {
        let mut bytes = magic.to_vec();
        bytes.extend([0; 4]);
        Writer(bytes)
    }

    /// Adds a number of four bytes.
    pub fn u32(&mut self, value: u32) {
        self.0.extend(value.to_le_bytes());
    }

    /// Adds a number of eight bytes.
    pub fn u64(&mut self, value: u64) {
        self.0.extend(value.to_le_bytes());
    }

    /// Adds bytes as they are.
    pub fn bytes(&mut self, value: &[u8]) {
        self.0.extend(value);
    }

    /// A text of at most 65,535 bytes; more is cut off.
    pub fn text(&mut self, value: &str) {
        let len = value.floor_char_boundary(usize::from(u16::MAX));
        self.u32(len as u32);
        self.bytes(&value.as_bytes()[..len]);
    }

    /// The object, with its checksum.
    pub fn end(mut self) -> Vec<u8> {
        let crc = crc32c::crc32c(&self.0[FRONT..]);
        self.0[8..FRONT].copy_from_slice(&crc.to_le_bytes());
        self.0
    }
}

/// Reads what a [`Writer`] wrote, and believes nothing.
pub struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    /// Checks magic and checksum over all of `bytes`.
    ///
    /// # Errors
    /// If one of them is wrong.
    pub fn new(magic: &[u8; 8], bytes: &'a [u8]) -> Result<Reader<'a>, Malformed> {
        let (front, rest) = bytes.split_at_checked(FRONT).ok_or("it is too short")?;
        if front[..8] != *magic {
            return Err("it does not begin as it should");
        }
        if front[8..] != crc32c::crc32c(rest).to_le_bytes() {
            return Err("its checksum is wrong");
        }
        Ok(Reader(rest))
    }

    /// The next `len` bytes.
    ///
    /// # Errors
    /// If the object ends before.
    pub fn bytes(&mut self, len: usize) -> Result<&'a [u8], Malformed> {
        let (taken, rest) = self.0.split_at_checked(len).ok_or("it ends too early")?;
        self.0 = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        self.bytes(N)?.try_into().map_err(|_| "it ends too early")
    }

    /// The next four bytes as a number.
    ///
    /// # Errors
    /// If the object ends before.
    pub fn u32(&mut self) -> Result<u32, Malformed> {
        self.array().map(u32::from_le_bytes)
    }

    /// The next eight bytes as a number.
    ///
    /// # Errors
    /// If the object ends before.
    pub fn u64(&mut self) -> Result<u64, Malformed> {
        self.array().map(u64::from_le_bytes)
    }

    /// The next sixteen bytes.
    ///
    /// # Errors
    /// If the object ends before.
    pub fn id(&mut self) -> Result<[u8; 16], Malformed> {
        self.array()
    }

    /// The next text.
    ///
    /// # Errors
    /// If the object ends before, or it is not UTF-8.
    pub fn text(&mut self) -> Result<String, Malformed> {
        let len = self.u32()? as usize;
        String::from_utf8(self.bytes(len)?.to_vec()).map_err(|_| "a text in it is not UTF-8")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_changed_or_cut_is_refused() {
        let mut writer = Writer::new(b"abcdefgh");
        writer.u32(7);
        writer.text("löwe");
        let good = writer.end();
        let mut reader = Reader::new(b"abcdefgh", &good).unwrap();
        assert_eq!((reader.u32(), reader.text()), (Ok(7), Ok("löwe".into())));
        assert!(reader.u32().is_err());
        for at in 0..good.len() {
            let mut bad = good.clone();
            bad[at] ^= 4;
            assert!(Reader::new(b"abcdefgh", &bad).is_err(), "byte {at}");
            assert!(Reader::new(b"abcdefgh", &good[..at]).is_err(), "{at} bytes");
        }
    }
}
