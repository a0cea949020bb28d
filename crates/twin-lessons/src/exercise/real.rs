//! The real thing behind exercises: a volume on a simulated disk, the toy disk of the book, a bare queue.

use serde_json::Value;
use twin_disk::queue::{self, ByDistance, Positioning, SchedulerInput, Waiting};
use twin_disk::{Block, IoKind, Origin};
use twin_fs::{FsError, Op, Reply, Request};
use twin_rt::{MILLIS, Time};
use twin_sim::Platter;
use twin_sim::model::{
    Access, Buffering, DeviceModel, Disk, Drive, Options, Overheads, SeekCurve, Supply, Zone,
};

use crate::volume::Bench;

/// Units of the toy disk's time in which a sector passes; a revolution of twelve sectors has 360.
const UNITS: u64 = 30;
/// The time in which a sector passes.
pub(super) const SECTOR_NS: u64 = 5 * MILLIS;
/// Where the head is in the beginning: in the middle of the seventh sector of the outermost track.
const BEGIN: Time = Time(SECTOR_NS * 13 / 2);
const SECTOR: u64 = 512;

/// Nanoseconds in units of the toy disk.
pub(super) fn units(ns: u64) -> u64 {
    (ns * UNITS + SECTOR_NS / 2) / SECTOR_NS
}

/// A request that the toy disk has served: block, seek, rotation, transfer.
pub(super) type Timed = (u64, u64, u64, u64);

/// The toy disk: three tracks of twelve sectors, a seek of `seek` units from a track to the next, a revolution of 360.
/// The requests come all at once; returns them in the order of service and the time when the last one is done.
pub(super) fn toy(
    blocks: &[u64],
    policy: &str,
    seek: u64,
    skew: u32,
) -> Result<(Vec<Timed>, u64), String> {
    let unit_ms = SECTOR_NS as f64 / MILLIS as f64 / UNITS as f64;
    let drive = Drive {
        sector_bytes: SECTOR as u32,
        rpm: 1000,
        heads: 1,
        zones: vec![Zone::cylinders((0, 2), 1, 12, (0, skew))],
        blocks: None,
        seek: SeekCurve::Pieces {
            first_ms: &[],
            boundary: 0,
            a_ms: 0.0,
            b_ms: 0.0,
            c_ms: 0.0,
            e_ms: seek as f64 * unit_ms,
        },
        head_switch_ms: 0.0,
        write_settle_ms: 0.0,
        overhead: Overheads::fixed(0.0, 0.0),
        buffer: Buffering {
            segments: 1,
            segment_sectors: 1,
            read_ahead_sectors: 0,
            write_sectors: 0,
            reports_early: false,
            reorders: false,
        },
        link_bytes_per_s: None,
        link_waits_for_track: false,
        queue_depth: 1,
    };
    let mut disk = Disk::new("toy", &drive, &Options::default()).map_err(|why| why.to_string())?;
    let mut queue = queue::REGISTRY.get(policy).map_err(|why| why.to_string())?.make();
    blocks.iter().zip(0..).for_each(|(block, id)| queue.push(waiting(id, block * SECTOR, SECTOR)));
    let (mut now, mut head_at, mut timed) = (BEGIN, 0, Vec::new());
    loop {
        let view = SchedulerInput { now, head_at, device: &Reach(&disk) };
        let Some(next) = queue.pop(&view) else { break };
        let access = Access { kind: IoKind::Write, at: next.request.at, len: SECTOR };
        let served = disk.serve(now, &access, Supply::at_once(now));
        let parts = served.parts;
        (now, head_at) = (served.done, access.at + SECTOR);
        let [seek, rotation, transfer] =
            [parts.seek_ns, parts.rotation_ns, parts.transfer_ns].map(units);
        timed.push((access.at / SECTOR, seek, rotation, transfer));
    }
    Ok((timed, units(now - BEGIN)))
}

/// The toy disk as its queue sees it. Requests are writes, since no buffer of the drive stands between them and the
/// medium.
struct Reach<'a>(&'a Disk);

impl Positioning for Reach<'_> {
    fn positioning_ns(&self, now: Time, _head_at: u64, request: &Waiting) -> u64 {
        let access = Access { kind: IoKind::Write, at: request.at, len: request.len };
        self.0.positioning_ns(now, &access)
    }
}

fn waiting(id: u32, at: u64, len: u64) -> Waiting {
    let (seq, kind, origin) = (id.into(), IoKind::Write, Origin::User);
    Waiting { id, seq, kind, at, len, origin, arrived: Time(0), deadline: None }
}

/// The order in which a queue serves requests at these places, with the head at `head`.
pub(super) fn order(places: &[u64], head: u64, policy: &str) -> Result<Vec<u64>, String> {
    let mut queue = queue::REGISTRY.get(policy).map_err(|why| why.to_string())?.make();
    places.iter().zip(0..).for_each(|(at, id)| queue.push(waiting(id, *at, 0)));
    let (mut head, mut order) = (head, Vec::new());
    while let Some(next) =
        queue.pop(&SchedulerInput { now: Time(0), head_at: head, device: &ByDistance })
    {
        head = next.request.at;
        order.push(head);
    }
    Ok(order)
}

impl Bench {
    /// Executes an operation as root.
    pub(super) fn ask(&self, op: Op) -> Result<Result<Reply, FsError>, String> {
        let asked = self.volume().execute(Request::root(u64::MAX, op));
        self.rt().block_on(asked).map_err(|_| "an operation does not end".into())
    }

    /// Executes lines; returns for each whether it succeeded.
    pub(super) fn tried(&self, lines: &[String]) -> Result<Vec<bool>, String> {
        lines.iter().map(|line| Ok(self.line(line)?.is_ok())).collect()
    }

    /// Executes lines that must succeed.
    pub(super) fn lines(&self, lines: &[String]) -> Result<(), String> {
        for line in lines {
            self.line(line)?.map_err(|why| format!("{line}: {why}"))?;
        }
        Ok(())
    }
}

/// A bench with a new volume of these settings.
pub(super) fn bench(settings: &str) -> Result<Bench, String> {
    Bench::make(settings)
}

/// The rows of a table of a dump.
pub(super) fn rows(parts: &[Value], table: &str) -> Vec<Vec<Value>> {
    let tables = parts.iter().filter(|part| part["name"] == table);
    let rows = tables.filter_map(|part| part["rows"].as_array()).flatten();
    rows.filter_map(|row| row.as_array().cloned()).collect()
}

/// A field of a dump.
pub(super) fn field(parts: &[Value], name: &str) -> Option<u64> {
    parts.iter().find_map(|part| part["fields"][name].as_u64())
}

/// Some bytes of a platter.
pub(super) fn bytes(platter: &Platter, at: u64, len: u64) -> Vec<Block> {
    platter.read(at, len)
}
