//! The figures of the modelled disks, one file a family, each figure with its source.
//!
//! `[RW]` is Ruemmler and Wilkes, "An Introduction to Disk Drive Modeling", IEEE Computer 27(3),
//! 1994. `[DiskSim]` are the figures extracted from the drives by DiskSim's authors (DiskSim 4.0,
//! `valid/`; Carnegie Mellon University). `[LvC]` is Seltzer et al., "File System Logging Versus
//! Clustering", USENIX 1995, table 1. A figure without a source is an assumption and says so.

pub(super) mod dec_rz26;
pub(super) mod disk_7200;
pub(super) mod hp97560;
pub(super) mod hp_c2249a;
pub(super) mod hp_c3323a;
pub(super) mod m2694exa;
pub(super) mod wren_iv;

use super::{SeekCurve, Zone};

/// The figures of a disk drive.
#[derive(Clone, Debug, PartialEq)]
pub struct Drive {
    /// Revolutions a minute.
    pub rpm: u32,
    /// Surfaces with data: tracks of a cylinder.
    pub heads: u32,
    /// Where the sectors are, from the outside in.
    pub zones: Vec<Zone>,
    /// Sectors that the drive offers, if fewer than the zones hold.
    pub blocks: Option<u64>,
    /// The arm.
    pub seek: SeekCurve,
    /// Time to change to another surface of a cylinder, in ms.
    pub head_switch_ms: f64,
    /// Added to seeks and head switches before a write, in ms; negative if the published seek
    /// times contain more settling than a write was found to need.
    pub write_settle_ms: f64,
    /// The controller.
    pub overhead: Overheads,
    /// The buffer.
    pub buffer: Buffering,
}

/// Controller time of a request, by kind, in ms.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Overheads {
    /// Before the data of a read that the buffer has.
    pub read_hit_ms: f64,
    /// Before the head moves for a read.
    pub read_miss_ms: f64,
    /// Before the head moves for a write that follows a read.
    pub write_after_read_ms: f64,
    /// Before the head moves for a write that follows a write.
    pub write_after_write_ms: f64,
    /// After the data of a read.
    pub read_done_ms: f64,
    /// After the data of a write.
    pub write_done_ms: f64,
}

impl Overheads {
    /// The same times for hits and misses, after reads and writes, and nothing at the end.
    pub fn fixed(read_ms: f64, write_ms: f64) -> Overheads {
        Overheads {
            read_hit_ms: read_ms,
            read_miss_ms: read_ms,
            write_after_read_ms: write_ms,
            write_after_write_ms: write_ms,
            read_done_ms: 0.0,
            write_done_ms: 0.0,
        }
    }
}

/// A drive's buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Buffering {
    /// Ranges that it keeps of what was read.
    pub segments: u32,
    /// Sectors of each.
    pub segment_sectors: u32,
    /// Sectors that it reads on after a read.
    pub read_ahead_sectors: u32,
    /// Sectors of reported writes that it holds; zero if it cannot report early.
    pub write_sectors: u32,
    /// It reports writes early unless told otherwise.
    pub reports_early: bool,
}

/// Zones of equal width with evenly falling sectors a track: for drives of which only the extremes
/// are published. Skews are given as times (ms) and rounded up to sectors.
fn even_zones(
    cylinders: u32,
    heads: u32,
    count: u32,
    (outer, inner): (u32, u32),
    rpm: u32,
    (track_skew_ms, cylinder_skew_ms): (f64, f64),
) -> Vec<Zone> {
    let zone = |i: u32| {
        let (first, end) = (cylinders * i / count, cylinders * (i + 1) / count);
        let sectors = outer - (outer - inner) * i / (count - 1);
        let skew = |ms: f64| (ms / (60_000.0 / f64::from(rpm)) * f64::from(sectors)).ceil() as u32;
        Zone::cylinders(
            (first, end - 1),
            heads,
            sectors,
            (skew(track_skew_ms), skew(cylinder_skew_ms)),
        )
    };
    (0..count).map(zone).collect()
}
