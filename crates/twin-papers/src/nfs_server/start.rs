//! The state of the log before the first request (Heuristic Cleaning, section 4).
//!
//! Files are grouped by the octave of their size in blocks. A pass over the requests alone shows
//! over how many segments the writes of a file in each group are spread. Each file that exists at
//! the start is spread evenly over as many segments, and is contiguous in each of them.

use twin_trace::nfs::{Kind, Stream};

use super::log::{INODE, Log, NodeBlock, SECTOR, SEGMENT_SECTORS};
use super::{BLOCK_SECTORS, DIRECTORY_SECTORS, INODE_SECTORS};

const GROUPS: usize = 32;

/// Mean number of segments by octave of blocks.
pub(super) type Spans = [f64; GROUPS];

fn group(blocks: u32) -> usize {
    blocks.max(1).ilog2() as usize
}

/// The mean number of segments over which the interleaving of the requests spreads a file that is
/// written in one go.
pub(super) fn spans(requests: Stream) -> Spans {
    let mut written = 0u64;
    // For each node: its number of blocks, its last segment, and its number of segments.
    let mut open: std::collections::BTreeMap<u32, (u32, u64, u32)> = Default::default();
    let (mut sums, mut counts) = ([0.0; GROUPS], [0.0; GROUPS]);
    let mut close = |(blocks, _, segments): (u32, u64, u32)| {
        sums[group(blocks)] += f64::from(segments);
        counts[group(blocks)] += 1.0;
    };
    for op in requests {
        match op.kind {
            Kind::Write(node, _, bytes) => {
                let segment = written / u64::from(SEGMENT_SECTORS);
                written += u64::from(bytes).div_ceil(SECTOR);
                let file = open.entry(node).or_insert((0, u64::MAX, 0));
                file.0 += 1;
                file.2 += u32::from(file.1 != segment);
                file.1 = segment;
            }
            Kind::Truncate(node) | Kind::Remove { node, .. } => {
                open.remove(&node).into_iter().for_each(&mut close);
            }
            Kind::SetAttr(_) => written += u64::from(INODE_SECTORS),
            Kind::Create { .. } | Kind::Rename(_) => written += u64::from(DIRECTORY_SECTORS),
            Kind::GetAttr(_) | Kind::ReadDir(_) | Kind::Read(..) => {}
        }
    }
    open.into_values().for_each(&mut close);
    std::array::from_fn(|at| if counts[at] > 0.0 { sums[at] / counts[at] } else { 1.0 })
}

/// Places the files of a stream in `segments` segments, about equally full.
///
/// Returns false if they do not fit.
pub(super) fn lay_out(log: &mut Log, stream: &Stream, spans: &Spans, segments: u32) -> bool {
    let mut bins: Vec<Vec<NodeBlock>> = vec![Vec::new(); segments as usize];
    let mut at = 0usize;
    for (node, sectors) in (0u32..).zip(stream.sizes()) {
        let Some(sectors) = *sectors else { continue };
        if node < stream.directories() {
            bins[at % segments as usize].push(NodeBlock {
                node,
                block: 0,
                sectors: DIRECTORY_SECTORS,
            });
        }
        let blocks = if node < stream.directories() { 0 } else { sectors.div_ceil(BLOCK_SECTORS) };
        bins[at % segments as usize].push(NodeBlock { node, block: INODE, sectors: INODE_SECTORS });
        let span = (spans[group(blocks)].round() as u32).clamp(1, segments);
        let each = blocks.div_ceil(span).max(1);
        for block in 0..blocks {
            bins[(at + (block / each) as usize) % segments as usize].push(NodeBlock {
                node,
                block,
                sectors: (sectors - block * BLOCK_SECTORS).min(BLOCK_SECTORS),
            });
        }
        at += span as usize;
    }
    even_out(&mut bins);
    for bin in bins {
        if !log.advance() {
            return false;
        }
        for piece in bin {
            if log.room() < piece.sectors {
                return false;
            }
            log.append(piece, 0);
        }
    }
    log.advance()
}

/// Moves pieces from overfull bins to their neighbours.
fn even_out(bins: &mut [Vec<NodeBlock>]) {
    let size = |bin: &[NodeBlock]| bin.iter().map(|piece| u64::from(piece.sectors)).sum::<u64>();
    let all: u64 = bins.iter().map(|bin| size(bin)).sum();
    let most = (all / bins.len().max(1) as u64 + 40).min(u64::from(SEGMENT_SECTORS));
    let mut rest: Vec<NodeBlock> = Vec::new();
    for _ in 0..2 {
        for bin in bins.iter_mut() {
            let mut full = size(bin);
            while full > most {
                let Some(piece) = bin.pop() else { break };
                full -= u64::from(piece.sectors);
                rest.push(piece);
            }
            while let Some(piece) = rest.pop_if(|piece| full + u64::from(piece.sectors) <= most) {
                full += u64::from(piece.sectors);
                bin.push(piece);
            }
        }
    }
    // The remaining pieces are kept in the last bin, where the lack of space is noticed.
    if let Some(bin) = bins.last_mut() {
        bin.append(&mut rest);
    }
}
