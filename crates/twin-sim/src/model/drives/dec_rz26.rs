//! DEC RZ26, 1.05 GB, 3.5 inch, 1992, and DSP 3105, the same mechanics under its OEM name.

use super::{Buffering, Drive, Overheads};
use crate::model::{SeekCurve, Zone};

/// Seek times by distance, `[DiskSim]`. Their mean over random distances is 10.4 ms; the data sheet's
/// "average seek" is 9.5.
const SEEK_MS: &[(u32, f64)] = &[
    (1, 1.0144),
    (2, 1.9022),
    (3, 2.2842),
    (4, 2.5513),
    (5, 2.6566),
    (6, 2.7924),
    (7, 2.7953),
    (8, 2.8834),
    (9, 2.8985),
    (10, 2.8833),
    (12, 3.0593),
    (14, 3.1041),
    (16, 3.1688),
    (18, 3.1823),
    (20, 3.357),
    (25, 3.4359),
    (30, 3.7607),
    (35, 3.802),
    (40, 4.0171),
    (45, 4.1917),
    (50, 4.2702),
    (60, 4.6597),
    (70, 4.8808),
    (80, 5.0873),
    (90, 5.2276),
    (100, 5.49),
    (125, 6.0519),
    (150, 6.3795),
    (175, 6.8174),
    (200, 6.9047),
    (225, 7.1402),
    (250, 7.2804),
    (275, 7.4673),
    (300, 7.6983),
    (325, 7.8139),
    (350, 7.9379),
    (375, 8.0797),
    (400, 8.2355),
    (425, 8.4297),
    (450, 8.718),
    (475, 8.9196),
    (500, 8.9551),
    (600, 9.4719),
    (700, 10.0205),
    (800, 10.579),
    (900, 11.0624),
    (1000, 11.6629),
    (1100, 12.0918),
    (1200, 12.6337),
    (1300, 13.0813),
    (1400, 13.4582),
    (1500, 13.8797),
    (1600, 14.3382),
    (1700, 14.8412),
    (1800, 15.3149),
    (1900, 15.82),
    (2000, 16.1877),
    (2100, 16.5753),
    (2200, 16.9344),
    (2300, 17.585),
    (2400, 17.9659),
    (2500, 18.6764),
    (2569, 19.0988),
    (2599, 19.0988),
];

/// `[DiskSim]`: 14 surfaces, 58 sectors, 5360 rpm as measured, skews of 7 and 25, ten segments of a
/// track each. NetBSD's disktab has 57 sectors and 2570 cylinders, which makes exactly the
/// 2,050,860 sectors that the drive offers: one sector of each track is spare.
///
/// The settle time of a write is 0.483 ms shorter than the measured (read) seeks contain. DiskSim's
/// 2.167 ms is the overhead of a write after a read; its lower figure for writes, 1.94 ms, is used
/// for a write after a write.
pub(in crate::model) fn rz26() -> Drive {
    let zone = Zone {
        first: (0, 0),
        last: (2569, 13),
        sectors: 57,
        slots: 58,
        track_skew: 7,
        cylinder_skew: 25,
    };
    Drive {
        sector_bytes: 512,
        rpm: 5360,
        heads: 14,
        zones: vec![zone],
        blocks: None,
        seek: SeekCurve::Table(SEEK_MS),
        head_switch_ms: 0.865,
        write_settle_ms: -0.483,
        overhead: Overheads {
            read_hit_ms: 1.229,
            read_miss_ms: 1.489,
            write_after_read_ms: 2.167,
            write_after_write_ms: 1.94,
            read_done_ms: 0.0,
            write_done_ms: 0.113,
        },
        buffer: Buffering {
            segments: 10,
            segment_sectors: 57,
            read_ahead_sectors: 57,
            write_sectors: 57,
            reports_early: false,
            reorders: false,
        },
        link_bytes_per_s: None,
        link_waits_for_track: false,
        queue_depth: 1,
    }
}

/// The BSD machine's disk. `[LvC]`: 5400 rpm, 57 sectors, 2568 cylinders, 14 tracks, 256 KB of
/// buffer. We found no published skews, seek times and overheads; those of the RZ26 are used.
///
/// The division of the buffer is not published either; it is taken to be the RZ26's, segments of a
/// track each, of which 256 KB hold nine. Early reporting is off.
pub(in crate::model) fn dsp3105() -> Drive {
    let rz26 = rz26();
    let buffer = Buffering { segments: 9, ..rz26.buffer };
    Drive { rpm: 5400, zones: vec![Zone::cylinders((0, 2567), 14, 57, (7, 25))], buffer, ..rz26 }
}
