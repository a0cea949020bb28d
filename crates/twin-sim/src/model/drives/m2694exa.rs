//! Fujitsu M2694EXA: 1.08 GB, 3.5 inch. The disk of the ageing studies.

use super::{Buffering, Drive, Overheads, even_zones};
use crate::model::SeekCurve;

const RPM: u32 = 5400;
const CYLINDERS: u32 = 1818;
const HEADS: u32 = 15;

/// File Layout and File System Performance (TR-35-94), table 6: 5400 rpm, 68 to 111 sectors, 1818
/// cylinders, 15 tracks, 512 KB of buffer, 9.5 ms average seek. Drive lists add a track-to-track
/// seek of 2.5 ms and a formatted size of 1,084 MB.
///
/// Assumed, because we found no published figures: eleven zones of equal width with evenly falling
/// sectors (they hold more than the formatted size; the innermost tracks stay unused); a
/// square-root seek curve through the two published figures; head switch (0.865 ms) and overheads
/// of the DEC RZ26, a drive of the same size, speed and year, and skews that take the same time as
/// that drive's (7 and 25 of 58 sectors at 5360 rpm: 1.35 and 4.82 ms); two segments, filled to
/// their end.
pub(in crate::model) fn figures() -> Drive {
    Drive {
        sector_bytes: 512,
        rpm: RPM,
        heads: HEADS,
        zones: even_zones(CYLINDERS, HEADS, 11, (111, 68), RPM, (1.35, 4.82)),
        blocks: Some(1_084_000_000 / 512),
        seek: SeekCurve::from_mean(2.5, 9.5, CYLINDERS),
        head_switch_ms: 0.865,
        write_settle_ms: 0.0,
        overhead: Overheads {
            read_hit_ms: 1.229,
            read_miss_ms: 1.489,
            write_after_read_ms: 2.167,
            write_after_write_ms: 1.94,
            read_done_ms: 0.0,
            write_done_ms: 0.113,
        },
        buffer: Buffering {
            segments: 2,
            segment_sectors: 512,
            read_ahead_sectors: 512,
            write_sectors: 512,
            reports_early: false,
            reorders: false,
        },
        link_bytes_per_s: None,
        link_waits_for_track: false,
        queue_depth: 1,
    }
}
