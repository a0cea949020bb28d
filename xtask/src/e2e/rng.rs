//! Random numbers from a seed: SplitMix64 (Steele, Lea and Flood 2014).

/// A stream of numbers that its seed determines.
#[derive(Clone, Debug)]
pub(crate) struct Rng(u64);

impl Rng {
    pub(crate) fn new(seed: u64) -> Rng {
        Rng(seed)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `end`, which is not 0.
    pub(crate) fn below(&mut self, end: usize) -> usize {
        (self.next() % end as u64) as usize
    }

    /// Random bytes. None is zero, so that they are distinguishable from a hole. Made by the word: this program is
    /// not optimized, and contents made by the byte took most of the time of scenarios.
    pub(crate) fn bytes(&mut self, len: usize) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(len + 8);
        while bytes.len() < len {
            bytes.extend_from_slice(&(self.next() | 0x0101_0101_0101_0101).to_le_bytes());
        }
        bytes.truncate(len);
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_gives_its_stream_and_no_zero_byte() {
        let (mut a, mut b, mut c) = (Rng::new(1), Rng::new(1), Rng::new(2));
        let bytes = a.bytes(1001);
        assert_eq!(bytes.len(), 1001);
        assert_eq!(bytes, b.bytes(1001));
        assert_ne!(bytes, c.bytes(1001));
        assert!(bytes.iter().all(|&byte| byte != 0));
    }
}
