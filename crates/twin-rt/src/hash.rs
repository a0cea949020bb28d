//! Hash maps with a fixed hash function: iteration order and speed are the same in every run.

#![allow(clippy::disallowed_types)] // Only this file uses the std types, with a fixed hasher.
use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasherDefault, Hasher};

/// A hash map whose order depends only on the insertions and removals.
pub type FixedMap<K, V> = HashMap<K, V, BuildHasherDefault<FixedHasher>>;
/// A hash set whose order depends only on the insertions and removals.
pub type FixedSet<K> = HashSet<K, BuildHasherDefault<FixedHasher>>;

/// Multiply-and-rotate hashing of integers. The final mix is needed because the standard table
/// takes its bucket from the low bits and its tag from the high bits. The hash is fast for keys of
/// a few words. A client that chooses keys can make them collide, so names of clients must not be
/// keys unless a seed is mixed in.
#[derive(Default, Clone, Copy, Debug)]
pub struct FixedHasher(u64);

const K: u64 = 0xf135_7aea_2e62_a9c5;

impl Hasher for FixedHasher {
    fn write(&mut self, bytes: &[u8]) {
        let (chunks, rest) = bytes.as_chunks::<8>();
        for chunk in chunks {
            self.write_u64(u64::from_le_bytes(*chunk));
        }
        if !rest.is_empty() {
            let mut last = [0u8; 8];
            last[..rest.len()].copy_from_slice(rest);
            self.write_u64(u64::from_le_bytes(last) ^ ((rest.len() as u64) << 56));
        }
    }

    fn write_u8(&mut self, n: u8) {
        self.write_u64(u64::from(n));
    }

    fn write_u32(&mut self, n: u32) {
        self.write_u64(u64::from(n));
    }

    fn write_u64(&mut self, n: u64) {
        self.0 = (self.0.rotate_left(26) ^ n).wrapping_mul(K);
    }

    fn write_i64(&mut self, n: i64) {
        self.write_u64(n as u64);
    }

    fn write_usize(&mut self, n: usize) {
        self.write_u64(n as u64);
    }

    fn finish(&self) -> u64 {
        self.0 ^ (self.0 >> 32)
    }
}
