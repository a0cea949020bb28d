//! CDC Wren IV (94171): 300 MB, 5.25 inch, 1988. The disk of Sprite LFS.

use super::{Buffering, Drive, Overheads};
use crate::model::{SeekCurve, Zone};

const CYLINDERS: u32 = 1546;

/// `[LvC]`: 3600 rpm, 45 sectors, 1546 cylinders, 9 tracks, 32 KB of buffer, 17.5 ms average seek.
///
/// Assumed: a square-root seek curve through 4 ms for one cylinder (drives of the family before and
/// after it are listed with 5 and 2.5 ms) and the published mean; head switch and controller as the
/// HP 97560's, a drive of nearly its time (1.6 and 2.2 ms); skews that just cover the two switches (5
/// sectors of 0.37 ms cover 1.6 ms, 11 cover 4 ms); one segment, read on to its end.
pub(in crate::model) fn figures() -> Drive {
    Drive {
        sector_bytes: 512,
        rpm: 3600,
        heads: 9,
        zones: vec![Zone::cylinders((0, CYLINDERS - 1), 9, 45, (5, 11))],
        blocks: None,
        seek: SeekCurve::from_mean(4.0, 17.5, CYLINDERS),
        head_switch_ms: 1.6,
        write_settle_ms: 0.0,
        overhead: Overheads::fixed(2.2, 2.2),
        buffer: Buffering {
            segments: 1,
            segment_sectors: 64,
            read_ahead_sectors: 64,
            write_sectors: 0,
            reports_early: false,
            reorders: false,
        },
        link_bytes_per_s: None,
        link_waits_for_track: false,
        queue_depth: 1,
    }
}
