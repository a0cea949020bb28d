use std::cell::RefCell;
use std::rc::Rc;

use twin_disk::{Block, Bytes, Class, IoErrorKind, Origin, Recorded, Stamp};
use twin_rt::{ClockOnly, MICROS, MILLIS, Order, SECS, Time};

use super::*;
use crate::model::Options;
use crate::{bus, model, queue};

const KIB: u64 = 1024;

fn rt() -> Rt {
    Rt::new(ClockOnly::default(), 0)
}

/// The options of any model of the registry.
fn any() -> Options {
    let measured = Some(Rc::new(model::figures_for_tests()));
    Options { measured, ..Options::default() }
}

fn built(name: &str, options: &Options) -> Box<dyn DeviceModel> {
    model::REGISTRY.get(name).unwrap().build(options).unwrap()
}

fn disk(rt: &Rt, name: &str) -> Builder {
    SimDisk::builder(rt, built(name, &Options::default()))
}

fn stamp(lbn: u64, version: u64) -> Block {
    Block::Stamp(Stamp { ino: 1, lbn, version, off: 0, len: 4096 })
}

fn write(at: u64, blocks: Vec<Block>) -> Io {
    Io::write(at, blocks, Class::Data, Origin::User)
}

fn read(at: u64, len: u64) -> Io {
    Io::read(at, len, Class::Data, Origin::User)
}

fn expand(blocks: &[Block]) -> Vec<u8> {
    blocks.iter().flat_map(|b| b.to_bytes().to_vec()).collect()
}

#[test]
fn every_model_and_queue_stores_what_a_plain_array_stores() {
    for model in &model::REGISTRY {
        for queue in &queue::REGISTRY {
            let size = 256 * KIB;
            let rt = rt();
            let options = Options { size: Some(size), ..any() };
            let disk = SimDisk::builder(&rt, model.build(&options).unwrap())
                .scheduler(queue.make())
                .start();
            let mut rng = Rng::new(7);
            let mut array = vec![0u8; size as usize];
            for step in 0..150 {
                let len = 512 * rng.range(1, 32);
                let at = rng.below((size - len) / 512) * 512;
                let range = at as usize..(at + len) as usize;
                let io = match rng.below(8) {
                    0 => {
                        array[range].fill(0);
                        Io::discard(at, len)
                    }
                    1..=3 => {
                        let bytes: Vec<_> = (0..len).map(|_| rng.next_u64() as u8).collect();
                        array[range].copy_from_slice(&bytes);
                        write(at, vec![Block::Bytes(Bytes::copy_of(&bytes))])
                    }
                    4 => Io::flush(Origin::User),
                    _ => {
                        let blocks = rt.block_on(disk.submit(read(at, len))).unwrap().unwrap();
                        assert!(expand(&blocks) == array[range], "{} step {step}", model.name);
                        continue;
                    }
                };
                assert_eq!(rt.block_on(disk.submit(io)), Ok(Ok(Vec::new())));
            }
            assert_eq!(disk.in_flight(), 0);
            assert!(disk.platter().read_bytes(0, size) == array);
        }
    }
}

/// Many clients, each with its own part of the disk and several requests in flight. Returns the
/// run's digest, completions included.
fn busy_run(model: &str, queue: &str, order: Order, seed: u64) -> (u64, DiskStats, Time) {
    let rt = Rt::with_order(ClockOnly::default(), seed, order);
    let options = Options { seed, ..any() };
    let disk = SimDisk::builder(&rt, built(model, &options))
        .scheduler(queue::REGISTRY.get(queue).unwrap().make())
        .start();
    let device = Rc::new(Recorded::new(rt.clone(), disk.clone()));
    let clients: Vec<_> = (0..8u64)
        .map(|client| {
            let (device, rt2) = (Rc::clone(&device), rt.clone());
            rt.spawn("client", async move {
                let mut rng = rt2.rng(&format!("client {client}"));
                for i in 0..60 {
                    let at = (client << 24) + rng.below(4000) * 4096;
                    let pending: Vec<_> = (0..rng.range(1, 5))
                        .map(|k| match rng.below(8) {
                            0 => Io::flush(Origin::Checkpoint),
                            1..=3 => write(at + k * 4096, vec![stamp(k, i)]),
                            _ => read(at + k * 4096, 4096),
                        })
                        .map(|io| device.submit(io))
                        .collect();
                    for done in pending {
                        done.await.unwrap();
                        rt2.record(&[client, i]);
                    }
                    rt2.sleep(rng.below(20 * MILLIS)).await;
                }
            })
        })
        .collect();
    for client in clients {
        rt.block_on(client).unwrap();
    }
    assert_eq!(disk.in_flight(), 0);
    (rt.digest().value(), disk.stats(), rt.now())
}

#[test]
fn same_seed_same_digest() {
    for model in &model::REGISTRY {
        for queue in &queue::REGISTRY {
            for order in [Order::Fifo, Order::Shuffled] {
                let a = busy_run(model.name, queue.name, order, 5);
                assert_eq!(a, busy_run(model.name, queue.name, order, 5), "{}", model.name);
                assert_ne!(a.0, busy_run(model.name, queue.name, order, 6).0);
            }
        }
    }
}

#[test]
fn the_parts_add_up_to_the_time_that_requests_took() {
    for model in &model::REGISTRY {
        let (_, stats, end) = busy_run(model.name, "c-look", Order::Fifo, 9);
        let shares = [stats.reads, stats.writes, stats.flushes, stats.discards];
        let response: u64 = shares.iter().map(|s| s.response_ns).sum();
        assert_eq!(stats.parts.total_ns(), response, "{}", model.name);
        let requests: u64 = shares.iter().map(|s| s.requests).sum();
        assert_eq!(stats.arrived, requests);
        let by_origin = stats.by_origin(Origin::User).requests;
        assert_eq!(by_origin, stats.reads.requests + stats.writes.requests);
        assert!(stats.busy_ns <= end.0);
        let service: u64 = shares.iter().map(|s| s.service_ns).sum();
        assert_eq!(stats.parts.service_ns(), service);
        if model::REGISTRY.get(model.name).unwrap().kind == model::Kind::Mechanical {
            // One at a time and never idle while one waits.
            let used = stats.utilization(end.0) * end.0 as f64;
            assert!((used - stats.busy_ns as f64).abs() < 1e3, "{}: {stats:?}", model.name);
        }
    }
}

/// Milliseconds until 64 random reads, submitted at once, are done.
fn batch_ms(model: &str, queue: &str) -> f64 {
    let rt = rt();
    let disk = disk(&rt, model).scheduler(queue::REGISTRY.get(queue).unwrap().make()).start();
    let mut rng = Rng::new(1);
    let pending: Vec<_> =
        (0..64).map(|_| disk.submit(read(rng.below(1_000_000_000 / 4096) * 4096, 4096))).collect();
    for done in pending {
        rt.block_on(done).unwrap().unwrap();
    }
    rt.now().0 as f64 / 1e6
}

#[test]
fn schedulers_save_positioning_time() {
    let ms = |queue| batch_ms("hp97560", queue);
    let (fcfs, clook, look, sstf, sptf) =
        (ms("fcfs"), ms("c-look"), ms("look"), ms("sstf"), ms("sptf"));
    println!(
        "fcfs {fcfs:.0} ms, c-look {clook:.0}, look {look:.0}, sstf {sstf:.0}, sptf {sptf:.0}"
    );
    assert!(clook < 0.8 * fcfs && look < 0.8 * fcfs && sstf < 0.8 * fcfs);
    assert!(sptf < clook && sptf < sstf);
}

#[test]
fn an_ssd_works_on_several_requests_at_once() {
    // 64 reads on 64 channels of 70 us: one latency and 64 transfers of 1.28 us.
    assert!(batch_ms("ssd-nvme", "fcfs") < 0.16);
    assert!(batch_ms("ssd-sata", "fcfs") > 64.0 / 8.0 * 0.080);
}

#[test]
fn disks_on_one_bus_wait_for_each_other() {
    let elapsed = |disks: usize| {
        let rt = rt();
        let bus = Bus::new(3_000_000, 64 << 10);
        let disks: Vec<_> =
            (0..disks).map(|_| disk(&rt, "hp97560").bus(bus.clone()).start()).collect();
        let readers: Vec<_> = disks
            .iter()
            .map(|disk| {
                let disk = disk.clone();
                rt.spawn("reader", async move {
                    for i in 0..64 {
                        disk.submit(read(i * 64 * KIB, 64 * KIB)).await.unwrap();
                    }
                })
            })
            .collect();
        for reader in readers {
            rt.block_on(reader).unwrap();
        }
        (rt.now().0 as f64 / SECS as f64, disks[0].stats().parts.bus_ns, bus.waited_ns())
    };
    let bytes = 64.0 * 65536.0;
    let (one, _, waited) = elapsed(1);
    assert_eq!(waited, 0);
    // One disk streams at 2.2 MB/s; four share 3 MB/s.
    assert!((bytes / one / 2.2e6 - 1.0).abs() < 0.05, "{one}");
    let (four, bus_ns, waited) = elapsed(4);
    assert!((4.0 * bytes / four / 3.0e6 - 1.0).abs() < 0.05, "{four}");
    assert!(bus_ns > 0 && waited > 0);
}

#[test]
fn writes_over_a_bus_lose_a_revolution_as_logging_versus_clustering_says() {
    // Section 3.1: LFS and unspaced FFS lose one revolution between each 64 KB request and reach
    // about 67% of the disk's bandwidth of 57 sectors at 5400 rpm.
    let rt = rt();
    let disk =
        disk(&rt, "dsp3105").bus(bus::REGISTRY.get("sparcstation-2").unwrap().build()).start();
    let count = 200;
    for i in 0..count {
        let blocks = vec![Block::Zero(64 << 10)];
        rt.block_on(disk.submit(write(i * 64 * KIB, blocks))).unwrap().unwrap();
    }
    let rate = (count * 64 * KIB) as f64 / (rt.now().0 as f64 / 1e9);
    let share = rate / (57.0 * 512.0 * 90.0);
    println!("64 KB writes in order: {:.2} MB/s, {:.0}% of the disk", rate / 1e6, share * 100.0);
    assert!((0.58..0.75).contains(&share), "{share}");
    assert_eq!(disk.info().max_io, 64 << 10);
}

#[test]
fn reads_over_a_slow_bus_run_at_its_rate() {
    let rt = rt();
    let disk =
        disk(&rt, "dsp3105").bus(bus::REGISTRY.get("sparcstation-2").unwrap().build()).start();
    let count = 200;
    let mut last = Vec::new();
    for i in 0..count {
        last = rt.block_on(disk.submit(read(i * 64 * KIB, 64 * KIB))).unwrap().unwrap();
    }
    assert_eq!(last, [Block::Zero(64 << 10)]);
    let mb = (count * 64 * KIB) as f64 / (rt.now().0 as f64 / 1e9) / (1 << 20) as f64;
    println!("64 KB reads in order: {mb:.2} MB/s of the bus's 2.3");
    assert!((2.0..2.3).contains(&mb), "{mb}");
}

#[test]
fn requests_that_the_device_cannot_do_are_refused_with_their_place() {
    let rt = rt();
    let disk = disk(&rt, "ssd-sata").name("sda").start();
    let fail = |io| rt.block_on(disk.submit(io)).unwrap().unwrap_err();
    let size = disk.info().size;
    assert_eq!(fail(read(size, 512)).kind, IoErrorKind::OutOfRange);
    assert_eq!(fail(read(u64::MAX - 511, 512)).kind, IoErrorKind::OutOfRange);
    assert_eq!(fail(read(100, 512)).kind, IoErrorKind::OutOfRange);
    let mut short = write(4096, vec![Block::Zero(512)]);
    short.len = 1024;
    assert!(fail(short).to_string().contains("blocks have 512 bytes"));
    assert_eq!(disk.in_flight(), 0);
}

/// Requests longer than the disk moves at once used to be refused. A layout with clusters, journals
/// or segments larger than a mebibyte then had an I/O error in the simulator alone: the block layer
/// of a real device splits such requests.
#[test]
fn a_request_longer_than_the_disk_moves_at_once_is_served_in_parts() {
    let rt = rt();
    let disk = disk(&rt, "ssd-sata").start();
    let long = u64::from(disk.info().max_io) * 5 / 2;
    let blocks: Vec<Block> = (0..long / 4096).map(|i| stamp(i, 1)).collect();
    let done = rt.block_on(disk.submit(write(8192, blocks.clone()))).unwrap();
    assert_eq!(done, Ok(Vec::new()));
    let got = rt.block_on(disk.submit(read(8192, long))).unwrap().unwrap();
    assert_eq!(twin_disk::gather(&got, 0, long as usize).len() as u64, long);
    assert_eq!(disk.platter().read(8192, long), blocks);
    assert_eq!((disk.stats().writes.requests, disk.stats().reads.requests), (3, 3));
    assert_eq!(disk.in_flight(), 0);
    // A discard moves no data, so it is not split.
    rt.block_on(disk.submit(Io::discard(0, 16 << 20))).unwrap().unwrap();
}

#[test]
fn a_dropped_disk_leaves_no_task() {
    let rt = rt();
    let disk = disk(&rt, "hp97560").start();
    rt.block_on(disk.submit(read(0, 512))).unwrap().unwrap();
    assert_eq!(rt.waiting(), ["disk"]);
    drop(disk);
    rt.run_ready();
    assert!(rt.waiting().is_empty());
}

#[test]
fn a_request_made_before_the_task_first_runs_is_served() {
    let rt = rt();
    let disk = disk(&rt, "instant").start();
    let pending = disk.submit(write(0, vec![stamp(0, 1)]));
    assert_eq!(rt.block_on(pending), Ok(Ok(Vec::new())));
    assert_eq!(rt.now(), Time(0));
}

#[test]
fn a_dropped_pending_does_not_stop_its_request() {
    let rt = rt();
    let disk = disk(&rt, "ssd-sata").start();
    drop(disk.submit(write(0, vec![stamp(0, 1)])));
    let rt2 = rt.clone();
    rt.block_on(async move { rt2.sleep(MILLIS).await }).unwrap();
    assert_eq!(disk.platter().read(0, 4096), [stamp(0, 1)]);
}

#[test]
fn a_flush_covers_what_had_completed_when_it_was_asked() {
    let rt = rt();
    let disk = disk(&rt, "ssd-sata").crashable().start();
    let in_doubt = |disk: &SimDisk| {
        let state = disk.crash_state().unwrap();
        state.unstable_writes().iter().map(|d| (d.at, d.reported)).collect::<Vec<_>>()
    };
    rt.block_on(disk.submit(write(0, vec![stamp(0, 1)]))).unwrap().unwrap();
    assert_eq!(in_doubt(&disk), [(0, true)]);
    // This write is under way when the flush is asked for, so the flush need not cover it.
    let (second, flush) =
        (disk.submit(write(4096, vec![stamp(1, 1)])), disk.submit(Io::flush(Origin::User)));
    assert_eq!(in_doubt(&disk), [(0, true), (4096, false)]);
    rt.block_on(flush).unwrap().unwrap();
    rt.block_on(second).unwrap().unwrap();
    assert_eq!(in_doubt(&disk), [(4096, true)]);
    let certain = disk.crash_state().unwrap();
    assert_eq!(certain.durable().read(0, 4096), [stamp(0, 1)]);
    assert_eq!(certain.durable().read(4096, 4096), [Block::Zero(4096)]);
    rt.block_on(disk.submit(Io::flush(Origin::User))).unwrap().unwrap();
    assert_eq!(in_doubt(&disk), []);
}

#[test]
fn without_a_write_cache_completed_writes_are_durable() {
    let rt = rt();
    let disk = disk(&rt, "hp97560").crashable().start();
    rt.block_on(disk.submit(write(0, vec![stamp(0, 1)]))).unwrap().unwrap();
    let under_way = disk.submit(write(4096, vec![stamp(1, 1)]));
    let state = disk.crash_state().unwrap();
    assert_eq!(state.durable().read(0, 4096), [stamp(0, 1)]);
    assert_eq!(state.unstable_writes().len(), 1);
    drop(under_way);
}

#[test]
fn a_crash_drops_the_disks_task_and_its_requests() {
    let rt = rt();
    let disk = disk(&rt, "ssd-sata").crashable().start();
    let done = Rc::new(RefCell::new(0));
    for i in 0..10 {
        let (disk, done) = (disk.clone(), Rc::clone(&done));
        rt.spawn("writer", async move {
            disk.submit(write(i * 4096, vec![stamp(i, 1)])).await.unwrap();
            *done.borrow_mut() += 1;
        });
    }
    let rt2 = rt.clone();
    rt.block_on(async move { rt2.sleep(40 * MICROS).await }).unwrap();
    let (finished, state) = (*done.borrow(), disk.crash_state().unwrap());
    assert!((1..10).contains(&finished));
    assert_eq!(state.unstable_writes().iter().filter(|d| d.reported).count(), finished);
    assert_eq!(state.unstable_writes().len(), 10);
    rt.crash();
    assert!(rt.waiting().is_empty());
    // The restarted machine finds one of the possible contents.
    let found = disk.power_failure(&mut Rng::new(1)).unwrap();
    let rt = self::rt();
    let disk = self::disk(&rt, "ssd-sata").platter(found.clone()).start();
    let read = rt.block_on(disk.submit(read(0, 40960))).unwrap().unwrap();
    assert_eq!(read, found.read(0, 40960));
}

#[test]
fn statistics_begin_anew() {
    let rt = rt();
    let disk = disk(&rt, "hp97560").start();
    rt.block_on(disk.submit(read(1 << 20, 4096))).unwrap().unwrap();
    assert_eq!(disk.stats().reads.requests, 1);
    assert_eq!(disk.stats().busy_ns, rt.now().0);
    disk.reset_stats();
    assert_eq!((disk.stats().reads.requests, disk.stats().busy_ns), (0, 0));
    rt.block_on(disk.submit(read(0, 512))).unwrap().unwrap();
    assert_eq!(disk.stats().reads.bytes, 512);
}

#[test]
fn an_observer_sees_requests_in_the_order_of_service_and_changes_nothing() {
    let run = |observed: bool| {
        let rt = rt();
        let scheduler = queue::REGISTRY.get("c-look").unwrap().make();
        let disk = disk(&rt, "hp97560").scheduler(scheduler).start();
        let seen = Rc::new(RefCell::new(Vec::new()));
        if observed {
            let seen = Rc::clone(&seen);
            disk.observe(Rc::new(move |served| seen.borrow_mut().push(*served)));
        }
        let ends = [500, 300, 400].map(|mib| disk.submit(read(mib << 20, 8 * KIB)));
        rt.block_on(twin_rt::join_all(ends)).unwrap();
        (rt.now(), seen.take())
    };
    let ((plain, none), (time, seen)) = (run(false), run(true));
    assert_eq!((plain, none.len()), (time, 0));
    let places: Vec<u64> = seen.iter().map(|served| served.at >> 20).collect();
    assert_eq!(places, [500, 300, 400], "the arm goes back and then up");
    for pair in seen.windows(2) {
        assert!(pair[0].done <= pair[1].begun, "one after the other: {pair:?}");
    }
    assert_eq!(seen[2].parts.queue_ns, seen[2].begun.0);
}

/// Reads of 4 KB in a second at random places of the disk of 7200 rpm, with `in_flight` reads
/// always under way.
fn random_reads_per_s(commands: u32, in_flight: u64) -> f64 {
    let rt = rt();
    let options = Options { queue_depth: Some(commands), ..Options::default() };
    let disk = SimDisk::builder(&rt, built("disk-7200", &options)).start();
    let readers: Vec<_> = (0..in_flight)
        .map(|reader| {
            let disk = disk.clone();
            rt.spawn("reader", async move {
                let mut rng = Rng::new(reader);
                for _ in 0..4000 / in_flight {
                    let at = rng.below(disk.info().size / 4096) * 4096;
                    disk.submit(read(at, 4096)).await.unwrap();
                }
            })
        })
        .collect();
    for reader in readers {
        rt.block_on(reader).unwrap();
    }
    4000.0 / rt.now().0 as f64 * 1e9
}

#[test]
fn a_drive_with_a_queue_of_commands_serves_them_in_a_better_order() {
    // One at a time: 8.2 ms of seek, half a revolution of 8.33 ms, and the controller's 0.05 ms.
    let alone = 1e3 / (8.2 + 4.17 + 0.05 + 0.03);
    let (one, unordered) = (random_reads_per_s(32, 1), random_reads_per_s(1, 32));
    let (four, all) = (random_reads_per_s(32, 4), random_reads_per_s(32, 32));
    println!("1 in flight {one:.1}/s, 32 unordered {unordered:.1}, 4 {four:.1}, 32 {all:.1}");
    assert!((one / alone - 1.0).abs() < 0.05 && (unordered / alone - 1.0).abs() < 0.05);
    assert!(four > 1.15 * one && all > 1.8 * one);
}
