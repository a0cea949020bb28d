//! The log of the study: the place of every block, in segments of a megabyte. No contents.
//!
//! Sizes are in sectors. A piece is a data block, a directory's block or an inode.

use twin_clean::inputs::{LogView, NO_SEGMENT, SegmentInfo, SegmentState};

/// Sectors of a segment, and bytes of a sector.
pub(super) const SEGMENT_SECTORS: u32 = 2048;
pub(super) const SECTOR: u64 = 512;
/// Sectors of a summary, the overhead of a log write.
pub(super) const SUMMARY_SECTORS: u32 = 1;
/// The block number that stands for a node's inode.
pub(super) const INODE: u32 = u32::MAX;
const NOWHERE: u32 = u32::MAX;
const SLOT_BITS: u32 = 12;

/// A node and the number of its block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct NodeBlock {
    pub(super) node: u32,
    pub(super) block: u32,
    pub(super) sectors: u32,
}

#[derive(Default)]
struct Node {
    blocks: Vec<u32>,
    inode: u32,
}

pub(super) struct Log {
    pub(super) segments: Vec<SegmentInfo>,
    /// For each segment, the pieces that were written to it, and the sectors at which they begin.
    pieces: Vec<Vec<(NodeBlock, u32)>>,
    nodes: Vec<Node>,
    clean: Vec<u32>,
    open: u32,
    /// Sectors that users have written, which is the time of the policies.
    pub(super) now: u64,
    live_sectors: u64,
    opened: u64,
}

/// The segment of a place, and the number of the piece in it.
fn parts(place: u32) -> (usize, usize) {
    ((place >> SLOT_BITS) as usize, (place & ((1 << SLOT_BITS) - 1)) as usize)
}

impl Log {
    pub(super) fn new(segments: u32) -> Log {
        Log {
            segments: vec![SegmentInfo::default(); segments as usize],
            pieces: vec![Vec::new(); segments as usize],
            nodes: Vec::new(),
            clean: (0..segments).rev().collect(),
            open: NO_SEGMENT,
            now: 0,
            live_sectors: 0,
            opened: 0,
        }
    }

    pub(super) fn view(&self) -> LogView<'_> {
        LogView {
            now: self.now,
            live_blocks: self.live_sectors,
            segment_blocks: SEGMENT_SECTORS,
            segments: &self.segments,
            open: std::slice::from_ref(&self.open),
        }
    }

    pub(super) fn clean_segments(&self) -> u32 {
        self.clean.len() as u32
    }

    pub(super) fn live_sectors(&self) -> u64 {
        self.live_sectors
    }

    fn place(&mut self, node: u32, block: u32) -> &mut u32 {
        let nodes = self.nodes.len().max(node as usize + 1);
        self.nodes.resize_with(nodes, || Node { blocks: Vec::new(), inode: NOWHERE });
        let node = &mut self.nodes[node as usize];
        if block == INODE {
            return &mut node.inode;
        }
        let blocks = node.blocks.len().max(block as usize + 1);
        node.blocks.resize(blocks, NOWHERE);
        &mut node.blocks[block as usize]
    }

    /// The place of a piece: segment and sector; `None` if it has none.
    pub(super) fn find(&self, node: u32, block: u32) -> Option<(u32, u32)> {
        let node = self.nodes.get(node as usize)?;
        let place =
            if block == INODE { Some(&node.inode) } else { node.blocks.get(block as usize) };
        let (segment, slot) = parts(*place.filter(|&&place| place != NOWHERE)?);
        Some((segment as u32, self.pieces[segment][slot].1))
    }

    /// The sectors of a piece on the log; 0 if it has no place.
    pub(super) fn sectors(&self, node: u32, block: u32) -> u32 {
        let Some(found) = self.nodes.get(node as usize).and_then(|n| n.blocks.get(block as usize))
        else {
            return 0;
        };
        let (segment, slot) = parts(*found);
        if *found == NOWHERE { 0 } else { self.pieces[segment][slot].0.sectors }
    }

    /// Turns the copy of a piece into garbage.
    pub(super) fn kill(&mut self, node: u32, block: u32) {
        let place = std::mem::replace(self.place(node, block), NOWHERE);
        if place == NOWHERE {
            return;
        }
        let (segment, slot) = parts(place);
        let sectors = self.pieces[segment][slot].0.sectors;
        self.segments[segment].live_blocks -= sectors;
        self.live_sectors -= u64::from(sectors);
    }

    /// Removes all blocks of a node, and its inode too if `inode` is set.
    pub(super) fn cut(&mut self, node: u32, inode: bool) {
        let blocks = self.nodes.get(node as usize).map_or(0, |node| node.blocks.len() as u32);
        (0..blocks).for_each(|block| self.kill(node, block));
        if let Some(node) = self.nodes.get_mut(node as usize) {
            node.blocks.clear();
        }
        if inode {
            self.kill(node, INODE);
        }
    }

    /// Sectors that still fit into the open segment; 0 if there is none.
    pub(super) fn room(&self) -> u32 {
        match self.segments.get(self.open as usize) {
            Some(info) => info.size_blocks - info.written_blocks,
            None => 0,
        }
    }

    /// The open segment and the sectors written to it.
    pub(super) fn position(&self) -> (u32, u32) {
        let segment = self.open;
        (segment, self.segments.get(segment as usize).map_or(0, |info| info.written_blocks))
    }

    /// Continues in a clean segment; returns false if there is none.
    pub(super) fn advance(&mut self) -> bool {
        let Some(segment) = self.clean.pop() else { return false };
        let old = std::mem::replace(&mut self.open, segment);
        if let Some(info) = self.segments.get_mut(old as usize) {
            info.state = SegmentState::Sealed;
            info.sealed_at = self.now;
            // The unused rest is garbage like any other.
            info.written_blocks = info.size_blocks;
        }
        self.segments[segment as usize] = SegmentInfo {
            state: SegmentState::Open,
            size_blocks: SEGMENT_SECTORS,
            opened_at: self.now,
            serial: self.opened,
            ..SegmentInfo::default()
        };
        self.opened += 1;
        self.pieces[segment as usize].clear();
        true
    }

    /// Adds sectors of overhead.
    pub(super) fn pad(&mut self, sectors: u32) {
        let info = &mut self.segments[self.open as usize];
        info.written_blocks += sectors;
    }

    /// Writes a piece to the open segment, where it must fit; its old copy becomes garbage.
    pub(super) fn append(&mut self, piece: NodeBlock, youngest_at: u64) {
        self.kill(piece.node, piece.block);
        let segment = self.open;
        let pieces = &mut self.pieces[segment as usize];
        let slot = pieces.len() as u32;
        let info = &mut self.segments[segment as usize];
        pieces.push((piece, info.written_blocks));
        info.written_blocks += piece.sectors;
        info.live_blocks += piece.sectors;
        info.youngest_at = info.youngest_at.max(youngest_at);
        self.live_sectors += u64::from(piece.sectors);
        *self.place(piece.node, piece.block) = segment << SLOT_BITS | slot;
    }

    /// The live pieces of a segment.
    pub(super) fn live(&mut self, segment: u32) -> Vec<NodeBlock> {
        let pieces = self.pieces[segment as usize].clone();
        let live = pieces.into_iter().enumerate().filter(|(slot, (piece, _))| {
            *self.place(piece.node, piece.block) == segment << SLOT_BITS | *slot as u32
        });
        live.map(|(_, (piece, _))| piece).collect()
    }

    /// Makes a segment clean.
    ///
    /// # Panics
    /// If a piece in it is live.
    pub(super) fn free(&mut self, segment: u32) {
        assert_eq!(
            self.segments[segment as usize].live_blocks, 0,
            "live data in segment {segment}"
        );
        self.segments[segment as usize] = SegmentInfo::default();
        self.pieces[segment as usize].clear();
        self.clean.insert(0, segment);
    }

    /// Makes sealed segments without live pieces clean, which costs nothing.
    pub(super) fn free_empty(&mut self) {
        for segment in 0..self.segments.len() as u32 {
            let info = &self.segments[segment as usize];
            if info.state == SegmentState::Sealed && info.live_blocks == 0 {
                self.free(segment);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_piece_that_is_written_again_leaves_garbage_behind() {
        let mut log = Log::new(3);
        let piece = |block| NodeBlock { node: 5, block, sectors: 16 };
        assert!(log.advance());
        log.append(piece(0), 0);
        log.append(piece(1), 0);
        log.append(piece(0), 0);
        let (segment, written) = log.position();
        assert_eq!((log.live_sectors(), written), (32, 48));
        assert_eq!(log.live(segment), [piece(1), piece(0)]);
        log.cut(5, true);
        assert!(log.live(segment).is_empty());
        assert!(log.advance());
        log.free_empty();
        assert_eq!(log.clean_segments(), 2);
    }
}
