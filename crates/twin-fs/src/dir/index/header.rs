//! Block 0 of an index: the key, the figures of the table, and the places of its buckets.
//!
//! | byte | field | |
//! |------|-------|-|
//! | 0 | magic u32 | "tdhx" |
//! | 4 | zero u32 | the pointer to the block has its checksum |
//! | 8 | version u32 | 1 |
//! | 12 | block size u32 | |
//! | 16 | key 2 × u64 | of the name hash |
//! | 32 | entries u64 | |
//! | 40 | buckets u32 | |
//! | 44 | overflow u32 | number of overflow blocks ever made |
//! | 48 | free u32 | first free overflow block, 0 for none |
//! | 52 | generation u32 | the last generation of buckets for which room was laid out |
//! | 56 | spares 33 × u32 | number of overflow blocks that lie before each generation |

use super::{Frames, StepError, bad, capacity};

const MAGIC: u32 = u32::from_le_bytes(*b"tdhx");
const VERSION: u32 = 1;
const GENERATIONS: usize = 33;
const LEN: usize = 56 + 4 * GENERATIONS;
/// A bucket is split when the table is fuller than this many eighths. A bucket that has not been
/// split in its round yet is up to twice as full as one that has; at 5/8 few of them overflow.
const FULL_EIGHTHS: u64 = 5;
/// Buckets are merged when the table is emptier than this many eighths.
const EMPTY_EIGHTHS: u64 = 2;

/// The figures of an index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    /// The size of a block, in bytes.
    pub block_size: u32,
    /// The key of the name hash.
    pub key: [u64; 2],
    /// The number of entries.
    pub entries: u64,
    /// The number of buckets; at least one.
    pub buckets: u32,
    /// The number of overflow blocks ever made; each is in a chain or free.
    pub overflow: u32,
    /// The first free overflow block; 0 for none.
    pub free: u64,
    generation: u32,
    spares: [u32; GENERATIONS],
}

/// The generation of a bucket: 0 for bucket 0, and g for buckets from 2^(g-1) to 2^g - 1, which
/// one round of splits makes.
fn generation_of(bucket: u32) -> u32 {
    u32::BITS - bucket.leading_zeros()
}

impl Header {
    pub(super) fn new(block_size: u32, key: [u64; 2]) -> Header {
        let spares = [0; GENERATIONS];
        Header {
            block_size,
            key,
            entries: 0,
            buckets: 1,
            overflow: 0,
            free: 0,
            generation: 0,
            spares,
        }
    }

    /// The number of entries that a block holds.
    pub fn capacity(&self) -> usize {
        capacity(self.block_size as usize)
    }

    /// The bucket of a hash: the low bits of the hash. A bucket that the current round of splits
    /// has not made yet is replaced by the one that will be split for it, with one bit less.
    pub fn bucket_of(&self, hash: u32) -> u32 {
        let wide = u64::from(self.buckets).next_power_of_two() - 1;
        let bucket = hash & wide as u32;
        if bucket < self.buckets { bucket } else { hash & (wide >> 1) as u32 }
    }

    /// The first block of a bucket. The first blocks of a generation lie together. Before them lie
    /// the overflow blocks that were made before the generation began, so it is enough to store the
    /// number of these.
    pub fn primary(&self, bucket: u32) -> u64 {
        1 + u64::from(bucket) + u64::from(self.spares[generation_of(bucket) as usize])
    }

    /// The number of the next new overflow block. It lies after all blocks in use and after the
    /// room for the current generation.
    pub(super) fn next_overflow(&self) -> u64 {
        1 + (1u64 << self.generation) + u64::from(self.overflow)
    }

    /// The bucket that is split next. After [`Header::drop_bucket`] it is the one from which the
    /// dropped bucket was split.
    pub(super) fn split_bucket(&self) -> u32 {
        self.buckets - (1 << (generation_of(self.buckets) - 1))
    }

    /// Counts one more bucket and returns its number. The first bucket of a generation begins the
    /// generation.
    pub(super) fn add_bucket(&mut self) -> u32 {
        let new = self.buckets;
        if generation_of(new) > self.generation {
            self.generation = generation_of(new);
            self.spares[self.generation as usize] = self.overflow;
        }
        self.buckets += 1;
        new
    }

    /// Counts one bucket less. The room for its generation remains.
    pub(super) fn drop_bucket(&mut self) {
        self.buckets -= 1;
    }

    /// True if [`super::grow`] would split a bucket.
    pub fn wants_growth(&self) -> bool {
        let room = u64::from(self.buckets) * self.capacity() as u64;
        let last = 1 + (1u64 << generation_of(self.buckets)) + u64::from(self.overflow);
        self.entries * 8 > room * FULL_EIGHTHS && last <= u64::from(u32::MAX)
    }

    /// True if [`super::shrink`] would merge buckets.
    pub fn wants_shrinking(&self) -> bool {
        let room = u64::from(self.buckets) * self.capacity() as u64;
        self.buckets > 1 && self.entries * 8 < room * EMPTY_EIGHTHS
    }

    pub(super) fn parse(block: &[u8]) -> Result<Header, StepError> {
        if block.len() < LEN.max(512) {
            return bad(0, "the block is too short for a header");
        }
        let word = |at: usize| {
            let mut raw = [0u8; 4];
            raw.copy_from_slice(&block[at..at + 4]);
            u32::from_le_bytes(raw)
        };
        let long = |at: usize| u64::from(word(at)) | u64::from(word(at + 4)) << 32;
        if (word(0), word(8)) != (MAGIC, VERSION) {
            return bad(0, "not a header of this version");
        }
        let header = Header {
            block_size: word(12),
            key: [long(16), long(24)],
            entries: long(32),
            buckets: word(40),
            overflow: word(44),
            free: u64::from(word(48)),
            generation: word(52),
            spares: std::array::from_fn(|g| word(56 + 4 * g)),
        };
        header.check(block.len())?;
        Ok(header)
    }

    fn check(&self, block_len: usize) -> Result<(), StepError> {
        if self.block_size as usize != block_len {
            return bad(0, "made for blocks of another size");
        }
        let generations = self.generation as usize;
        if self.buckets == 0 || generation_of(self.buckets - 1) > self.generation {
            return bad(0, "more buckets than room was laid out for");
        }
        let end = (generations < GENERATIONS).then(|| self.next_overflow());
        if end.is_none_or(|end| end > u64::from(u32::MAX) + 1) {
            return bad(0, "more blocks than an index can have");
        }
        let begun = &self.spares[..=generations];
        if !begun.is_sorted() || begun[generations] > self.overflow {
            return bad(0, "generations of buckets that overlap");
        }
        // The bound keeps later sums with this number from overflowing.
        if self.entries > u64::from(u32::MAX) * self.capacity() as u64 {
            return bad(0, "more entries than an index can have");
        }
        Ok(())
    }

    pub(super) fn store(&self, frames: &mut impl Frames) {
        let stored = frames.write(0, |block| {
            let words = [MAGIC, 0, VERSION, self.block_size];
            for (at, word) in words.iter().enumerate() {
                block[at * 4..at * 4 + 4].copy_from_slice(&word.to_le_bytes());
            }
            block[16..24].copy_from_slice(&self.key[0].to_le_bytes());
            block[24..32].copy_from_slice(&self.key[1].to_le_bytes());
            block[32..40].copy_from_slice(&self.entries.to_le_bytes());
            block[40..44].copy_from_slice(&self.buckets.to_le_bytes());
            block[44..48].copy_from_slice(&self.overflow.to_le_bytes());
            block[48..52].copy_from_slice(&(self.free as u32).to_le_bytes());
            block[52..56].copy_from_slice(&self.generation.to_le_bytes());
            for (g, spare) in self.spares.iter().enumerate() {
                block[56 + 4 * g..60 + 4 * g].copy_from_slice(&spare.to_le_bytes());
            }
        });
        assert!(stored.is_some(), "the header left memory within a step");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with_buckets(buckets: u32) -> Header {
        let mut header = Header::new(4096, [0, 0]);
        while header.buckets < buckets {
            header.add_bucket();
        }
        header
    }

    #[test]
    fn every_hash_has_a_bucket_and_a_split_moves_only_to_the_new_one() {
        for buckets in 1..70 {
            let before = with_buckets(buckets);
            let mut after = before.clone();
            let (split, new) = (after.split_bucket(), after.add_bucket());
            for hash in 0..512 {
                let (old, now) = (before.bucket_of(hash), after.bucket_of(hash));
                assert!(old < buckets);
                assert!(now == old || (old == split && now == new), "{buckets} buckets");
            }
            assert!((0..512).any(|hash| after.bucket_of(hash) == new));
        }
    }

    #[test]
    fn the_blocks_of_buckets_and_overflow_never_overlap() {
        let mut header = Header::new(4096, [0, 0]);
        let mut used = std::collections::BTreeSet::from([0, header.primary(0)]);
        for round in 0..1000u64 {
            if round % 3 == 0 {
                assert!(used.insert(header.next_overflow()));
                header.overflow += 1;
            } else {
                let new = header.add_bucket();
                assert!(used.insert(header.primary(new)), "bucket {new}");
            }
        }
    }

    #[test]
    fn blocks_of_buckets_stay_where_they_are_over_shrinking_and_growing() {
        let mut header = with_buckets(40);
        header.overflow = 9;
        let places: Vec<u64> = (0..40).map(|b| header.primary(b)).collect();
        (0..39).for_each(|_| header.drop_bucket());
        for bucket in 1..40 {
            assert_eq!(header.add_bucket(), bucket);
        }
        assert_eq!((0..40).map(|b| header.primary(b)).collect::<Vec<_>>(), places);
    }
}
