//! The content of a regular file: a map from logical blocks to their content. Missing blocks are
//! holes.
//!
//! Contract: every block, even the last one of a file, is stored with all of its `block_size`
//! bytes. Bytes behind the end of the file are zero, so that extending the file shows zeros. Data
//! that fits the inode (of a file that has been small since it was empty) is always stored as
//! bytes.

use std::collections::BTreeMap;

use twin_disk::{Block, Stamp};

use twin_fs::{Data, Ino};

/// The form in which a model stores user data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DataMode {
    /// Every byte. Synthetic data becomes the bytes that its stamps would stand for.
    Bytes,
    /// Only the request that changed each block last.
    Stamps,
}

/// The units in which a request changes a file.
#[derive(Clone, Copy, Debug)]
pub(super) struct Grain {
    pub(super) block_size: u64,
    /// The most bytes that an inode stores itself.
    pub(super) inline_max: u64,
    pub(super) data: DataMode,
    pub(super) ino: Ino,
    /// The request's number: the version of the stamps that it makes.
    pub(super) version: u64,
}

impl Grain {
    fn stamp(&self, lbn: u64) -> Stamp {
        let len = self.block_size as u32;
        Stamp { ino: self.ino, lbn, version: self.version, off: 0, len }
    }
}

/// The blocks of one file by number; a missing one is a hole.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Content {
    blocks: BTreeMap<u64, Block>,
    /// True if the inode stores the content.
    inline: bool,
}

/// The part of a range that lies in a block, as offsets in the block.
fn part_in(block_size: u64, lbn: u64, off: u64, end: u64) -> std::ops::Range<usize> {
    let start = lbn * block_size;
    (off.max(start) - start) as usize..(end.min(start + block_size) - start) as usize
}

/// The numbers of the blocks that a range touches.
fn blocks_of(block_size: u64, off: u64, end: u64) -> std::ops::Range<u64> {
    if off >= end { 0..0 } else { off / block_size..end.div_ceil(block_size) }
}

impl Content {
    /// Space used, in units of 512 bytes.
    pub(super) fn sectors(&self, grain: &Grain) -> u64 {
        self.blocks.len() as u64 * (grain.block_size / 512)
    }

    /// All blocks that are not holes.
    pub(super) fn blocks(&self) -> impl Iterator<Item = (u64, &Block)> {
        self.blocks.iter().map(|(lbn, block)| (*lbn, block))
    }

    /// A block, unless it is a hole.
    pub(super) fn block(&self, lbn: u64) -> Option<&Block> {
        self.blocks.get(&lbn)
    }

    /// The bytes `off..end`, in pieces of at most a block.
    pub(super) fn read(&self, block_size: u64, off: u64, end: u64) -> Vec<Block> {
        let piece = |lbn| {
            let part = part_in(block_size, lbn, off, end);
            match self.blocks.get(&lbn) {
                None => Block::Zero(part.len() as u32),
                Some(block) => block.slice(part.start, part.len()),
            }
        };
        blocks_of(block_size, off, end).map(piece).collect()
    }

    /// Writes into a file of `size` bytes.
    pub(super) fn write(&mut self, grain: &Grain, size: u64, off: u64, data: &Data) {
        let end = off + data.len();
        let empty = size == 0 && self.blocks.is_empty();
        self.inline = (self.inline || empty) && end.max(size) <= grain.inline_max;
        for lbn in blocks_of(grain.block_size, off, end) {
            let part = part_in(grain.block_size, lbn, off, end);
            let stamp = grain.stamp(lbn);
            if grain.data == DataMode::Stamps && !self.inline {
                self.blocks.insert(lbn, Block::Stamp(stamp));
                continue;
            }
            let hole = Block::Zero(grain.block_size as u32);
            let target = &mut self.blocks.entry(lbn).or_insert(hole).bytes_mut()[part.clone()];
            match data {
                Data::Bytes(bytes) => {
                    let from = (lbn * grain.block_size + part.start as u64 - off) as usize;
                    target.copy_from_slice(&bytes[from..from + part.len()]);
                }
                Data::Synthetic(_) => {
                    let (off, len) = (part.start as u32, part.len() as u32);
                    Stamp { off, len, ..stamp }.expand(target);
                }
            }
        }
    }

    /// Zeroes the part of a block in the range, or changes its stamp.
    fn zero_part(&mut self, grain: &Grain, lbn: u64, part: std::ops::Range<usize>) {
        match self.blocks.get_mut(&lbn) {
            None | Some(Block::Zero(_)) => {}
            Some(block @ Block::Bytes(_)) => block.bytes_mut()[part].fill(0),
            Some(block @ Block::Stamp(_)) => *block = Block::Stamp(grain.stamp(lbn)),
        }
    }

    /// Truncates the content to a size, or prepares it to be extended.
    pub(super) fn set_size(&mut self, grain: &Grain, old: u64, new: u64) {
        if new >= old {
            self.inline &= new <= grain.inline_max;
            if self.inline && new > 0 {
                let zero = Block::Zero(grain.block_size as u32);
                self.blocks.entry(0).or_insert(zero);
            }
            return;
        }
        self.blocks.split_off(&new.div_ceil(grain.block_size));
        let cut = (new % grain.block_size) as usize;
        if cut > 0 {
            let part = cut..grain.block_size as usize;
            self.zero_part(grain, new / grain.block_size, part);
        }
    }

    /// Zeroes the bytes `off..end`, which are within the file's size. A block whose bytes within
    /// the file are all in the range becomes a hole.
    pub(super) fn zero(&mut self, grain: &Grain, size: u64, off: u64, end: u64) {
        let end = end.min(size);
        let touched = blocks_of(grain.block_size, off, end);
        let touched: Vec<u64> = self.blocks.range(touched).map(|(lbn, _)| *lbn).collect();
        for lbn in touched {
            let part = part_in(grain.block_size, lbn, off, end);
            if part == part_in(grain.block_size, lbn, 0, size) {
                self.blocks.remove(&lbn);
                self.inline = false;
            } else {
                self.zero_part(grain, lbn, part);
            }
        }
    }

    /// As [`zero`](Self::zero), but the blocks stay.
    pub(super) fn clear(&mut self, grain: &Grain, size: u64, off: u64, end: u64) {
        let end = end.min(size);
        let touched = blocks_of(grain.block_size, off, end);
        let touched: Vec<u64> = self.blocks.range(touched).map(|(lbn, _)| *lbn).collect();
        for lbn in touched {
            let part = part_in(grain.block_size, lbn, off, end);
            if !self.inline && part == part_in(grain.block_size, lbn, 0, size) {
                self.blocks.insert(lbn, Block::Zero(grain.block_size as u32));
            } else {
                self.zero_part(grain, lbn, part);
            }
        }
    }

    /// Turns the holes in a range into blocks of zeros.
    pub(super) fn fill(&mut self, grain: &Grain, off: u64, end: u64) {
        if !self.inline {
            for lbn in blocks_of(grain.block_size, off, end) {
                self.blocks.entry(lbn).or_insert(Block::Zero(grain.block_size as u32));
            }
        }
    }

    /// The first byte of data at or after `off`.
    pub(super) fn next_data(&self, block_size: u64, off: u64) -> Option<u64> {
        let (lbn, _) = self.blocks.range(off / block_size..).next()?;
        Some(off.max(lbn * block_size))
    }

    /// The first byte of a hole at or after `off`.
    pub(super) fn next_hole(&self, block_size: u64, off: u64) -> u64 {
        let first = off / block_size;
        let run = self.blocks.range(first..).zip(first..).take_while(|((lbn, _), n)| **lbn == *n);
        off.max((first + run.count() as u64) * block_size)
    }
}

#[cfg(test)]
impl Content {
    /// Applies `f` to each block. Blocks for which it returns `None` are left out.
    pub(super) fn mapped(&self, f: impl Fn(u64, &Block) -> Option<Block>) -> Content {
        let blocks = self.blocks.iter().filter_map(|(lbn, block)| Some((*lbn, f(*lbn, block)?)));
        Content { blocks: blocks.collect(), inline: self.inline }
    }
}
