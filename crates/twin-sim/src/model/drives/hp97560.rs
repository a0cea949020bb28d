//! HP 97560: 1.3 GB, 5.25 inch, 1991. The drive of `[RW]` and of Cut-and-Paste 1996.

use super::{Buffering, Drive, Overheads};
use crate::model::{SeekCurve, Zone};

/// `[RW]`, as quoted in the tables of Hecios and of another simulator, which agree except for
/// misprints: 19 tracks a cylinder, 72 sectors, 4002 rpm; seeks up to 383 cylinders 3.24 + 0.400
/// sqrt(d) ms, longer ones 8.00 + 0.008 d ms; 2.2 ms of controller for reads and for writes; track
/// switch 1.6 ms; skews of 8 and 18 sectors; 128 KB of buffer. The tracks outside these three
/// ranges are spare.
///
/// The division of the buffer is not published: one segment is assumed, filled to its end.
/// Immediate reporting is off unless requested; half of the buffer is assumed for it, the 64 KB of
/// the published write fence.
pub(in crate::model) fn figures() -> Drive {
    let region = |first, last| Zone {
        first,
        last,
        sectors: 72,
        slots: 72,
        track_skew: 8,
        cylinder_skew: 18,
    };
    Drive {
        sector_bytes: 512,
        rpm: 4002,
        heads: 19,
        zones: vec![
            region((1, 4), (646, 3)),
            region((654, 0), (1298, 18)),
            region((1308, 0), (1952, 18)),
        ],
        blocks: None,
        seek: SeekCurve::Pieces {
            first_ms: &[],
            boundary: 383,
            a_ms: 3.24,
            b_ms: 0.400,
            c_ms: 8.00,
            e_ms: 0.008,
        },
        head_switch_ms: 1.6,
        write_settle_ms: 0.0,
        overhead: Overheads::fixed(2.2, 2.2),
        buffer: Buffering {
            segments: 1,
            segment_sectors: 256,
            read_ahead_sectors: 256,
            write_sectors: 128,
            reports_early: false,
            reorders: false,
        },
        link_bytes_per_s: None,
        link_waits_for_track: false,
        queue_depth: 1,
    }
}
