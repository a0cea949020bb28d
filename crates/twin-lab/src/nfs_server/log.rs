//! The log of the study: where every block lies, in segments of a megabyte. No contents.
//!
//! Sizes are counted in sectors. A piece is a data block, a directory's block or an inode.

use twin_clean::facts::{NO_SEGMENT, SegmentFacts, State, View};

/// Sectors of a segment, and bytes of a sector.
pub(super) const SEGMENT_SECTORS: u32 = 2048;
pub(super) const SECTOR: u64 = 512;
/// Overhead of a log write: a summary.
pub(super) const SUMMARY_SECTORS: u32 = 1;
/// Number of the piece that is a node's inode.
pub(super) const INODE: u32 = u32::MAX;
const NOWHERE: u32 = u32::MAX;
const SLOT_BITS: u32 = 12;

/// A node and the number of its block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Piece {
    pub(super) node: u32,
    pub(super) block: u32,
    pub(super) sectors: u32,
}

#[derive(Default)]
struct Node {
    blocks: Vec<u32>,
    inode: u32,
}

/// Who writes: each has a segment of its own.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Head {
    User = 0,
    Cleaner = 1,
}

pub(super) struct Log {
    pub(super) segments: Vec<SegmentFacts>,
    /// By segment: what was written to it.
    pieces: Vec<Vec<Piece>>,
    nodes: Vec<Node>,
    clean: Vec<u32>,
    open: [u32; 2],
    /// Sectors that users have written: the clock of the policies.
    pub(super) now: u64,
    live_sectors: u64,
    opened: u64,
}

impl Log {
    pub(super) fn new(segments: u32) -> Log {
        Log {
            segments: vec![SegmentFacts::default(); segments as usize],
            pieces: vec![Vec::new(); segments as usize],
            nodes: Vec::new(),
            clean: (0..segments).rev().collect(),
            open: [NO_SEGMENT; 2],
            now: 0,
            live_sectors: 0,
            opened: 0,
        }
    }

    pub(super) fn view(&self) -> View<'_> {
        View {
            now: self.now,
            live_blocks: self.live_sectors,
            segment_blocks: SEGMENT_SECTORS,
            segments: &self.segments,
            open: &self.open,
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

    /// Where a piece lies: segment and sector; none if it is nowhere.
    pub(super) fn find(&self, node: u32, block: u32) -> Option<u32> {
        let node = self.nodes.get(node as usize)?;
        let place =
            if block == INODE { Some(&node.inode) } else { node.blocks.get(block as usize) };
        place.filter(|&&place| place != NOWHERE).map(|place| place >> SLOT_BITS)
    }

    /// A piece is no longer needed where it lies.
    pub(super) fn kill(&mut self, node: u32, block: u32) {
        let place = std::mem::replace(self.place(node, block), NOWHERE);
        if place == NOWHERE {
            return;
        }
        let (segment, slot) = (place >> SLOT_BITS, place & ((1 << SLOT_BITS) - 1));
        let sectors = self.pieces[segment as usize][slot as usize].sectors;
        self.segments[segment as usize].live_blocks -= sectors;
        self.live_sectors -= u64::from(sectors);
    }

    /// All blocks of a node from `from` on, and with it from 0 the inode too if `inode`.
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

    /// Sectors that still fit into a head's segment; none are left if it has none.
    pub(super) fn room(&self, head: Head) -> u32 {
        match self.segments.get(self.open[head as usize] as usize) {
            Some(facts) => facts.size_blocks - facts.written_blocks,
            None => 0,
        }
    }

    /// The segment of a head and the sectors written to it.
    pub(super) fn position(&self, head: Head) -> (u32, u32) {
        let segment = self.open[head as usize];
        (segment, self.segments.get(segment as usize).map_or(0, |facts| facts.written_blocks))
    }

    /// Goes on in a clean segment; false if there is none.
    pub(super) fn advance(&mut self, head: Head) -> bool {
        let Some(segment) = self.clean.pop() else { return false };
        let old = std::mem::replace(&mut self.open[head as usize], segment);
        if let Some(facts) = self.segments.get_mut(old as usize) {
            facts.state = State::Sealed;
            facts.sealed_at = self.now;
            // What was not used is garbage like any other.
            facts.written_blocks = facts.size_blocks;
        }
        self.segments[segment as usize] = SegmentFacts {
            state: State::Open,
            class: head as u8,
            size_blocks: SEGMENT_SECTORS,
            opened_at: self.now,
            serial: self.opened,
            ..SegmentFacts::default()
        };
        self.opened += 1;
        self.pieces[segment as usize].clear();
        true
    }

    /// Sectors of overhead.
    pub(super) fn pad(&mut self, head: Head, sectors: u32) {
        let facts = &mut self.segments[self.open[head as usize] as usize];
        facts.written_blocks += sectors;
    }

    /// Writes a piece to a head's segment, where it must fit; its old copy dies.
    pub(super) fn append(&mut self, head: Head, piece: Piece, youngest_at: u64) {
        self.kill(piece.node, piece.block);
        let segment = self.open[head as usize];
        let pieces = &mut self.pieces[segment as usize];
        let slot = pieces.len() as u32;
        pieces.push(piece);
        let facts = &mut self.segments[segment as usize];
        facts.written_blocks += piece.sectors;
        facts.live_blocks += piece.sectors;
        facts.youngest_at = facts.youngest_at.max(youngest_at);
        self.live_sectors += u64::from(piece.sectors);
        *self.place(piece.node, piece.block) = segment << SLOT_BITS | slot;
    }

    /// What is live in a segment.
    pub(super) fn live(&mut self, segment: u32) -> Vec<Piece> {
        let pieces = self.pieces[segment as usize].clone();
        let live = pieces.into_iter().enumerate().filter(|(slot, piece)| {
            *self.place(piece.node, piece.block) == segment << SLOT_BITS | *slot as u32
        });
        live.map(|(_, piece)| piece).collect()
    }

    /// Makes a segment clean.
    ///
    /// # Panics
    /// If something in it is live.
    pub(super) fn free(&mut self, segment: u32) {
        assert_eq!(
            self.segments[segment as usize].live_blocks, 0,
            "live data in segment {segment}"
        );
        self.segments[segment as usize] = SegmentFacts::default();
        self.pieces[segment as usize].clear();
        self.clean.insert(0, segment);
    }

    /// Sealed segments in which nothing is live become clean: that costs nothing.
    pub(super) fn free_empty(&mut self) {
        for segment in 0..self.segments.len() as u32 {
            let facts = &self.segments[segment as usize];
            if facts.state == State::Sealed && facts.live_blocks == 0 {
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
        let piece = |block| Piece { node: 5, block, sectors: 16 };
        assert!(log.advance(Head::User));
        log.append(Head::User, piece(0), 0);
        log.append(Head::User, piece(1), 0);
        log.append(Head::User, piece(0), 0);
        let (segment, written) = log.position(Head::User);
        assert_eq!((log.live_sectors(), written), (32, 48));
        assert_eq!(log.live(segment), [piece(1), piece(0)]);
        log.cut(5, true);
        assert!(log.live(segment).is_empty());
        assert!(log.advance(Head::User));
        log.free_empty();
        assert_eq!(log.clean_segments(), 2);
    }
}
