//! How many segments are kept back, for what: functions of a volume's sizes.

use crate::format::Superblock;

/// Segments that are kept clean ahead of need at the most, beyond what must be.
const AHEAD_MAX: u32 = 32;

/// The most bytes that files, their inodes and their maps may have on a volume, so that the
/// cleaner always finds room to work in: the log less what is kept free of it, or less a fixed
/// reserve if that leaves less. `more` segments are kept back besides.
pub(crate) fn capacity(sb: &Superblock, more: u64) -> u64 {
    let payload = payload(sb);
    let all = payload * u64::from(sb.segments());
    let reserve = payload * (u64::from(reserve_segments(sb)) + more);
    let kept = all / 100 * u64::from(sb.minfree);
    (all - kept).min(all.saturating_sub(reserve))
}

/// Bytes of a segment that can be had for files: it loses its summaries, a block or more, and at its end less than
/// a block.
pub(crate) fn payload(sb: &Superblock) -> u64 {
    let segment = u64::from(sb.segment_size);
    let block = u64::from(sb.geometry.block_size);
    segment - (segment / 64).max(block) - block
}

/// Segments that are never counted on for data: for streams, the cleaner and checkpoints.
pub(crate) fn reserve_segments(sb: &Superblock) -> u32 {
    // The usage table and the ifile's indirect blocks are written at every checkpoint.
    let table = sb.usage_blocks() * u64::from(sb.geometry.block_size);
    let table_segments = (table / u64::from(sb.segment_size)) as u32 + 1;
    (8 + 2 * table_segments).min(sb.segments() / 2)
}

/// Streams beyond the two that the reserve has room for.
pub(crate) fn extra_streams(streams: usize) -> u64 {
    streams.saturating_sub(2) as u64
}

/// Clean segments below which the cleaner works on its own.
pub(crate) fn low_water(sb: &Superblock, streams: usize) -> u32 {
    // On a large volume it begins earlier, so that writers need not wait for it.
    let ahead = 4 + (sb.segments() / 64).min(AHEAD_MAX);
    reserve_segments(sb) + ahead + 2 * extra_streams(streams) as u32
}

/// Segments that a round of the cleaner gains above that: the indirect blocks that are dirty are
/// written with each checkpoint, so there must not be one for every few segments.
pub(crate) fn round_segments(sb: &Superblock) -> u32 {
    2 + (sb.segments() / 64).min(AHEAD_MAX) / 4
}
