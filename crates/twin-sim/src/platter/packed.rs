//! Metadata in the form that a platter keeps: without its zeros.
//!
//! Inodes, maps and summaries are mostly zeros, in runs and inside numbers. The packed form has one
//! bit for each eight-byte word, set if the word is not zero; then for each such word one byte,
//! whose bits say which of its bytes are not zero, and these bytes. Content that would not become a
//! quarter smaller is kept as it is. What resembles earlier bytes is kept as its difference from them, packed
//! in the same way: the words that are the same are zero.

use std::sync::Arc;

use twin_disk::{Buf, Bytes};

/// Bytes of a word.
const WORD: usize = 8;
/// Bytes of the words that one byte of the map covers.
const LINE: usize = 8 * WORD;
/// The most bytes that are packed together, and so unpacked to read one of them.
pub(super) const MOST: usize = 4096;

/// Bytes without their zeros. Cloning is cheap.
#[derive(Clone, Debug)]
pub(super) struct Packed {
    packed: Arc<[u8]>,
    /// What the packed bytes are the difference from, if not from zeros.
    base: Option<Arc<Bytes>>,
    /// Number of bytes when unpacked.
    len: u32,
}

impl Packed {
    /// Packs at most [`MOST`] bytes; `None` if that does not save enough.
    pub(super) fn of(bytes: &[u8]) -> Option<Packed> {
        let packed = pack(bytes.chunks(LINE).map(words_of), bytes.len(), bytes.len() / 4 * 3)?;
        Some(Packed { packed, base: None, len: bytes.len() as u32 })
    }

    /// Packs the difference from bytes of the same length; `None` if it takes more than an eighth.
    pub(super) fn difference(bytes: &[u8], base: &Arc<Bytes>) -> Option<Packed> {
        let lines = bytes.chunks(LINE).zip(base.chunks(LINE)).map(|(bytes, base)| {
            let (words, base) = (words_of(bytes), words_of(base));
            std::array::from_fn(|i| words[i] ^ base[i])
        });
        let packed = pack(lines, bytes.len(), bytes.len() / 8)?;
        Some(Packed { packed, base: Some(Arc::clone(base)), len: bytes.len() as u32 })
    }

    /// All bytes that were packed.
    pub(super) fn unpack(&self) -> Bytes {
        let len = self.len as usize;
        let mut buf = match &self.base {
            Some(base) => Buf::copy_of(base),
            None => Buf::zeroed(len),
        };
        let (map, mut rest) = self.packed.split_at(len.div_ceil(LINE));
        for (bytes, &words) in buf.chunks_mut(LINE).zip(map).filter(|(_, words)| **words != 0) {
            for (i, bytes) in bytes.chunks_mut(WORD).enumerate() {
                if words & 1 << i != 0 {
                    let (word, behind) = take_word(rest);
                    bytes.iter_mut().zip(word.to_le_bytes()).for_each(|(byte, new)| *byte ^= new);
                    rest = behind;
                }
            }
        }
        buf.freeze()
    }

    /// Bytes of memory that it takes, without what it is the difference from, which others share.
    pub(super) fn heap_bytes(&self) -> usize {
        self.packed.len() + 2 * size_of::<usize>()
    }
}

/// Packs lines of `len` bytes together; `None` if they take more than `limit`.
fn pack(
    lines: impl Iterator<Item = [u64; LINE / WORD]>,
    len: usize,
    limit: usize,
) -> Option<Arc<[u8]>> {
    debug_assert!(len <= MOST, "{len} bytes are too many to pack together");
    // The words, a byte for each of them, and the map.
    let mut out = [0u8; MOST + MOST / WORD + MOST / LINE];
    let mut used = len.div_ceil(LINE);
    for (line, words) in lines.enumerate() {
        // Most of metadata is zeros: eight words, one byte of the map, at a time.
        if words.iter().fold(0, |all, word| all | word) == 0 {
            continue;
        }
        for (i, &word) in words.iter().enumerate().filter(|(_, word)| **word != 0) {
            out[line] |= 1 << i;
            used = put_word(&mut out, used, word);
        }
        if used > limit {
            return None;
        }
    }
    Some(out[..used].into())
}

/// Puts a word that is not zero at a place. Returns the place behind it; what follows there may be
/// anything.
fn put_word(out: &mut [u8], at: usize, word: u64) -> usize {
    let mask = nonzero_bytes(word);
    out[at] = mask;
    let mut at = at + 1;
    if mask & mask.wrapping_add(1) == 0 {
        // A number in its lowest bytes, or a whole word.
        out[at..at + WORD].copy_from_slice(&word.to_le_bytes());
        return at + mask.count_ones() as usize;
    }
    for (k, byte) in word.to_le_bytes().into_iter().enumerate() {
        // Without a branch, because zero bytes cannot be predicted.
        out[at] = byte;
        at += usize::from(mask >> k & 1);
    }
    at
}

/// The word that begins these packed bytes, and what is behind it.
fn take_word(packed: &[u8]) -> (u64, &[u8]) {
    let (mask, bytes) = (packed[0], &packed[1..]);
    let (kept, behind) = bytes.split_at(mask.count_ones() as usize);
    let mut word = [0; WORD];
    if mask & mask.wrapping_add(1) == 0
        && let Some(next) = bytes.first_chunk()
    {
        let unused = 8 * (WORD - kept.len());
        return (u64::from_le_bytes(*next) << unused >> unused, behind);
    }
    let mut mask = mask;
    for &byte in kept {
        word[mask.trailing_zeros() as usize] = byte;
        mask &= mask - 1;
    }
    (u64::from_le_bytes(word), behind)
}

/// The words of a line; what the last line lacks is zero.
fn words_of(line: &[u8]) -> [u64; LINE / WORD] {
    let mut whole = [0; LINE];
    let line: &[u8; LINE] = line.try_into().unwrap_or_else(|_| {
        whole[..line.len()].copy_from_slice(line);
        &whole
    });
    let (words, _) = line.as_chunks();
    std::array::from_fn(|i| u64::from_le_bytes(words[i]))
}

/// A bit for each byte of a word that is not zero.
fn nonzero_bytes(word: u64) -> u8 {
    const LOW: u64 = 0x7f7f_7f7f_7f7f_7f7f;
    // The highest bit of each byte: set if another bit of it is, or itself.
    let high = (((word & LOW) + LOW) | word) & !LOW;
    // Each product puts one of these bits into the highest byte.
    ((high >> 7).wrapping_mul(0x0102_0408_1020_4080) >> 56) as u8
}

#[cfg(test)]
mod tests {
    use twin_rt::Rng;

    use super::*;

    #[test]
    fn what_is_packed_comes_back() {
        let mut rng = Rng::new(1);
        for round in 0..2000 {
            let len = rng.range(1, MOST as u64 + 1) as usize;
            let density = rng.unit() * rng.unit();
            let bytes: Vec<u8> = (0..len)
                .map(|_| if rng.chance(density) { rng.below(256) as u8 } else { 0 })
                .collect();
            match Packed::of(&bytes) {
                Some(packed) => {
                    assert!(*packed.unpack() == *bytes, "round {round}");
                    assert!(packed.packed.len() <= len - len / 4, "round {round}");
                }
                None => assert!(density > 0.2 || len < 512, "round {round}: {density} of {len}"),
            }
        }
    }

    #[test]
    fn zeros_take_next_to_nothing() {
        assert_eq!(Packed::of(&[0; MOST]).unwrap().packed.len(), MOST / LINE);
    }
}
