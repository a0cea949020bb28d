//! HP C2249A: 1.4 GB, 3.5 inch, 1993.

use super::{Buffering, Drive, Overheads};
use crate::model::{SeekCurve, Zone};

/// `[DiskSim]`: geometry, skews, the seek times of 1 to 10 cylinders and a curve for the others,
/// overheads, two segments of 128 KB with up to 64 KB of read-ahead. DiskSim gives one overhead,
/// for writes that follow a read; writes that follow a write are assumed to have the same.
pub(in crate::model) fn figures() -> Drive {
    let zone = |first, last, sectors, track_skew, cylinder_skew| {
        Zone::cylinders((first, last), 17, sectors, (track_skew, cylinder_skew))
    };
    Drive {
        sector_bytes: 512,
        rpm: 5400,
        heads: 17,
        zones: vec![
            zone(0, 558, 96, 14, 32),
            zone(559, 760, 92, 13, 30),
            zone(761, 901, 88, 13, 29),
            zone(902, 1051, 84, 12, 28),
            zone(1052, 1193, 80, 12, 27),
            zone(1194, 1519, 72, 11, 24),
            zone(1520, 1793, 64, 10, 22),
            zone(1794, 2050, 56, 9, 19),
        ],
        blocks: Some(2_687_632),
        seek: SeekCurve::Pieces {
            first_ms: &[2.89, 3.68, 3.81, 3.98, 4.27, 4.65, 4.52, 4.65, 4.82, 4.99],
            boundary: 299,
            a_ms: 3.81,
            b_ms: 0.33,
            c_ms: 7.75,
            e_ms: 0.0059,
        },
        head_switch_ms: 0.89,
        write_settle_ms: 0.65,
        overhead: Overheads {
            read_hit_ms: 0.953,
            read_miss_ms: 0.558,
            write_after_read_ms: 0.824,
            write_after_write_ms: 0.824,
            read_done_ms: 0.057,
            write_done_ms: 0.050,
        },
        buffer: Buffering {
            segments: 2,
            segment_sectors: 256,
            read_ahead_sectors: 128,
            write_sectors: 256,
            reports_early: false,
            reorders: false,
        },
        link_bytes_per_s: None,
        link_waits_for_track: false,
        queue_depth: 1,
    }
}
