//! The 7200 rpm disk: its cache, its link and its medium.

use twin_rt::{MICROS, MILLIS, Nanos, Rng, SECS, Time};

use super::*;

/// The outermost zone (`disk_7200.rs`): 2600 sectors of 512 bytes a revolution, in bytes a second.
const OUTER: f64 = 2600.0 * 512.0 * 120.0;
/// The same with its skews: each of the 10 tracks of a cylinder costs 1.1 ms, 344 sectors rounded
/// up, beside its revolution.
const OUTER_STREAMED: f64 = OUTER * 2600.0 / (2600.0 + 344.0);

/// Serves writes back to back and returns the times at which they were reported.
fn write_all(disk: &mut dyn DeviceModel, requests: impl Iterator<Item = (u64, u64)>) -> Vec<Time> {
    let mut now = Time(0);
    let mut done = Vec::new();
    for (at, len) in requests {
        now = disk.serve(now, &Access { kind: IoKind::Write, at, len }, Supply::at_once(now)).done;
        done.push(now);
    }
    done
}

fn flushed(disk: &mut dyn DeviceModel, now: Time) -> Time {
    disk.serve(now, &Access { kind: IoKind::Flush, at: 0, len: 0 }, Supply::at_once(now)).done
}

fn bytes_per_s(bytes: u64, ns: Nanos) -> f64 {
    bytes as f64 * SECS as f64 / ns as f64
}

#[test]
fn the_7200_rpm_disk_cannot_write_in_order_faster_than_its_outer_zone() {
    for len in [4 * KIB, 64 * KIB, 1024 * KIB] {
        let mut disk = plain("disk-7200");
        let count = (4 << 30) / len;
        let done = write_all(&mut *disk, sequential(0, len, count));
        let (half, last) = (done[done.len() / 2 - 1], done[done.len() - 1]);
        let steady = bytes_per_s(2 << 30, last - half);
        let with_flush = bytes_per_s(4 << 30, flushed(&mut *disk, last) - Time(0));
        assert!(steady <= OUTER && with_flush <= OUTER, "{steady} {with_flush}");
        // Small writes are limited by the controller and the link.
        let limit = bytes_per_s(len, 50 * MICROS + len * SECS / 600_000_000).min(OUTER_STREAMED);
        close(&format!("{len} bytes in order, steady, B/s"), steady, limit, 0.01);
        close(&format!("{len} bytes in order and a flush, B/s"), with_flush, limit, 0.01);
    }
}

#[test]
fn the_7200_rpm_disk_writes_at_random_in_sweeps_over_its_cache() {
    let mut disk = plain("disk-7200");
    let size = disk.spec().size;
    let count = 40_000;
    let done = write_all(&mut *disk, random(1, 0, size, 4 * KIB, count));
    let last = done[done.len() - 1];
    let steady_ms = (last - done[done.len() / 2 - 1]) as f64 / 1e6 / (count / 2) as f64;
    let all_ms = (flushed(&mut *disk, last) - Time(0)) as f64 / 1e6 / count as f64;
    // 32 MB hold 8192 writes, so one is some 50 to 100 cylinders from the next: the arm's way takes
    // less than changing the surface, with settling, which decides. Then half a revolution and 8
    // sectors.
    let implied = 0.8 + 0.2 + 60_000.0 / 7200.0 * (0.5 + 8.0 / 2000.0);
    close("4 KB at random, steady, ms", steady_ms, implied, 0.03);
    close("4 KB at random and a flush, ms", all_ms, implied, 0.03);
    assert!(4096.0 / steady_ms * 1e3 < OUTER);
}

#[test]
fn a_burst_that_the_cache_holds_takes_the_link_and_the_controller() {
    let mut disk = plain("disk-7200");
    let size = disk.spec().size;
    let done = write_all(&mut *disk, random(2, 0, size, 64 * KIB, 256));
    let implied = 256 * (50 * MICROS + 65_536 * SECS / 600_000_000);
    close("16 MB at random, ns", done[255].0 as f64, implied as f64, 1e-4);
}

#[test]
fn data_in_the_buffer_take_the_link() {
    let mut disk = plain("disk-7200");
    let mut read = |now: Time, at, len| {
        disk.serve(now, &Access { kind: IoKind::Read, at, len }, Supply::at_once(now))
    };
    let first = read(Time(0), 0, 64 * KIB);
    let later = first.done + 50 * MILLIS;
    let hit = read(later, 64 * KIB, 600_064 / 512 * 512);
    let link = 600_064 * SECS / 600_000_000;
    assert_eq!((hit.parts.buffer_ns, hit.parts.bus_ns), (50 * MICROS, link));
    // A read from the medium hides the link, except for the last sector.
    assert_eq!(first.parts.bus_ns, 512 * SECS / 600_000_000);
}

#[test]
fn a_read_waits_for_one_sweep_not_for_the_whole_cache() {
    let mut disk = plain("disk-7200");
    let size = disk.spec().size;
    let now = *write_all(&mut *disk, random(3, 0, size, 4 * KIB, 2000)).last().unwrap();
    let access = Access { kind: IoKind::Read, at: size / 2, len: 4 * KIB };
    let read = disk.serve(now, &access, Supply::at_once(now));
    assert!(read.parts.destage_ns < 30 * MILLIS, "{:?}", read.parts);
    let flush = flushed(&mut *disk, read.done) - read.done;
    assert!(flush > 1950 * 4 * MILLIS, "{flush}");
}

#[test]
fn what_was_reported_is_read_from_the_cache_until_it_is_written() {
    let mut disk = plain("disk-7200");
    let mut rng = Rng::new(4);
    let places: Vec<u64> = (0..500).map(|_| rng.below(1 << 29) * 4096).collect();
    let now = *write_all(&mut *disk, places.iter().map(|&at| (at, 4096))).last().unwrap();
    let mut read = |now: Time, at| {
        let access = Access { kind: IoKind::Read, at, len: 4096 };
        disk.serve(now, &access, Supply::at_once(now))
    };
    let waiting = places.iter().filter(|&&at| read(now, at).parts.buffer_ns > 0).count();
    assert!(waiting > 450, "{waiting}");
    let later = now + 60 * SECS;
    let seen = places.iter().filter(|&&at| read(later, at).parts.buffer_ns > 0).count();
    assert!(seen < 50, "{seen}");
}
