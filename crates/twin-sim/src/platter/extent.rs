//! One stored run of a platter, and how runs are cut and joined.
//!
//! An extent is a byte range with one [`ExtentContent`] of content: real bytes, packed if that
//! saves enough, or a run of stamps in arithmetic progression. A file of any length that is written
//! in order takes one extent.

use twin_disk::{Block, Bytes, Stamp};

use super::packed::{MOST, Packed};
use super::versions::{Versions, kept};

/// Stamps of consecutive blocks of one file, seen through a window.
///
/// Block `i` of the sequence is the stamp `(ino, lbn + i, version + i * step)` of `unit` bytes. The
/// window begins `off` bytes into block 0; the extent holds its length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct StampRun {
    ino: u64,
    lbn: u64,
    version: u64,
    /// Difference of the version from one block to the next.
    step: u32,
    /// Bytes of a block; only a lower bound while the window shows a single block.
    unit: u32,
    off: u32,
}

impl StampRun {
    fn of(stamp: Stamp) -> StampRun {
        let Stamp { ino, lbn, version, off, len } = stamp;
        StampRun { ino, lbn, version, step: 0, unit: off + len, off }
    }

    fn stamp_at(&self, pos: u64, len: u64) -> Stamp {
        let unit = u64::from(self.unit);
        let (block, off) = (pos / unit, pos % unit);
        Stamp {
            ino: self.ino,
            lbn: self.lbn + block,
            version: self.version + block * u64::from(self.step),
            off: off as u32,
            len: (unit - off).min(len) as u32,
        }
    }

    /// Returns the same sequence with the window moved on by `by` bytes.
    fn moved(&self, by: u64) -> StampRun {
        let first = self.stamp_at(u64::from(self.off) + by, 1);
        StampRun { lbn: first.lbn, version: first.version, off: first.off, ..*self }
    }

    /// This window of `len` bytes, lengthened by a window `next` of another run, if the stamps of
    /// `next` are those with which this run continues.
    fn joined(&self, len: u64, next: &StampRun, next_len: u64) -> Option<StampRun> {
        if self.ino != next.ino {
            return None;
        }
        let end = u64::from(self.off) + len;
        let one = end <= u64::from(self.unit);
        let next_one = u64::from(next.off) + next_len <= u64::from(next.unit);
        if one && next.lbn == self.lbn && next.version == self.version {
            // Two cuts of one block; the second has the better bound of the block's length.
            let follows = u64::from(next.off) == end && (next_one || next.unit >= self.unit);
            let whole = StampRun { unit: self.unit.max(next.unit), step: next.step, ..*self };
            return follows.then_some(whole);
        }
        let unit = u64::from(self.unit);
        let fits = if next_one { next.unit <= self.unit } else { next.unit == self.unit };
        if !end.is_multiple_of(unit) || next.off != 0 || !fits {
            return None;
        }
        let blocks = end / unit;
        if next.lbn != self.lbn + blocks {
            return None;
        }
        let step = if one {
            u32::try_from(next.version.checked_sub(self.version)?).ok()?
        } else {
            self.step
        };
        let follows = next.version == self.version + blocks * u64::from(step)
            && (next_one || next.step == step);
        follows.then_some(StampRun { step, ..*self })
    }
}

/// The content of an extent.
#[derive(Clone, Debug)]
pub(super) enum ExtentContent {
    Bytes(Bytes),
    /// A position in packed bytes: the content begins at this byte of them.
    Packed(Packed, u32),
    Stamps(StampRun),
}

/// A byte range of a platter that is not zero, with its content.
#[derive(Clone, Debug)]
pub(super) struct Extent {
    pub(super) start: u64,
    pub(super) len: u64,
    piece: ExtentContent,
}

impl Extent {
    /// Calls `f` for the extents that the block makes at `start`: one, several if it has bytes that
    /// can be packed in parts, or none for zeros, which are not stored.
    pub(super) fn of(
        start: u64,
        block: &Block,
        versions: &mut Versions,
        f: &mut impl FnMut(Extent),
    ) {
        let piece = match block {
            Block::Zero(_) => return,
            Block::Bytes(bytes) => return Extent::of_bytes(start, bytes, versions, f),
            Block::Stamp(stamp) => ExtentContent::Stamps(StampRun::of(*stamp)),
        };
        f(Extent { start, len: block.len() as u64, piece });
    }

    fn of_bytes(start: u64, bytes: &Bytes, versions: &mut Versions, f: &mut impl FnMut(Extent)) {
        // Bytes that are not packed stay together and go on sharing their buffer.
        let (mut at, mut from) = (0, 0);
        let plain = |from: usize, to: usize, f: &mut dyn FnMut(Extent)| {
            if from < to {
                let piece = ExtentContent::Bytes(kept(&bytes.slice(from, to - from)));
                f(Extent { start: start + from as u64, len: (to - from) as u64, piece });
            }
        };
        while at < bytes.len() {
            // Cut as blocks are, so that reading one unpacks one.
            let here = start + at as u64;
            let most = if bytes.len() > MOST { MOST - (here % MOST as u64) as usize } else { MOST };
            let end = (at + most).min(bytes.len());
            if let Some(packed) = versions.packed(bytes, at, end) {
                plain(from, at, f);
                f(Extent {
                    start: here,
                    len: (end - at) as u64,
                    piece: ExtentContent::Packed(packed, 0),
                });
                from = end;
            }
            at = end;
        }
        plain(from, at, f);
    }

    pub(super) fn end(&self) -> u64 {
        self.start + self.len
    }

    /// The part from `from` to `to`, both inside the extent.
    pub(super) fn cut(&self, from: u64, to: u64) -> Extent {
        let by = from - self.start;
        let piece = match &self.piece {
            ExtentContent::Bytes(bytes) => {
                ExtentContent::Bytes(bytes.slice(by as usize, (to - from) as usize))
            }
            ExtentContent::Packed(packed, off) => {
                ExtentContent::Packed(packed.clone(), off + by as u32)
            }
            ExtentContent::Stamps(run) => ExtentContent::Stamps(run.moved(by)),
        };
        Extent { start: from, len: to - from, piece }
    }

    /// Lengthens the extent by `next`, if that begins at its end and continues its stamps.
    pub(super) fn join(&mut self, next: &Extent) -> bool {
        if self.end() != next.start {
            return false;
        }
        let (ExtentContent::Stamps(a), ExtentContent::Stamps(b)) = (&self.piece, &next.piece)
        else {
            return false;
        };
        let Some(run) = a.joined(self.len, b, next.len) else { return false };
        self.piece = ExtentContent::Stamps(run);
        self.len += next.len;
        true
    }

    /// Appends the content from `from` to `to` (both inside the extent) to `out`, one block a
    /// stamp.
    pub(super) fn emit(&self, from: u64, to: u64, out: &mut Vec<Block>) {
        match &self.piece {
            ExtentContent::Bytes(bytes) => {
                let off = (from - self.start) as usize;
                out.push(Block::Bytes(bytes.slice(off, (to - from) as usize)));
            }
            ExtentContent::Packed(packed, window) => {
                let off = *window as usize + (from - self.start) as usize;
                out.push(Block::Bytes(packed.unpack().slice(off, (to - from) as usize)));
            }
            ExtentContent::Stamps(run) => {
                let (mut pos, mut left) = (u64::from(run.off) + from - self.start, to - from);
                while left > 0 {
                    let stamp = run.stamp_at(pos, left);
                    out.push(Block::Stamp(stamp));
                    pos += u64::from(stamp.len);
                    left -= u64::from(stamp.len);
                }
            }
        }
    }

    /// Bytes of memory that it holds besides itself.
    pub(super) fn heap_bytes(&self) -> usize {
        match &self.piece {
            ExtentContent::Bytes(bytes) => bytes.buffer_len(),
            ExtentContent::Packed(packed, _) => packed.heap_bytes(),
            ExtentContent::Stamps(_) => 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stamp(lbn: u64, version: u64, off: u32, len: u32) -> Block {
        Block::Stamp(Stamp { ino: 7, lbn, version, off, len })
    }

    fn run_of(blocks: &[Block]) -> Vec<Extent> {
        let (mut at, mut out) = (0, Vec::<Extent>::new());
        for block in blocks {
            Extent::of(at, block, &mut Versions::default(), &mut |extent| {
                if !out.last_mut().is_some_and(|last| last.join(&extent)) {
                    out.push(extent);
                }
            });
            at += block.len() as u64;
        }
        out
    }

    fn blocks_of(extents: &[Extent]) -> Vec<Block> {
        let mut out = Vec::new();
        extents.iter().for_each(|e| e.emit(e.start, e.end(), &mut out));
        out
    }

    #[test]
    fn a_file_written_in_order_is_one_run() {
        let blocks: Vec<_> = (0..100).map(|i| stamp(i, 50 + 2 * i, 0, 4096)).collect();
        let run = run_of(&blocks);
        assert_eq!(run.len(), 1);
        assert_eq!(blocks_of(&run), blocks);
    }

    #[test]
    fn a_short_last_block_ends_a_run() {
        let blocks = [stamp(0, 1, 0, 4096), stamp(1, 1, 0, 1024), stamp(2, 1, 0, 4096)];
        let run = run_of(&blocks);
        assert_eq!(run.len(), 2);
        assert_eq!(blocks_of(&run), blocks);
    }

    #[test]
    fn cuts_of_one_block_join_to_the_block() {
        let run = run_of(&[stamp(3, 1, 0, 512), stamp(3, 1, 512, 3584), stamp(4, 1, 0, 4096)]);
        assert_eq!(blocks_of(&run), [stamp(3, 1, 0, 4096), stamp(4, 1, 0, 4096)]);
    }

    #[test]
    fn a_cut_inside_a_run_shows_the_right_stamps() {
        let run = run_of(&(0..4).map(|i| stamp(i, 9, 0, 4096)).collect::<Vec<_>>());
        let cut = run[0].cut(4096 + 512, 3 * 4096 + 512);
        let expected = [stamp(1, 9, 512, 3584), stamp(2, 9, 0, 4096), stamp(3, 9, 0, 512)];
        assert_eq!(blocks_of(&[cut]), expected);
    }

    #[test]
    fn other_versions_do_not_join() {
        let blocks = [stamp(0, 5, 0, 4096), stamp(1, 5, 0, 4096), stamp(2, 4, 0, 4096)];
        assert_eq!(run_of(&blocks).len(), 2);
    }

    #[test]
    fn a_small_piece_does_not_keep_its_buffer() {
        let big = Bytes::copy_of(&[7; 1 << 20]).slice(512, 512);
        let held: usize = run_of(&[Block::Bytes(big)]).iter().map(Extent::heap_bytes).sum();
        assert!(held < 8192);
    }

    #[test]
    fn metadata_is_kept_without_its_zeros() {
        // Like inodes: a few numbers in 512 bytes, in a buffer that is not divided into blocks.
        let mut bytes = vec![0u8; 100_000];
        for inode in bytes.chunks_mut(512) {
            inode.iter_mut().take(160).step_by(4).for_each(|byte| *byte = 9);
        }
        let at = 1536;
        let mut extents = Vec::new();
        let block = Block::Bytes(Bytes::copy_of(&bytes));
        Extent::of(at, &block, &mut Versions::default(), &mut |e| extents.push(e));
        let held: usize = extents.iter().map(Extent::heap_bytes).sum();
        assert!(held < bytes.len() / 5, "{held} bytes for {}", bytes.len());
        for extent in &extents[1..] {
            assert_eq!(extent.start % MOST as u64, 0);
        }
        let cut = extents[3].cut(extents[3].start + 100, extents[3].end() - 100);
        let mut blocks = Vec::new();
        cut.emit(cut.start + 1, cut.end(), &mut blocks);
        let (from, to) = ((cut.start + 1 - at) as usize, (cut.end() - at) as usize);
        assert_eq!(blocks, [Block::Bytes(Bytes::copy_of(&bytes[from..to]))]);
    }
}
