//! Turns the blocks of a write into pieces of memory that direct I/O accepts.
//!
//! Direct I/O requires each piece to have an aligned address and to be a whole number of sectors
//! long. Blocks that satisfy this are written from where they are; runs of other blocks are copied
//! together.

use twin_disk::{Block, BufPool, Bytes};

use crate::zeros::push_zeros;

/// The requirements of a device for the pieces of a write.
#[derive(Clone, Copy)]
pub(super) struct Alignment {
    /// Each piece is a multiple of this many bytes.
    pub(super) sector: usize,
    /// Each piece starts at a multiple of this.
    pub(super) memory_align: usize,
}

/// Turns the blocks into pieces of this alignment, in order. The total length of the blocks must be
/// a whole number of sectors.
pub(super) fn gather(blocks: Vec<Block>, alignment: Alignment, buffers: &BufPool) -> Vec<Bytes> {
    let mut pieces = Vec::with_capacity(blocks.len());
    let mut run = CopyRun::default();
    for block in blocks {
        if run.len.is_multiple_of(alignment.sector) && fits(&block, alignment) {
            run.end(&mut pieces, buffers);
            match block {
                Block::Bytes(bytes) => pieces.push(bytes),
                block => push_zeros(&mut pieces, block.len()),
            }
        } else {
            run.add(block);
        }
    }
    run.end(&mut pieces, buffers);
    pieces
}

fn fits(block: &Block, alignment: Alignment) -> bool {
    let at = match block {
        Block::Bytes(bytes) => bytes.as_ptr() as usize,
        Block::Zero(_) => 0,
        Block::Stamp(_) => return false,
    };
    at.is_multiple_of(alignment.memory_align) && block.len().is_multiple_of(alignment.sector)
}

/// Blocks that will be copied together.
#[derive(Default)]
struct CopyRun {
    blocks: Vec<Block>,
    len: usize,
}

impl CopyRun {
    fn add(&mut self, block: Block) {
        self.len += block.len();
        self.blocks.push(block);
    }

    fn end(&mut self, pieces: &mut Vec<Bytes>, buffers: &BufPool) {
        if self.len > 0 {
            let mut copy = buffers.take(self.len);
            let mut at = 0;
            for block in &self.blocks {
                block.copy_to(&mut copy[at..at + block.len()]);
                at += block.len();
            }
            pieces.push(copy.freeze());
        }
        self.blocks.clear();
        self.len = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use twin_disk::{Buf, Stamp};
    use twin_rt::Rng;

    const ALIGNMENT: Alignment = Alignment { sector: 512, memory_align: 512 };

    fn joined(blocks: &[Block]) -> Vec<u8> {
        blocks.iter().flat_map(|b| b.to_bytes().to_vec()).collect()
    }

    #[test]
    fn aligned_blocks_are_not_copied() {
        let mut bytes = Buf::aligned(8192);
        bytes.fill(7);
        let bytes = bytes.freeze();
        let blocks = vec![Block::Bytes(bytes.slice(0, 512)), Block::Bytes(bytes.slice(4096, 4096))];
        let pieces = gather(blocks, ALIGNMENT, &BufPool::new(1 << 20));
        assert_eq!(pieces[0].as_ptr(), bytes.as_ptr());
        assert_eq!(pieces[1].as_ptr(), bytes[4096..].as_ptr());
    }

    #[test]
    fn any_blocks_become_aligned_pieces_with_the_same_content() {
        for seed in 0..200 {
            let mut rng = Rng::new(seed);
            let source = Buf::copy_of(&(0..65536).map(|i| (i * 7) as u8).collect::<Vec<_>>());
            let source = source.freeze();
            let mut blocks = Vec::new();
            for _ in 0..rng.range(1, 20) {
                let len = match rng.below(3) {
                    0 => 512 * rng.range(1, 20) as usize,
                    1 => rng.range(1, 2000) as usize,
                    _ => 70_000,
                };
                blocks.push(match rng.below(3) {
                    0 => Block::Zero(len as u32),
                    1 => {
                        let len = len.min(30_000);
                        let off = rng.below(30_000) as usize;
                        let off = if rng.chance(0.5) { off / 512 * 512 } else { off };
                        Block::Bytes(source.slice(off, len))
                    }
                    _ => {
                        let (off, len) = (0, len as u32);
                        Block::Stamp(Stamp { ino: 1, lbn: seed, version: 3, off, len })
                    }
                });
            }
            let total: usize = blocks.iter().map(Block::len).sum();
            blocks.push(Block::Zero((512 - total % 512) as u32));
            let want = joined(&blocks);
            let pieces = gather(blocks, ALIGNMENT, &BufPool::new(1 << 20));
            let well_aligned = |p: &Bytes| {
                p.len().is_multiple_of(512) && (p.as_ptr() as usize).is_multiple_of(512)
            };
            assert!(pieces.iter().all(well_aligned), "seed {seed}");
            let got: Vec<u8> = pieces.iter().flat_map(|p| p.to_vec()).collect();
            assert!(got == want, "seed {seed}");
        }
    }
}
