//! Disks on a bus with a protocol: what the bus allows, and what waiting for it costs.

use twin_disk::{Block, Class};
use twin_rt::{ClockOnly, MICROS, MILLIS, Rng};

use super::*;
use crate::bus::{self, Phase};
use crate::model;

fn disk(rt: &Rt, name: &str, bus: &Bus) -> SimDisk {
    let model = model::REGISTRY.get(name).unwrap().build(&model::Options::default()).unwrap();
    SimDisk::builder(rt, model).bus(bus.clone()).start()
}

fn read(at: u64, len: u64) -> Io {
    Io::read(at, len, Class::Data, Origin::User)
}

#[test]
fn ten_disks_on_one_bus_move_no_more_than_it_can() {
    // From the drives' buffers they could send several times as much.
    let rt = Rt::new(ClockOnly::default(), 1);
    let bus = bus::REGISTRY.get("scsi-2").unwrap().build();
    let disks: Vec<_> = (0..10).map(|_| disk(&rt, "hp97560", &bus)).collect();
    for disk in &disks {
        let disk = disk.clone();
        rt.spawn("reader", async move {
            loop {
                disk.submit(read(0, 64 << 10)).await.unwrap();
            }
        });
    }
    let (clock, watched) = (rt.clone(), bus.clone());
    rt.spawn("every tenth of a second", async move {
        let mut before = 0;
        loop {
            clock.sleep(100 * MILLIS).await;
            let bytes = watched.stats().bytes;
            // A transfer is counted when it begins.
            assert!(bytes - before <= 1_000_000 + (64 << 10), "{}", bytes - before);
            before = bytes;
        }
    });
    rt.block_on(rt.sleep(20 * twin_rt::SECS)).unwrap();
    let (stats, elapsed) = (bus.stats(), rt.now() - Time(0));
    let rate = stats.bytes as f64 / (elapsed as f64 / 1e9);
    let used = stats.busy_ns() as f64 / elapsed as f64;
    println!(
        "{:.2} MB/s, {:.1}% used, {:.2} ms waited",
        rate / 1e6,
        used * 100.0,
        stats.mean_wait_ns() / 1e6
    );
    assert!(rate <= 10e6 && rate > 9.5e6, "{rate}");
    assert!(used > 0.97 && used <= 1.0, "{used}");
    // The requests' own accounts agree with the bus's: what they did not spend on the drives.
    let all: Nanos = disks.iter().map(|disk| disk.stats().parts.bus_ns).sum();
    assert!(all >= stats.waited_ns, "{all} {}", stats.waited_ns);
}

#[test]
fn a_request_pays_each_phase_once() {
    let rt = Rt::new(ClockOnly::default(), 1);
    let bus = bus::REGISTRY.get("scsi-2").unwrap().build();
    let disk = disk(&rt, "instant", &bus);
    rt.block_on(disk.submit(read(0, 8192))).unwrap().unwrap();
    let after_read = rt.now();
    let write = Io::write(0, vec![Block::Zero(8192)], Class::Data, Origin::User);
    rt.block_on(disk.submit(write)).unwrap().unwrap();
    let stats = bus.stats();
    // A command and its data or report for each.
    assert_eq!((stats.tenancies, stats.waited, stats.bytes), (4, 0, 2 * 8192));
    let times = |phase| stats.phase_ns(phase) as f64 / 1e3;
    assert!((times(Phase::Arbitration) - 4.0 * 4.4).abs() < 0.01);
    assert!((times(Phase::Transfer) - 2.0 * 819.2).abs() < 0.01);
    assert_eq!(times(Phase::Selection), 2.0 * 2.0);
    assert!(times(Phase::Command) > 0.0 && times(Phase::Disconnect) > 0.0);
    assert!(times(Phase::Reselection) > 0.0 && times(Phase::Status) > 0.0);
    // Alone, nothing overlaps: the times of both requests are those of the bus.
    assert_eq!(stats.busy_ns(), rt.now() - Time(0));
    assert_eq!(disk.stats().parts.total_ns(), rt.now() - Time(0));
    assert!(after_read - Time(0) < 900 * MICROS);
}

/// Ten disks that take no time themselves, so that only the bus makes requests wait; Poisson arrivals.
/// The mean wait, in times of service, is u / (2 (1 - u)) (Pollaczek and Khinchine).
#[test]
fn with_poisson_arrivals_requests_wait_for_the_bus_as_queueing_theory_says() {
    for utilization in [0.5, 0.8] {
        let rt = Rt::new(ClockOnly::default(), 1);
        let bus = Bus::new(10_000_000, 64 << 10);
        let disks: Vec<_> = (0..10).map(|_| disk(&rt, "instant", &bus)).collect();
        let service_ns = bus.ns_for(8192) as f64;
        let mut rng = Rng::new(7);
        let (clock, count) = (rt.clone(), 250_000);
        let done = rt.block_on(async move {
            let (mut at, mut under_way) = (0.0, Vec::new());
            for _ in 0..count {
                at += -(1.0 - rng.unit()).ln() * service_ns / utilization;
                clock.sleep_until(Time(at as u64)).await;
                under_way.push(disks[rng.below(10) as usize].submit(read(0, 8192)));
            }
            for pending in under_way {
                pending.await.unwrap();
            }
            disks.iter().map(|disk| disk.stats().parts.bus_ns).sum::<Nanos>()
        });
        let theory = utilization / (2.0 * (1.0 - utilization));
        let of_bus = bus.stats().mean_wait_ns() / service_ns;
        let of_requests = done.unwrap() as f64 / f64::from(count) / service_ns - 1.0;
        println!("{utilization}: {of_bus:.3} and {of_requests:.3} waited, {theory:.3} in theory");
        assert!((of_bus / theory - 1.0).abs() < 0.05, "{of_bus}");
        assert!((of_requests / theory - 1.0).abs() < 0.05, "{of_requests}");
        assert!((bus.busy_ns() as f64 / (rt.now().0 as f64) / utilization - 1.0).abs() < 0.02);
    }
}
