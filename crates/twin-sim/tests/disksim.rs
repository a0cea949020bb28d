//! A drive against the measured requests by which DiskSim's authors validated theirs: the file
//! `valid/dec_rz26.trace` of DiskSim (westerndigitalcorporation/DiskSim at dc21ab0), in
//! `../shared/traces/disksim-valid`. Nothing was fitted to it. A line is: R or W, a word, first
//! block, number of blocks, measured microseconds, microseconds from its end to the next request.

mod common;

use std::io::Read;

use common::{Times, shared};
use twin_disk::IoKind;
use twin_rt::{Nanos, SECS, Time};
use twin_sim::model::{self, Access, DeviceModel, Options, Supply};

/// Fast SCSI-2, assumed: 10 MB/s, no time of the host.
const BUS_BYTES_PER_S: u64 = 10_000_000;

/// Replays a trace: each request as long after the end of the one before as was measured. Returns
/// the times of all requests, of reads and of writes.
fn replay(disk: &mut dyn DeviceModel, text: &str) -> [Times; 3] {
    let [mut all, mut reads, mut writes] = [const { Times(vec![], vec![]) }; 3];
    let (size, mut now) = (disk.spec().size, Time(0));
    for line in text.lines() {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let bytes = |i: usize| fields[i].parse::<u64>().unwrap() * 512;
        let ns = |i: usize| (fields[i].parse::<f64>().unwrap() * 1e3) as Nanos;
        let kind = if fields[0] == "R" { IoKind::Read } else { IoKind::Write };
        let access = Access { kind, at: bytes(2), len: bytes(3) };
        assert!(access.at + access.len <= size, "{line}");
        let bus = access.len * SECS / BUS_BYTES_PER_S;
        let service = disk.serve(now, &access, Supply { first: now, last: now + bus });
        let end = match kind {
            IoKind::Read => service.done.max(service.first + bus),
            _ => service.done,
        };
        for times in [&mut all, if kind == IoKind::Read { &mut reads } else { &mut writes }] {
            times.0.push(ns(4));
            times.1.push(end - now);
        }
        now = end + ns(5);
    }
    [all, reads, writes]
}

/// DiskSim's authors report a root mean square of 0.340 ms for their own model, 2.2% of the mean.
/// The trace of the HP C3323A is of a drive of 2,056,008 blocks, so it does not judge our model.
#[test]
fn the_rz26_takes_the_times_that_were_measured() {
    let Some(mut input) = shared("disksim-valid/dec_rz26.trace") else { return };
    let mut text = String::new();
    input.read_to_string(&mut text).unwrap();
    let mut disk = model::REGISTRY.get("dec-rz26").unwrap().build(&Options::default()).unwrap();
    let [all, reads, writes] = replay(&mut *disk, &text);
    assert_eq!(all.0.len(), 7980);
    for (what, times, bound) in
        [("all", all, 0.055), ("reads", reads, 0.075), ("writes", writes, 0.065)]
    {
        let (demerit, close) = times.judge(&format!("DEC RZ26, {what}"));
        assert!(demerit <= bound && close >= 0.6, "{what}: {demerit} {close}");
    }
}
