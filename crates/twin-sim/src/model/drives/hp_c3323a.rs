//! HP C3323A: 0.9 GB, 3.5 inch, 1994. The usual drive of Ganger and Patt's studies.

use super::{Buffering, Drive, Overheads};
use crate::model::{SeekCurve, Zone};

/// Seek times by distance, `[DiskSim]`.
const SEEK_MS: &[(u32, f64)] = &[
    (1, 1.178),
    (2, 1.6121),
    (3, 1.8),
    (4, 1.9737),
    (5, 1.7387),
    (6, 1.9203),
    (7, 1.8417),
    (8, 2.4029),
    (9, 2.6807),
    (10, 2.7585),
    (12, 2.6139),
    (14, 2.7308),
    (16, 2.8277),
    (18, 2.91),
    (20, 3.008),
    (25, 3.0264),
    (30, 3.2129),
    (35, 3.3994),
    (40, 3.492),
    (45, 3.5223),
    (50, 3.6762),
    (60, 3.8544),
    (70, 4.0386),
    (80, 4.1477),
    (90, 4.2581),
    (100, 4.3926),
    (125, 4.6892),
    (150, 4.9743),
    (175, 5.2212),
    (200, 5.4765),
    (225, 5.6804),
    (250, 5.8964),
    (275, 6.1072),
    (300, 6.2767),
    (325, 6.4391),
    (350, 6.6326),
    (375, 6.7576),
    (400, 6.9491),
    (425, 7.0865),
    (450, 7.2226),
    (475, 7.3741),
    (500, 7.5327),
    (600, 8.1898),
    (700, 8.6412),
    (800, 9.0808),
    (900, 9.5151),
    (1000, 9.9517),
    (1100, 10.3722),
    (1200, 10.7648),
    (1300, 11.1744),
    (1400, 11.5789),
    (1500, 12.0296),
    (1600, 12.4637),
    (1700, 12.8908),
    (1800, 13.2939),
    (1900, 13.6867),
    (2000, 14.1047),
    (2100, 14.5491),
    (2200, 14.9075),
    (2300, 15.3277),
    (2400, 15.7715),
    (2500, 16.1942),
    (2600, 16.5863),
    (2700, 16.991),
    (2800, 17.4103),
    (2900, 17.8122),
    (2976, 18.1161),
];

/// `[DiskSim]`: geometry, skews, seek times, overheads (a read is decoded in 0.348 ms on a buffer
/// hit and in 2.502 ms on a miss, a write in 3.29 ms after a read and 2.92 ms after a write), two
/// segments of 256 KB with up to 128 KB of read-ahead. The drive offers 1,743,672 sectors, fewer
/// than its zones have room for.
///
/// DiskSim adds the settle time of 0.07 ms to head switches as well as to seeks, and has early
/// reporting off ("fast write level 0"); if it is requested, one segment is assumed for it.
pub(in crate::model) fn figures() -> Drive {
    let zone = |first, last, sectors, track_skew, cylinder_skew| {
        Zone::cylinders((first, last), 7, sectors, (track_skew, cylinder_skew))
    };
    Drive {
        sector_bytes: 512,
        rpm: 5400,
        heads: 7,
        zones: vec![
            zone(0, 993, 120, 17, 34),
            zone(994, 1134, 116, 16, 33),
            zone(1135, 1310, 112, 16, 32),
            zone(1311, 1625, 104, 15, 30),
            zone(1626, 1966, 96, 14, 27),
            zone(1967, 2255, 88, 13, 25),
            zone(2256, 2608, 80, 12, 23),
            zone(2609, 2981, 72, 11, 21),
        ],
        blocks: Some(1_743_672),
        seek: SeekCurve::Table(SEEK_MS),
        head_switch_ms: 0.65,
        write_settle_ms: 0.07,
        overhead: Overheads {
            read_hit_ms: 0.348,
            read_miss_ms: 2.502,
            write_after_read_ms: 3.29,
            write_after_write_ms: 2.92,
            read_done_ms: 0.241,
            write_done_ms: 0.0,
        },
        buffer: Buffering {
            segments: 2,
            segment_sectors: 512,
            read_ahead_sectors: 256,
            write_sectors: 512,
            reports_early: false,
            reorders: false,
        },
        link_bytes_per_s: None,
        link_waits_for_track: false,
        queue_depth: 1,
    }
}
