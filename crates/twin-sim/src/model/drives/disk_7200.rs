//! A 4 TB disk of the 2010s.

use super::{Buffering, Drive, Overheads, even_zones};
use crate::model::SeekCurve;

const RPM: u32 = 7200;
const CYLINDERS: u32 = 400_700;
const HEADS: u32 = 10;

/// After HGST's Ultrastar 7K4000: 4 TB, 7200 rpm, 8.2 ms average seek for reads, 64 MB of buffer.
///
/// Assumed: 30 zones from 2,600 to 1,300 sectors of 512 bytes (160 to 80 MB/s), with as many
/// cylinders as make 4 TB; a square-root seek curve through 0.6 ms for one cylinder (15 ms for all
/// of them); skews of 1.1 ms, which cover a head switch and a single-cylinder seek; 50 us of
/// controller; a buffer of 16 segments of 1 MB for reading and 32 MB for writes that are reported
/// early. SATA: 6 Gbit/s, that is 600 MB/s after coding (the framing is not counted), and a queue
/// of 32 commands.
pub(in crate::model) fn figures() -> Drive {
    Drive {
        sector_bytes: 512,
        rpm: RPM,
        heads: HEADS,
        zones: even_zones(CYLINDERS, HEADS, 30, (2600, 1300), RPM, (1.1, 1.1)),
        blocks: Some(4_000_000_000_000 / 512),
        seek: SeekCurve::from_mean(0.6, 8.2, CYLINDERS),
        head_switch_ms: 0.8,
        write_settle_ms: 0.2,
        overhead: Overheads::fixed(0.05, 0.05),
        buffer: Buffering {
            segments: 16,
            segment_sectors: 2048,
            read_ahead_sectors: 2048,
            write_sectors: 65_536,
            reports_early: true,
            reorders: true,
        },
        link_bytes_per_s: Some(600_000_000),
        link_waits_for_track: false,
        queue_depth: 32,
    }
}
