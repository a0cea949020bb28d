//! The figures of the modelled disks, one file a family, each figure with its source.
//!
//! `[RW]` is Ruemmler and Wilkes, "An Introduction to Disk Drive Modeling", IEEE Computer 27(3),
//! 1994. `[DiskSim]` are the figures extracted from the drives by DiskSim's authors (DiskSim 4.0,
//! `valid/`; Carnegie Mellon University). `[LvC]` is Seltzer et al., "File System Logging Versus
//! Clustering", USENIX 1995, table 1. A figure without a source is an assumption and says so.

pub(super) mod dec_rz26;
pub(super) mod disk_7200;
pub(super) mod hp335h;
pub(super) mod hp97560;
pub(super) mod hp_c2249a;
pub(super) mod hp_c3323a;
pub(super) mod m2694exa;
pub(super) mod wren_iv;

use super::{SeekCurve, Zone};

/// The figures of a disk drive.
#[derive(Clone, Debug, PartialEq)]
pub struct Drive {
    /// Bytes in a sector of the geometry below: a divisor of 512, the sector that hosts see.
    pub sector_bytes: u32,
    /// Speed of rotation in revolutions a minute.
    pub rpm: u32,
    /// Number of surfaces with data, that is of tracks in a cylinder.
    pub heads: u32,
    /// The zones, from the outermost to the innermost.
    pub zones: Vec<Zone>,
    /// Number of sectors that the drive offers, if fewer than the zones hold.
    pub blocks: Option<u64>,
    /// Seek times by distance.
    pub seek: SeekCurve,
    /// Time to change to another surface of a cylinder, in ms.
    pub head_switch_ms: f64,
    /// Added to seeks and head switches before a write, in ms; negative if the published seek times
    /// contain a longer settle time than writes were measured to need.
    pub write_settle_ms: f64,
    /// Controller times by kind of request.
    pub overhead: Overheads,
    /// The division of the buffer.
    pub buffer: Buffering,
    /// Bytes a second between host and buffer; `None` if the path to the host is modelled apart
    /// ([`crate::bus`]) or takes no time.
    pub link_bytes_per_s: Option<u64>,
    /// Whether data of a read move over the link only when the request's part of a track is in the
    /// buffer; otherwise as soon as a sector is.
    pub link_waits_for_track: bool,
    /// Number of commands that the drive accepts at once.
    pub queue_depth: u32,
}

/// Controller time of a request, by kind, in ms.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Overheads {
    /// Time of the controller before it sends the data of a read that the buffer has.
    pub read_hit_ms: f64,
    /// Time of the controller before the head moves for a read.
    pub read_miss_ms: f64,
    /// Time of the controller before the head moves for a write that follows a read.
    pub write_after_read_ms: f64,
    /// Time of the controller before the head moves for a write that follows a write.
    pub write_after_write_ms: f64,
    /// Time of the controller after the data of a read.
    pub read_done_ms: f64,
    /// Time of the controller after the data of a write.
    pub write_done_ms: f64,
}

impl Overheads {
    /// The same times for hits and misses, after reads and writes, and no time at the end.
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

/// The division of a drive's buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Buffering {
    /// Number of segments, each for one range of sectors that was read.
    pub segments: u32,
    /// Sectors in a segment.
    pub segment_sectors: u32,
    /// Sectors that the drive reads ahead after a read.
    pub read_ahead_sectors: u32,
    /// Sectors of reported writes that it holds; zero if it cannot report early.
    pub write_sectors: u32,
    /// Whether it reports writes early by default.
    pub reports_early: bool,
    /// Whether it brings reported writes into an order of its own.
    pub reorders: bool,
}

/// Zones of equal width with evenly falling sectors a track, for drives with only the extremes
/// published. Skews are given as times (ms) and rounded up to sectors.
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
