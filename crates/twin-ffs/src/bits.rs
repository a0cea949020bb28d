//! Bitmaps in words: the few operations that maps of free space need. Copies share their words until one of
//! them changes: most groups of a large volume are as empty as their neighbours.

use std::rc::Rc;

/// A bitmap of a fixed length.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub(crate) struct Bits {
    words: Rc<Vec<u64>>,
    len: u32,
}

impl Bits {
    pub(crate) fn new(len: u32) -> Bits {
        Bits { words: Rc::new(vec![0; (len as usize).div_ceil(64)]), len }
    }

    /// A bitmap from bytes, beginning with the lowest bit of the first byte. Bits past the end are
    /// ignored.
    pub(crate) fn from_bytes(raw: &[u8], len: u32) -> Bits {
        let mut words = vec![0; (len as usize).div_ceil(64)];
        for (word, raw) in words.iter_mut().zip(raw.chunks(8)) {
            let mut bytes = [0; 8];
            bytes[..raw.len()].copy_from_slice(raw);
            *word = u64::from_le_bytes(bytes);
        }
        let rest = len % 64;
        if rest > 0
            && let Some(last) = words.last_mut()
        {
            *last &= (1 << rest) - 1;
        }
        Bits { words: Rc::new(words), len }
    }

    /// The bits 64 times `at` and the 63 after it; bits past the end are not set.
    pub(crate) fn word(&self, at: u32) -> u64 {
        self.words[at as usize]
    }

    /// Sets or clears the bits `from..to`.
    pub(crate) fn set_range(&mut self, from: u32, to: u32, on: bool) {
        let words = Rc::make_mut(&mut self.words);
        let mut at = from;
        while at < to {
            let count = (64 - at % 64).min(to - at);
            let these = u64::MAX >> (64 - count) << (at % 64);
            let word = &mut words[at as usize / 64];
            *word = if on { *word | these } else { *word & !these };
            at += count;
        }
    }

    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(8 * self.words.len());
        self.words.iter().for_each(|word| bytes.extend_from_slice(&word.to_le_bytes()));
        bytes.truncate((self.len as usize).div_ceil(8));
        bytes
    }

    pub(crate) fn len(&self) -> u32 {
        self.len
    }

    pub(crate) fn get(&self, at: u32) -> bool {
        self.words[at as usize / 64] >> (at % 64) & 1 != 0
    }

    pub(crate) fn set(&mut self, at: u32, on: bool) {
        let word = &mut Rc::make_mut(&mut self.words)[at as usize / 64];
        let bit = 1 << (at % 64);
        *word = if on { *word | bit } else { *word & !bit };
    }

    /// The `n` (at most 8) bits from `at` on, which must not cross a multiple of 8.
    pub(crate) fn group(&self, at: u32, n: u32) -> u8 {
        (self.words[at as usize / 64] >> (at % 64)) as u8 & mask(n)
    }

    pub(crate) fn set_group(&mut self, at: u32, n: u32, bits: u8) {
        let word = &mut Rc::make_mut(&mut self.words)[at as usize / 64];
        *word = *word & !(u64::from(mask(n)) << (at % 64)) | u64::from(bits) << (at % 64);
    }

    /// The first bit in `from..to` that is set.
    pub(crate) fn next_set(&self, from: u32, to: u32) -> Option<u32> {
        self.find(from, to, 0)
    }

    /// The first bit in `from..to` that is not set.
    pub(crate) fn next_clear(&self, from: u32, to: u32) -> Option<u32> {
        self.find(from, to, u64::MAX)
    }

    fn find(&self, from: u32, to: u32, flip: u64) -> Option<u32> {
        let to = to.min(self.len);
        let mut at = from;
        while at < to {
            let word = (self.words[at as usize / 64] ^ flip) >> (at % 64);
            if word != 0 {
                let found = at + word.trailing_zeros();
                return (found < to).then_some(found);
            }
            at = (at / 64 + 1) * 64;
        }
        None
    }

    pub(crate) fn count(&self) -> u32 {
        self.words.iter().map(|w| w.count_ones()).sum()
    }
}

/// A mask of `n` ones, at most 8.
pub(crate) fn mask(n: u32) -> u8 {
    ((1u16 << n) - 1) as u8
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_are_found_across_words() {
        let mut bits = Bits::new(200);
        for at in [3, 64, 130, 199] {
            bits.set(at, true);
        }
        assert_eq!(bits.next_set(4, 200), Some(64));
        assert_eq!(bits.next_set(65, 130), None);
        assert_eq!(bits.next_set(131, 1000), Some(199));
        assert_eq!(bits.next_clear(3, 200), Some(4));
        assert_eq!(bits.count(), 4);
        assert_eq!(Bits::from_bytes(&bits.to_bytes(), 200), bits);
    }

    #[test]
    fn a_range_is_set_across_words_and_copies_keep_theirs() {
        for (from, to) in [(0, 200), (3, 7), (60, 70), (64, 128), (5, 199), (9, 9)] {
            let (mut bits, mut each) = (Bits::new(200), Bits::new(200));
            let before = bits.clone();
            bits.set_range(from, to, true);
            (from..to).for_each(|at| each.set(at, true));
            assert_eq!(bits, each, "{from}..{to}");
            assert_eq!(before.count(), 0);
            bits.set_range(from, to, false);
            assert_eq!(bits, before);
        }
    }

    #[test]
    fn what_lies_past_the_end_is_ignored() {
        assert_eq!(Bits::from_bytes(&[255, 255], 9).count(), 9);
    }
}
