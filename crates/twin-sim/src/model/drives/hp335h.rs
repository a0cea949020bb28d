//! HP 335H: 0.34 GB, 5.25 inch, on HP-IB. The drive of the traced machine hplajw of 1992.

use super::{Buffering, Drive, Overheads};
use crate::model::{SeekCurve, Zone};

/// From the header of the trace (HP Labs, `ajw.1week.srt`, distributed with DiskSim): 1449
/// cylinders of 8 tracks of 113 sectors of 256 bytes, 4002 rpm; seeks below 616 cylinders 3.45 +
/// 0.597 sqrt(d) ms, longer ones 10.84 + 0.012 d ms; no early reporting.
///
/// Measured in the first half of the week, on the times between the ends of writes that follow each
/// other: a track begins 34 sectors after the one before, the first of a cylinder 43.5 (the header
/// says 12 for both). The geometry below is in half sectors for that reason.
///
/// Fitted to the times of the first half of the week, on grids: 3.3 ms of controller before a read
/// and 1.9 after it, 4.3 before a write (the header has 1.1 for all); 1.05 MB/s of HP-IB (the header
/// has 1.2); a head switch of 2.5 ms rather than the header's 1.0. We take the header's last,
/// unnamed seek parameter, 2.5 ms, for a seek of one cylinder.
///
/// Assumed: 32 KB of buffer without read-ahead, which predicts more of the single reads than any
/// read-ahead of whole requests does (the drive seems to read a track from where the head arrives);
/// the data of a track move to the host when all of them are read, which the growth of read times
/// with the size confirms.
pub(in crate::model) fn figures() -> Drive {
    Drive {
        sector_bytes: 128,
        rpm: 4002,
        heads: 8,
        zones: vec![Zone::cylinders((0, 1448), 8, 226, (68, 87))],
        blocks: None,
        seek: SeekCurve::Pieces {
            first_ms: &[2.5],
            boundary: 615,
            a_ms: 3.450,
            b_ms: 0.597,
            c_ms: 10.840,
            e_ms: 0.012,
        },
        head_switch_ms: 2.5,
        write_settle_ms: 0.0,
        overhead: Overheads { read_done_ms: 1.9, ..Overheads::fixed(3.3, 4.3) },
        buffer: Buffering {
            segments: 1,
            segment_sectors: 256,
            read_ahead_sectors: 0,
            write_sectors: 0,
            reports_early: false,
            reorders: false,
        },
        link_bytes_per_s: Some(1_050_000),
        link_waits_for_track: true,
        queue_depth: 1,
    }
}
