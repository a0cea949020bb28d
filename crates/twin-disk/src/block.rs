//! Blocks: one type for user data and metadata, with or without bytes.
//!
//! In a simulation a block of user data is a [`Stamp`]. No bytes are moved, and yet each read can
//! be checked to return the right version. Metadata always consists of real bytes.

use crate::{Buf, Bytes};

/// Stands for user data in a simulation: it says which version of which block of which file it is.
///
/// It stands for the bytes `off..off + len` of a block whose whole content is a function of
/// `(ino, lbn, version)`: see [`Stamp::expand`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Stamp {
    /// The inode number of the file.
    pub ino: u64,
    /// The number of the logical block.
    pub lbn: u64,
    /// The number of the request that wrote the block.
    pub version: u64,
    /// The first byte within the block.
    pub off: u32,
    /// The number of bytes.
    pub len: u32,
}

impl Stamp {
    /// Writes the bytes that this stamp stands for into `out`, which has the length `len`.
    pub fn expand(&self, out: &mut [u8]) {
        let seed = self.ino.wrapping_mul(0x9e37_79b9_7f4a_7c15)
            ^ self.lbn.wrapping_mul(0xc2b2_ae3d_27d4_eb4f).rotate_left(21)
            ^ self.version.wrapping_mul(0x1656_67b1_9e37_79f9).rotate_left(42);
        let mut pos = 0usize;
        while pos < out.len() {
            let at = self.off as usize + pos;
            let word = seed.wrapping_add((at as u64 / 8).wrapping_mul(0xd6e8_feb8_6659_fd93));
            let word = (word ^ (word >> 32)).wrapping_mul(0xd6e8_feb8_6659_fd93).to_le_bytes();
            let skip = at % 8;
            let n = (8 - skip).min(out.len() - pos);
            out[pos..pos + n].copy_from_slice(&word[skip..skip + n]);
            pos += n;
        }
    }
}

/// A piece of data that a device stores: zeros, bytes, or a stamp in place of user data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Block {
    /// This many zero bytes.
    Zero(u32),
    /// The bytes themselves, as they are on a real device.
    Bytes(Bytes),
    /// User data of a simulation, without its bytes.
    Stamp(Stamp),
}

impl Block {
    /// The number of bytes that the block stands for.
    #[inline]
    pub fn len(&self) -> usize {
        match self {
            Block::Zero(len) => *len as usize,
            Block::Bytes(bytes) => bytes.len(),
            Block::Stamp(stamp) => stamp.len as usize,
        }
    }

    /// True if the block stands for no bytes.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The part `off..off + len` of the block, without copying bytes.
    ///
    /// # Panics
    /// If the part is not within the block.
    #[inline]
    pub fn slice(&self, off: usize, len: usize) -> Block {
        assert!(off + len <= self.len(), "slice {off}+{len} of {} bytes", self.len());
        match self {
            Block::Zero(_) => Block::Zero(len as u32),
            Block::Bytes(bytes) => Block::Bytes(bytes.slice(off, len)),
            Block::Stamp(s) => {
                Block::Stamp(Stamp { off: s.off + off as u32, len: len as u32, ..*s })
            }
        }
    }

    /// Writes the bytes that the block stands for into `out`, which has the same length.
    pub fn copy_to(&self, out: &mut [u8]) {
        match self {
            Block::Zero(_) => out.fill(0),
            Block::Bytes(bytes) => out.copy_from_slice(bytes),
            Block::Stamp(stamp) => stamp.expand(out),
        }
    }

    /// The bytes that the block stands for; zeros and stamps are expanded.
    pub fn to_bytes(&self) -> Bytes {
        match self {
            Block::Bytes(bytes) => bytes.clone(),
            _ => {
                let mut buf = Buf::zeroed(self.len());
                self.copy_to(&mut buf);
                buf.freeze()
            }
        }
    }

    /// The bytes of the block, to be changed. A block of zeros or a stamp becomes real bytes first.
    #[inline]
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        if !matches!(self, Block::Bytes(_)) {
            *self = Block::Bytes(self.to_bytes());
        }
        match self {
            Block::Bytes(bytes) => bytes.make_mut(),
            _ => unreachable!("made into bytes above"),
        }
    }

    /// The CRC-32C of the content. For a stamp it is the checksum of its five numbers, which
    /// differs from the checksum of the bytes that the stamp stands for.
    pub fn crc32c(&self) -> u32 {
        match self {
            Block::Zero(len) => crc32c_zeros(*len as usize),
            Block::Bytes(bytes) => crc32c::crc32c(bytes),
            Block::Stamp(s) => {
                let mut raw = [0u8; 32];
                raw[..8].copy_from_slice(&s.ino.to_le_bytes());
                raw[8..16].copy_from_slice(&s.lbn.to_le_bytes());
                raw[16..24].copy_from_slice(&s.version.to_le_bytes());
                raw[24..28].copy_from_slice(&s.off.to_le_bytes());
                raw[28..].copy_from_slice(&s.len.to_le_bytes());
                crc32c::crc32c(&raw)
            }
        }
    }

    /// The two blocks as one block; `None` if that would need a copy of bytes.
    fn join(&self, next: &Block) -> Option<Block> {
        match (self, next) {
            (Block::Zero(a), Block::Zero(b)) => Some(Block::Zero(a + b)),
            (Block::Stamp(a), Block::Stamp(b)) => {
                let follows = Stamp { off: a.off + a.len, len: b.len, ..*a } == *b;
                follows.then_some(Block::Stamp(Stamp { len: a.len + b.len, ..*a }))
            }
            _ => None,
        }
    }
}

fn crc32c_zeros(len: usize) -> u32 {
    const ZEROS: [u8; 4096] = [0; 4096];
    let mut crc = 0;
    let mut left = len;
    while left > 0 {
        let n = left.min(ZEROS.len());
        crc = crc32c::crc32c_append(crc, &ZEROS[..n]);
        left -= n;
    }
    crc
}

/// The CRC-32C of the bytes that blocks stand for, stamps among them, however they are divided.
pub fn checksum(blocks: &[Block]) -> u32 {
    blocks.iter().fold(0, |crc, block| crc32c::crc32c_append(crc, &block.to_bytes()))
}

/// Bytes of a sequence of blocks.
pub fn total(blocks: &[Block]) -> u64 {
    blocks.iter().map(|block| block.len() as u64).sum()
}

/// The bytes `off..off + len` of a sequence of blocks, as blocks, cut where they were.
pub fn cut(blocks: &[Block], mut off: u64, mut len: u64) -> Vec<Block> {
    let mut out = Vec::new();
    if len == 0 {
        return out;
    }
    for block in blocks {
        let size = block.len() as u64;
        if off >= size {
            off -= size;
            continue;
        }
        let n = (size - off).min(len);
        out.push(block.slice(off as usize, n as usize));
        (off, len) = (0, len - n);
        if len == 0 {
            break;
        }
    }
    out
}

/// The bytes `off..off + len` of a sequence of blocks, as one block: a part of one of the blocks,
/// or adjacent parts of zeros or of one stamp joined. If neither is possible, as after a torn
/// write, the result is expanded bytes.
///
/// # Panics
/// If the blocks do not contain all these bytes.
pub fn gather(blocks: &[Block], mut off: usize, len: usize) -> Block {
    if len == 0 {
        return Block::Zero(0);
    }
    let mut first = 0;
    while off >= blocks[first].len() {
        off -= blocks[first].len();
        first += 1;
    }
    if off + len <= blocks[first].len() {
        return blocks[first].slice(off, len);
    }
    let mut parts = Vec::new();
    let mut left = len;
    for block in &blocks[first..] {
        let n = left.min(block.len() - off);
        parts.push(block.slice(off, n));
        (off, left) = (0, left - n);
        if left == 0 {
            break;
        }
    }
    assert_eq!(left, 0, "gather past the end of its blocks");
    let joined = parts[1..].iter().try_fold(parts[0].clone(), |whole, next| whole.join(next));
    joined.unwrap_or_else(|| {
        let mut buf = Buf::zeroed(len);
        let mut pos = 0;
        for part in &parts {
            part.copy_to(&mut buf[pos..pos + part.len()]);
            pos += part.len();
        }
        Block::Bytes(buf.freeze())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const STAMP: Stamp = Stamp { ino: 3, lbn: 4, version: 5, off: 0, len: 4096 };

    #[test]
    fn a_cut_of_a_stamp_expands_to_the_cut_of_its_bytes() {
        let whole = Block::Stamp(STAMP).to_bytes();
        for (off, len) in [(0, 4096), (1, 7), (511, 2), (4095, 1), (8, 16)] {
            let cut = Block::Stamp(STAMP).slice(off, len).to_bytes();
            assert_eq!(*cut, whole[off..off + len]);
        }
    }

    #[test]
    fn versions_differ_in_content_and_checksum() {
        let (a, b) = (Block::Stamp(STAMP), Block::Stamp(Stamp { version: 6, ..STAMP }));
        assert_ne!(a.crc32c(), b.crc32c());
        assert_ne!(a.to_bytes(), b.to_bytes());
    }

    #[test]
    fn gathering_neighbouring_cuts_gives_the_whole() {
        let stamp = Block::Stamp(STAMP);
        let parts = [Block::Zero(512), stamp.slice(0, 512), stamp.slice(512, 3584)];
        assert_eq!(gather(&parts, 512, 4096), stamp);
    }

    #[test]
    fn gathering_a_torn_block_gives_bytes() {
        let (old, new) = (Block::Stamp(STAMP), Block::Stamp(Stamp { version: 6, ..STAMP }));
        let torn = gather(&[new.slice(0, 512), old.slice(512, 3584)], 0, 4096);
        assert_eq!(torn.to_bytes()[..512], new.to_bytes()[..512]);
        assert_eq!(torn.to_bytes()[512..], old.to_bytes()[512..]);
        assert_ne!(torn.crc32c(), new.crc32c());
    }

    #[test]
    fn the_checksum_of_zeros_is_that_of_zero_bytes() {
        for len in [0, 1, 512, 4096, 10_000] {
            let bytes = Block::Bytes(Buf::zeroed(len).freeze());
            assert_eq!(Block::Zero(len as u32).crc32c(), bytes.crc32c());
        }
    }
}
