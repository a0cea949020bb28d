//! Small tools on bytes: taking an input apart, and putting checksums right.

/// Takes an input apart from its start. What is not there reads as zeros.
pub(crate) struct Input<'a>(pub(crate) &'a [u8]);

impl<'a> Input<'a> {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn u8(&mut self) -> u8 {
        self.array::<1>()[0]
    }

    pub(crate) fn u16(&mut self) -> u16 {
        u16::from_le_bytes(self.array())
    }

    pub(crate) fn u32(&mut self) -> u32 {
        u32::from_le_bytes(self.array())
    }

    pub(crate) fn u64(&mut self) -> u64 {
        u64::from_le_bytes(self.array())
    }

    /// So many bytes, or fewer at the end.
    pub(crate) fn take(&mut self, len: usize) -> &'a [u8] {
        let (taken, rest) = self.0.split_at(len.min(self.0.len()));
        self.0 = rest;
        taken
    }

    fn array<const N: usize>(&mut self) -> [u8; N] {
        let taken = self.take(N);
        std::array::from_fn(|i| taken.get(i).copied().unwrap_or(0))
    }
}

/// The bytes, cut or filled with zeros to a length.
pub(crate) fn sized(bytes: &[u8], len: usize) -> Vec<u8> {
    let mut sized = bytes[..bytes.len().min(len)].to_vec();
    sized.resize(len, 0);
    sized
}

/// Writes the CRC-32C of everything from `from` on to `at`.
pub(crate) fn seal(raw: &mut [u8], at: usize, from: usize) {
    let crc = crc32c::crc32c(&raw[from..]);
    raw[at..at + 4].copy_from_slice(&crc.to_le_bytes());
}

/// Without the zeros at the end: structures are padded with them, and a short input is easier to mutate.
pub(crate) fn trimmed(mut bytes: Vec<u8>) -> Vec<u8> {
    let len = bytes.iter().rposition(|&byte| byte != 0).map_or(0, |at| at + 1);
    bytes.truncate(len);
    bytes
}
