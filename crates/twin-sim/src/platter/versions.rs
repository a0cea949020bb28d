//! Blocks that were written lately, against which their next versions are kept.
//!
//! A log writes a directory's block anew with each name that comes or goes, and the old version lies on the
//! platter until the log returns to its place. Two versions differ in a few bytes at fixed places, so a block
//! is kept as its difference (the exclusive or, packed) from a version that is kept whole. Which that is,
//! only the content says: a block resembles one that had the same bytes at the same offset, at one of some
//! places. The table of them has a fixed size, and what was forgotten merely takes more memory.

use std::sync::Arc;

use twin_disk::Bytes;

use super::packed::{MOST, Packed};

/// Shorter blocks are not compared: little can be gained.
const LEAST: usize = 1024;
/// A block packed to fewer bytes than this is not worth a base.
const SMALL: usize = 256;
/// Parts of more bytes than this are not compared either: data of users, which comes once.
const MOST_TOGETHER: usize = 4 * MOST;
/// Distance of the places that are looked at, and the bytes looked at in each.
const EVERY: usize = 512;
const LOOKED_AT: usize = 32;
/// Entries of the table, a power of two.
const ENTRIES: usize = 4096;

/// The blocks that were written whole most lately, by what they have at some places. A clone has none:
/// copying a platter costs nothing.
#[derive(Debug, Default)]
pub(super) struct Versions {
    table: Vec<Option<Arc<Bytes>>>,
}

impl Clone for Versions {
    fn clone(&self) -> Versions {
        Versions::default()
    }
}

impl Versions {
    /// A part of some bytes without its zeros, or without what it has in common with an earlier version;
    /// `None` if neither saves enough. A part that differs from all becomes a base of its next versions.
    pub(super) fn packed(&mut self, bytes: &Bytes, from: usize, to: usize) -> Option<Packed> {
        let part = &bytes[from..to];
        if bytes.len() > MOST_TOGETHER {
            return Packed::of(part);
        }
        let difference = self.difference(part);
        if difference.is_some() {
            return difference;
        }
        let packed = Packed::of(part);
        if packed.as_ref().is_none_or(|packed| packed.heap_bytes() > SMALL) {
            self.remember(&bytes.slice(from, to - from));
        }
        packed
    }

    fn difference(&self, bytes: &[u8]) -> Option<Packed> {
        if self.table.is_empty() || !is_compared(bytes) {
            return None;
        }
        let mut tried: Option<&Arc<Bytes>> = None;
        for (at, entry) in places(bytes) {
            let Some(base) = &self.table[entry] else { continue };
            let same = base.len() == bytes.len()
                && base[at..at + LOOKED_AT] == bytes[at..at + LOOKED_AT]
                && tried.is_none_or(|tried| !Arc::ptr_eq(tried, base));
            if !same {
                continue;
            }
            if let Some(packed) = Packed::difference(bytes, base) {
                return Some(packed);
            }
            if tried.is_some() {
                return None;
            }
            tried = Some(base);
        }
        None
    }

    fn remember(&mut self, bytes: &Bytes) {
        if !is_compared(bytes) {
            return;
        }
        if self.table.is_empty() {
            self.table = vec![None; ENTRIES];
        }
        let base = Arc::new(kept(bytes));
        for (_, entry) in places(bytes) {
            self.table[entry] = Some(Arc::clone(&base));
        }
    }
}

fn is_compared(bytes: &[u8]) -> bool {
    (LEAST..=MOST).contains(&bytes.len())
}

/// The places of a block that are looked at and are not zero, each with its entry of the table.
fn places(bytes: &[u8]) -> impl Iterator<Item = (usize, usize)> {
    let offsets = (0..=bytes.len() - LOOKED_AT).step_by(EVERY);
    offsets.filter_map(|at| {
        let (words, _) = bytes[at..at + LOOKED_AT].as_chunks::<8>();
        let words = words.iter().map(|word| u64::from_le_bytes(*word));
        let hash = words.fold(0, |hash: u64, word| {
            (hash.rotate_left(26) ^ word).wrapping_mul(0xf135_7aea_2e62_a9c5)
        });
        let mixed = (hash ^ at as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        (hash != 0).then_some((at, mixed as usize % ENTRIES))
    })
}

/// The bytes in the form in which they are kept: a small piece of a large buffer is copied, because
/// it would keep the whole buffer in memory.
pub(super) fn kept(bytes: &Bytes) -> Bytes {
    if bytes.buffer_len() > 2 * bytes.len() { Bytes::copy_of(bytes) } else { bytes.clone() }
}

#[cfg(test)]
mod tests {
    use twin_rt::Rng;

    use super::*;

    fn noise(rng: &mut Rng, len: usize) -> Vec<u8> {
        (0..len).map(|_| rng.below(255) as u8 + 1).collect()
    }

    #[test]
    fn a_later_version_is_kept_as_its_difference() {
        let mut rng = Rng::new(1);
        let (mut versions, mut block) = (Versions::default(), noise(&mut rng, 4096));
        assert!(versions.difference(&block).is_none());
        versions.remember(&Bytes::copy_of(&block));
        for at in [0, 700, 4000] {
            block[at..at + 40].copy_from_slice(&noise(&mut rng, 40));
            let packed = versions.difference(&block).unwrap();
            assert!(packed.heap_bytes() < 400, "{} bytes", packed.heap_bytes());
            assert!(*packed.unpack() == *block);
        }
    }

    #[test]
    fn what_resembles_nothing_is_kept_by_itself() {
        let mut rng = Rng::new(2);
        let mut versions = Versions::default();
        let first = noise(&mut rng, 4096);
        versions.remember(&Bytes::copy_of(&first));
        assert!(versions.difference(&noise(&mut rng, 4096)).is_none());
        // One place is the same, nothing else.
        let mut other = noise(&mut rng, 4096);
        other[512..544].copy_from_slice(&first[512..544]);
        assert!(versions.difference(&other).is_none());
        assert!(versions.difference(&first[..2048]).is_none());
    }

    #[test]
    fn a_clone_begins_without_versions() {
        let mut versions = Versions::default();
        versions.remember(&Bytes::copy_of(&[7; 4096]));
        assert!(versions.difference(&[7; 4096]).is_some());
        assert!(versions.clone().difference(&[7; 4096]).is_none());
    }
}
