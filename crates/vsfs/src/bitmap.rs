//! A bitmap: which numbers, of inodes or of data blocks, are in use.
//!
//! Contract: the whole bitmap is in memory while the volume is open, so that a number can be taken
//! without waiting for the disk. It knows which of its blocks differ from those on the disk.

use std::collections::BTreeSet;

use twin_disk::BlockDevice;
use twin_fs::Result;

use crate::format::{Superblock, read};

/// A bitmap in memory. See the module.
#[derive(Debug)]
pub(crate) struct Bitmap {
    /// Bit n is bit n % 8 of byte n / 8. Whole blocks, as on the disk.
    bytes: Vec<u8>,
    /// The number of valid bits; the bits behind them are zero.
    len: u32,
    used: u32,
    /// Every bit below this one is set, so a search begins here.
    lowest: u32,
    first_block: u32,
    block_size: u32,
    /// Blocks that differ from the disk's, counted from the first.
    dirty: BTreeSet<u32>,
}

impl Bitmap {
    /// All numbers free, on a disk of zeros.
    pub(crate) fn empty(sb: &Superblock, first_block: u32, len: u32) -> Bitmap {
        let blocks = len.div_ceil(sb.block_size * 8);
        let bytes = vec![0; blocks as usize * sb.block_size as usize];
        let block_size = sb.block_size;
        Bitmap { bytes, len, used: 0, lowest: 0, first_block, block_size, dirty: BTreeSet::new() }
    }

    /// Reads the bitmap of `len` bits that begins at a block.
    pub(crate) async fn read(
        device: &dyn BlockDevice,
        sb: &Superblock,
        first_block: u32,
        len: u32,
    ) -> Result<Bitmap> {
        let mut bitmap = Bitmap::empty(sb, first_block, len);
        let at = sb.byte_of(first_block.into());
        bitmap.bytes = read(device, at, bitmap.bytes.len() as u64).await?;
        bitmap.used = (0..len).filter(|&number| bitmap.get(number)).count() as u32;
        Ok(bitmap)
    }

    /// True if a number is in use. Numbers past the end are not.
    pub(crate) fn get(&self, number: u32) -> bool {
        number < self.len && self.bytes[number as usize / 8] & 1 << (number % 8) != 0
    }

    /// Records whether a number is in use. Numbers past the end are ignored.
    pub(crate) fn set(&mut self, number: u32, used: bool) {
        if number >= self.len || self.get(number) == used {
            return;
        }
        self.bytes[number as usize / 8] ^= 1 << (number % 8);
        self.dirty.insert(number / (self.block_size * 8));
        if used {
            self.used += 1;
        } else {
            self.used -= 1;
            self.lowest = self.lowest.min(number);
        }
    }

    /// Takes the first free number from `near` on, or else the first free number of all.
    pub(crate) fn take(&mut self, near: u32) -> Option<u32> {
        let found = self.first_free(near.max(self.lowest)).or_else(|| {
            let first = self.first_free(self.lowest);
            self.lowest = first.unwrap_or(self.len);
            first
        })?;
        self.set(found, true);
        Some(found)
    }

    fn first_free(&self, from: u32) -> Option<u32> {
        // Full bytes are passed over eight numbers at a time.
        let mut number = from;
        while number < self.len {
            if !self.get(number) {
                return Some(number);
            }
            let full = self.bytes[number as usize / 8] == u8::MAX;
            number = if full { (number / 8 + 1) * 8 } else { number + 1 };
        }
        None
    }

    pub(crate) fn used(&self) -> u32 {
        self.used
    }

    pub(crate) fn len(&self) -> u32 {
        self.len
    }

    /// The runs of numbers in use, each with its start and length.
    pub(crate) fn runs(&self) -> Vec<(u32, u32)> {
        let mut runs: Vec<(u32, u32)> = Vec::new();
        for number in (0..self.len).filter(|&number| self.get(number)) {
            match runs.last_mut() {
                Some((first, bits)) if *first + *bits == number => *bits += 1,
                _ => runs.push((number, 1)),
            }
        }
        runs
    }

    /// True if the disk has an older state.
    pub(crate) fn is_dirty(&self) -> bool {
        !self.dirty.is_empty()
    }

    /// All blocks, each with its place and content.
    pub(crate) fn blocks(&self) -> impl Iterator<Item = (u64, Vec<u8>)> + '_ {
        let blocks = self.bytes.chunks(self.block_size as usize);
        (u64::from(self.first_block)..).zip(blocks.map(<[u8]>::to_vec))
    }

    /// The blocks that differ from those on the disk. They count as written from now on.
    pub(crate) fn take_dirty(&mut self) -> Vec<(u64, Vec<u8>)> {
        let dirty = std::mem::take(&mut self.dirty);
        let first = u64::from(self.first_block);
        self.blocks().filter(|(place, _)| dirty.contains(&((place - first) as u32))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bitmap(len: u32) -> Bitmap {
        let sb = Superblock::plan([7; 16], 4 << 20, 1024, 99).unwrap();
        Bitmap::empty(&sb, 5, len)
    }

    #[test]
    fn the_nearest_free_number_is_taken_and_then_the_first() {
        let mut bits = bitmap(20);
        assert_eq!((bits.take(17), bits.take(17), bits.take(17)), (Some(17), Some(18), Some(19)));
        assert_eq!(bits.take(17), Some(0));
        assert_eq!((1..17).map(|_| bits.take(0)).max(), Some(Some(16)));
        assert_eq!((bits.take(0), bits.used()), (None, 20));
        bits.set(3, false);
        assert_eq!(bits.take(9), Some(3));
    }

    #[test]
    fn blocks_that_changed_are_given_once() {
        let mut bits = bitmap(20_000);
        bits.set(8192, true);
        bits.set(30_000, true);
        let dirty = bits.take_dirty();
        assert_eq!(dirty.len(), 1);
        assert_eq!((dirty[0].0, dirty[0].1[0]), (6, 1));
        assert!(!bits.is_dirty() && bits.take_dirty().is_empty());
    }
}
