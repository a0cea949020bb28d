//! The real thing behind exercises: a volume on a simulated disk, the toy disk of the book, a bare queue.

use std::cell::RefCell;
use std::rc::Rc;

use serde_json::Value;
use twin_disk::queue::{self, ByDistance, SchedulerInput, Waiting};
use twin_disk::{Block, BlockDevice, Class, Io, IoKind, Origin};
use twin_fs::{FsError, Op, Reply, Request};
use twin_rt::{ClockOnly, MILLIS, Rt, Time};
use twin_sim::model::{Buffering, Disk, Drive, Options, Overheads, SeekCurve, Zone};
use twin_sim::{Platter, Served, SimDisk};

use crate::session::Bench;

/// A unit of the toy disk's time, of which a revolution has 360, in nanoseconds and a third of one: a sector of twelve
/// passes in 30.
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

/// The toy disk: three tracks of twelve sectors, a seek of 40 units from a track to the next, a revolution of 360. The
/// requests come all at once; returns them in the order of service and the time when the last one is done.
pub(super) fn toy(blocks: &[u64], policy: &str, skew: u32) -> Result<(Vec<Timed>, u64), String> {
    let drive = Drive {
        sector_bytes: SECTOR as u32,
        rpm: 1000,
        heads: 1,
        zones: vec![Zone::cylinders((0, 2), 1, 12, (0, skew))],
        blocks: None,
        seek: SeekCurve::Table(&[(1, 40.0 / 6.0), (2, 80.0 / 6.0)]),
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
    let model = Disk::new("toy", &drive, &Options::default()).map_err(|why| why.to_string())?;
    let policy = queue::REGISTRY.get(policy).map_err(|why| why.to_string())?;
    let rt = Rt::new(ClockOnly { start: BEGIN }, 1);
    let disk = SimDisk::builder(&rt, Box::new(model)).scheduler(policy.make()).start();
    let served = Rc::new(RefCell::new(Vec::new()));
    let seen = Rc::clone(&served);
    disk.observe(Rc::new(move |one: &Served| seen.borrow_mut().push(*one)));
    // Writes, since no buffer of the drive stands between them and the medium.
    let write = |block: &u64| {
        let data = vec![Block::Zero(SECTOR as u32)];
        disk.submit(Io::write(block * SECTOR, data, Class::Data, Origin::User))
    };
    let waiting: Vec<_> = blocks.iter().map(write).collect();
    for one in waiting {
        let done = rt.block_on(one).map_err(|_| "the toy disk does not end".to_string())?;
        done.map_err(|why| why.to_string())?;
    }
    let end = units(rt.now() - BEGIN);
    let timed = |one: &Served| {
        let parts = &one.parts;
        (one.at / SECTOR, units(parts.seek_ns), units(parts.rotation_ns), units(parts.transfer_ns))
    };
    let timed = served.borrow().iter().map(timed).collect();
    rt.crash();
    Ok((timed, end))
}

/// The order in which a queue serves requests at these places, with the head at `head`.
pub(super) fn order(places: &[u64], head: u64, policy: &str) -> Result<Vec<u64>, String> {
    let mut queue = queue::REGISTRY.get(policy).map_err(|why| why.to_string())?.make();
    for (id, at) in (0..).zip(places) {
        queue.push(Waiting {
            id,
            seq: id.into(),
            kind: IoKind::Read,
            at: *at,
            len: 0,
            origin: Origin::User,
            arrived: Time(0),
            deadline: None,
        });
    }
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
