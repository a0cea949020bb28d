//! Inode blocks in memory: those on their way to the device, and those read lately.
//!
//! Contract: the inode map leads to the new place of an inode as soon as its log write is built.
//! Until that write has reached the device, the block is here and nowhere else. Blocks that were
//! read are kept in whole units; a unit is forgotten when anything in it is written.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;

use twin_disk::{Block, Bytes, gather};

/// Number of units that are kept after they were read.
const KEPT: usize = 32;

/// Inode blocks on their way to the device, and those read lately.
pub(crate) struct InodeBlocks {
    /// The unit in which inode blocks are read, in bytes: a block.
    unit: u64,
    /// By first byte on the device.
    under_way: RefCell<BTreeMap<u64, Block>>,
    kept: RefCell<VecDeque<(u64, Vec<Block>)>>,
    /// Counts writes: a read during which this changed may be out of date.
    writes: Cell<u64>,
}

impl InodeBlocks {
    /// An empty cache, which reads inode blocks in units of this many bytes.
    pub(crate) fn new(unit: u64) -> InodeBlocks {
        let (under_way, kept) = (RefCell::default(), RefCell::default());
        InodeBlocks { unit, under_way, kept, writes: Cell::new(0) }
    }

    /// The unit in which blocks of inodes are read, in bytes.
    pub(crate) fn unit(&self) -> u64 {
        self.unit
    }

    /// Notes a block that is about to be written at byte `at`.
    pub(crate) fn begin(&self, at: u64, block: Block) {
        self.under_way.borrow_mut().insert(at, block);
    }

    /// Forgets bytes that have been written or are about to be reused.
    pub(crate) fn written(&self, range: Range<u64>) {
        self.under_way.borrow_mut().retain(|at, _| !range.contains(at));
        self.kept.borrow_mut().retain(|(at, _)| *at + self.unit <= range.start || *at >= range.end);
        self.writes.set(self.writes.get() + 1);
    }

    /// The `len` bytes at byte `at`, if they are in memory.
    pub(crate) fn get(&self, at: u64, len: usize) -> Option<Bytes> {
        let under_way = self.under_way.borrow();
        if let Some((start, block)) = under_way.range(..=at).next_back()
            && at < start + block.len() as u64
        {
            return Some(block.slice((at - start) as usize, len).to_bytes());
        }
        let start = at / self.unit * self.unit;
        let kept = self.kept.borrow();
        let (_, blocks) = kept.iter().find(|(unit, _)| *unit == start)?;
        Some(gather(blocks, (at - start) as usize, len).to_bytes())
    }

    /// The count of writes, which the caller takes before it reads a unit.
    pub(crate) fn ticket(&self) -> u64 {
        self.writes.get()
    }

    /// Keeps a unit that was read, unless something was written meanwhile.
    pub(crate) fn keep(&self, ticket: u64, start: u64, blocks: &[Block]) {
        if self.writes.get() != ticket {
            return;
        }
        let mut kept = self.kept.borrow_mut();
        if kept.len() >= KEPT {
            kept.pop_front();
        }
        kept.push_back((start, blocks.to_vec()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(byte: u8, len: usize) -> Block {
        Block::Bytes(Bytes::copy_of(&vec![byte; len]))
    }

    #[test]
    fn a_block_under_way_is_found_until_it_is_written() {
        let blocks = InodeBlocks::new(4096);
        blocks.begin(8192 + 512, block(1, 1024));
        assert_eq!(blocks.get(8192 + 1024, 512).as_deref(), Some(&[1; 512][..]));
        assert_eq!(blocks.get(8192, 512), None);
        assert_eq!(blocks.get(8192 + 1536, 512), None);
        blocks.written(8192..12_288);
        assert_eq!(blocks.get(8192 + 1024, 512), None);
    }

    #[test]
    fn a_unit_is_forgotten_when_a_part_of_it_is_written() {
        let blocks = InodeBlocks::new(4096);
        blocks.keep(blocks.ticket(), 4096, &[block(1, 4096)]);
        blocks.keep(blocks.ticket(), 8192, &[block(2, 4096)]);
        blocks.written(8191 - 1023..8192);
        assert_eq!(blocks.get(4096, 512), None);
        assert_eq!(blocks.get(8192, 512).as_deref(), Some(&[2; 512][..]));
    }

    #[test]
    fn what_was_read_across_a_write_is_not_kept() {
        let blocks = InodeBlocks::new(4096);
        let ticket = blocks.ticket();
        blocks.written(4096..5120);
        blocks.keep(ticket, 4096, &[block(1, 4096)]);
        assert_eq!(blocks.get(4096, 512), None);
    }
}
