//! Metadata in the form that a platter keeps: without its zeros.
//!
//! Inodes, maps and summaries are mostly zeros, in runs and inside numbers. The packed form has one
//! bit for each eight-byte word, set if the word is not zero; then for each such word one byte,
//! whose bits say which of its bytes are not zero, and these bytes. Content that would not become a
//! quarter smaller is kept as it is.

use std::sync::Arc;

use twin_disk::{Buf, Bytes};

/// Bytes of a word, and the number of words that one byte of the map covers.
const WORD: usize = 8;
/// The most bytes that are packed together, and so unpacked to read one of them.
pub(super) const MOST: usize = 4096;

/// Bytes without their zeros. Cloning is cheap.
#[derive(Clone, Debug)]
pub(super) struct Packed {
    packed: Arc<[u8]>,
    /// Number of bytes when unpacked.
    len: u32,
}

impl Packed {
    /// Packs at most [`MOST`] bytes; `None` if that does not save enough.
    pub(super) fn of(bytes: &[u8]) -> Option<Packed> {
        debug_assert!(bytes.len() <= MOST, "{} bytes are too many to pack together", bytes.len());
        // The words, a byte for each of them, and the map.
        let mut out = [0u8; MOST + MOST / WORD + MOST / WORD / 8];
        let words = bytes.len().div_ceil(WORD);
        let limit = bytes.len() - bytes.len() / 4;
        let mut used = words.div_ceil(8);
        for (i, word) in bytes.chunks(WORD).enumerate() {
            if is_zero(word) {
                continue;
            }
            out[i / 8] |= 1 << (i % 8);
            let mask_at = used;
            used += 1;
            let mut mask = 0u8;
            for (k, &byte) in word.iter().enumerate() {
                // Without a branch, because zero bytes cannot be predicted.
                out[used] = byte;
                let there = u8::from(byte != 0);
                mask |= there << k;
                used += usize::from(there);
            }
            out[mask_at] = mask;
            if used > limit {
                return None;
            }
        }
        Some(Packed { packed: out[..used].into(), len: bytes.len() as u32 })
    }

    /// All bytes that were packed.
    pub(super) fn unpack(&self) -> Bytes {
        let len = self.len as usize;
        let mut buf = Buf::zeroed(len);
        let (map, mut rest) = self.packed.split_at(len.div_ceil(WORD).div_ceil(8));
        for (i, word) in buf.chunks_mut(WORD).enumerate() {
            if map[i / 8] & (1 << (i % 8)) == 0 {
                continue;
            }
            let mut mask = rest[0];
            let mut next = 1;
            while mask != 0 {
                word[mask.trailing_zeros() as usize] = rest[next];
                next += 1;
                mask &= mask - 1;
            }
            rest = &rest[next..];
        }
        buf.freeze()
    }

    /// Bytes of memory that it takes.
    pub(super) fn heap_bytes(&self) -> usize {
        self.packed.len() + 2 * size_of::<usize>()
    }
}

fn is_zero(word: &[u8]) -> bool {
    match word.try_into() {
        Ok(word) => u64::from_ne_bytes(word) == 0,
        Err(_) => word.iter().all(|&b| b == 0),
    }
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
        assert_eq!(Packed::of(&[0; MOST]).unwrap().packed.len(), MOST / WORD / 8);
    }
}
