//! The figures of simulated runs are held against arithmetic that is not theirs: against a
//! workload whose operations are written down here, a device whose times are, and the list of
//! requests that the disk served ([`evidence`]). In builds of the fault campaign each fault of
//! accounting is planted in turn, and at least one of the same checks must fail.

mod evidence;

use std::collections::BTreeMap;
use std::sync::Arc;

use twin_disk::IoKind;
use twin_fs::Op;
use twin_lab::{
    Config, Device, Distribution, Figures, Fuse, Latency, MACHINE_FORMAT, MachineFile,
    PlantedFault, Processor, Transfers, Workload,
};
use twin_sim::Served;
use twin_trace::Outcome;
use twin_verdict::{MEASURES, Trust, rank};

use evidence::{Evidence, Script};

/// The checks that failed, by name.
#[derive(Default)]
struct Checks(BTreeMap<&'static str, String>);

impl Checks {
    fn holds(&mut self, name: &'static str, holds: bool, what: impl FnOnce() -> String) {
        if !holds {
            self.0.entry(name).or_insert_with(what);
        }
    }

    fn equal(&mut self, name: &'static str, got: u64, want: u64) {
        self.holds(name, got == want, || format!("{got} instead of {want}"));
    }

    /// Within a millionth, for what was divided.
    fn near(&mut self, name: &'static str, got: f64, want: f64) {
        let holds = (got - want).abs() <= 1e-6 * want.abs() + 1e-9;
        self.holds(name, holds, || format!("{got} instead of {want}"));
    }

    /// Counts and bytes of the disk's requests.
    fn requests(&mut self, run: &Evidence) {
        let disk = &run.figures.disk_use;
        let counts = [
            ("reads of the disk", disk.reads, IoKind::Read),
            ("writes to the disk", disk.writes, IoKind::Write),
            ("flushes of the disk", disk.flushes, IoKind::Flush),
        ];
        for (name, got, kind) in counts {
            self.equal(name, got, run.kind(kind).count() as u64);
        }
        self.equal("bytes read from the disk", disk.read_bytes, run.bytes(IoKind::Read));
        self.equal("bytes written to the disk", disk.written_bytes, run.bytes(IoKind::Write));
    }
}

// Microseconds of the machine whose every time is written down.
const CREATE_US: u64 = 11;
const WRITE_US: u64 = 3;
const READ_US: u64 = 2;
const SYNC_US: u64 = 7;
const ATTR_US: u64 = 4;
const REQUEST_US: u64 = 5;
const TRANSIT_US: u64 = 9;
const SERVE_US: u64 = 6;
/// Nanoseconds of copying a byte, and of sending one.
const BYTE_NS: u64 = 1;

/// The device's time for a write or a read of so many bytes, and for a flush after so many written.
fn write_ns(bytes: u64) -> u64 {
    50_000 + bytes.saturating_sub(4096)
}

fn read_ns(bytes: u64) -> u64 {
    100_000 + 2 * bytes.saturating_sub(4096)
}

fn flush_ns(dirty: u64) -> u64 {
    20_000 + dirty
}

fn machine() -> Arc<MachineFile> {
    let at = |bytes: u64, ns: u64| Distribution::of(bytes, vec![ns as f64 / 1e3], 1);
    let two = |of: fn(u64) -> u64| vec![at(4096, of(4096)), at(4096 + 1_000_000, of(1_004_096))];
    let transfers = |of| Transfers { alone: two(of), ..Transfers::default() };
    let us = |whole: u64| whole as f64;
    let byte = BYTE_NS as f64 * 4.096;
    let processor = Processor {
        create_us: us(CREATE_US),
        write_us: us(WRITE_US),
        read_us: us(READ_US),
        sync_us: us(SYNC_US),
        attr_us: us(ATTR_US),
        request_us: us(REQUEST_US),
        copy_4k_us: byte,
        send_4k_us: byte,
        ..Processor::default()
    };
    let fuse = Fuse { transit_us: us(TRANSIT_US), serve_us: us(SERVE_US), ..Fuse::default() };
    Arc::new(MachineFile {
        format: MACHINE_FORMAT,
        about: [("directory".into(), "made up".into())].into(),
        warnings: Vec::new(),
        validated: None,
        checked: None,
        fuse,
        cold: Vec::new(),
        processor: [("lfs".into(), processor)].into(),
        device: Device {
            max_request: 1 << 20,
            read: transfers(read_ns),
            write: transfers(write_ns),
            flush: vec![at(0, flush_ns(0)), at(1_000_000, flush_ns(1_000_000))],
            ..Device::default()
        },
    })
}

fn on_machine(text: &str) -> Config {
    Config::parse(text).unwrap().on_machine(machine())
}

const OLD: u64 = 100;
const OLD_BYTES: u64 = 1 << 20;
const CHUNK: u32 = 128 << 10;
const FILES: u64 = 100;
const LATE_WRITES: u64 = 50;

/// A file that exists is read, a hundred are written and made durable one by one, some of them
/// larger, and one is written whose data nobody waits for.
fn synced_files() -> Script {
    let mut script = Script::default();
    script.existing(OLD, OLD_BYTES);
    // The root is in memory from here on.
    script.look_in_vain();
    for chunk in 0..OLD_BYTES / u64::from(CHUNK) {
        script.read(OLD, chunk * u64::from(CHUNK), CHUNK);
    }
    for file in 0..FILES {
        let ino = 1000 + file;
        script.create(ino);
        script.write(ino, 0, if file % 20 == 7 { 64 << 10 } else { 4096 });
        script.fsync(ino);
    }
    script.create(999);
    (0..LATE_WRITES).for_each(|n| script.write(999, n * 4096, 4096));
    script
}

/// One client on a device with fixed times.
fn by_hand(checks: &mut Checks, planted: PlantedFault) {
    let script = synced_files();
    let config = on_machine("lfs:size=256M,read-ahead=0");
    let run = Evidence::of(&config, &script.workload(), planted);
    let figures = &run.figures;
    checks.requests(&run);
    checks.equal("operations", figures.ops, script.operations().len() as u64);
    checks.equal("bytes that clients read", figures.read_bytes, script.read_bytes());
    checks.equal("bytes that clients wrote", figures.written_bytes, script.written());
    let amplification = run.bytes(IoKind::Write) as f64 / script.written() as f64;
    let got = figures.write_amplification.unwrap_or_default();
    checks.near("bytes to the disk a user byte", got, amplification);

    // After the last flush nothing remains to be done.
    let last = run.served.iter().map(|served| served.done.0).max().unwrap_or(0);
    checks.near("all on disk", figures.finish_s, (last - run.began) as f64 / 1e9);
    let mut device = 0;
    let mut dirty = 0;
    for served in &run.served {
        device += match served.kind {
            IoKind::Read => read_ns(served.len),
            IoKind::Write => write_ns(served.len),
            IoKind::Flush => flush_ns(dirty),
            IoKind::Discard => 0,
        };
        match served.kind {
            IoKind::Write => dirty += served.len,
            IoKind::Flush => dirty = 0,
            _ => {}
        }
    }
    checks.near("service of the disk", figures.disk_use.service_s, device as f64 / 1e9);
    checks.near("waiting of an idle disk", figures.disk_use.waiting_s, 0.0);

    let transfers = run.kind(IoKind::Read).chain(run.kind(IoKind::Write));
    let (requests, sent) = transfers.fold((0, 0), |(n, bytes), one| (n + 1, bytes + one.len));
    let of = |which: fn(&Op) -> bool| script.count(which);
    let processor_ns = 1000
        * (CREATE_US * of(|op| matches!(op, Op::Create { .. }))
            + WRITE_US * of(|op| matches!(op, Op::Write { .. }))
            + READ_US * of(|op| matches!(op, Op::Read { .. }))
            // The run ends with a sync of its own.
            + SYNC_US * (of(|op| matches!(op, Op::Fsync { .. })) + 1)
            + REQUEST_US * requests)
        + BYTE_NS * (script.written() + script.read_bytes() + sent);
    // Files that are still open or referred to are given back at the end: operations with a price.
    let given_back = 1000 * ATTR_US * (FILES + 1);
    checks.near("processor time", figures.cpu_s, (processor_ns + given_back) as f64 / 1e9);

    fsyncs(checks, &run, &script);
    let span: f64 =
        figures.verbs.iter().map(|kind| kind.latency.mean_us * kind.latency.count as f64).sum();
    checks.near(
        "operations a second",
        figures.ops_per_s,
        script.operations().len() as f64 * 1e6 / span,
    );
}

/// The latencies of fsyncs: from the end of the operation before to the end of the flush.
fn fsyncs(checks: &mut Checks, run: &Evidence, script: &Script) {
    let name = "latency of fsyncs";
    let reads = run.kind(IoKind::Read).map(|served| served.done.0);
    let mut now = reads.max().unwrap_or(0) + BYTE_NS * u64::from(CHUNK);
    let mut flushes = run.kind(IoKind::Flush).map(|served| served.done.0);
    let mut latencies = Vec::new();
    for (op, _) in script.operations() {
        match op {
            Op::Create { .. } => now += 1000 * CREATE_US,
            Op::Write { data, .. } => now += 1000 * WRITE_US + BYTE_NS * data.len(),
            Op::Fsync { .. } => {
                let Some(end) = flushes.next() else { break };
                latencies.push(end.saturating_sub(now));
                now = end;
            }
            _ => {}
        }
    }
    latencies.sort_unstable();
    let count = latencies.len();
    let own = run.figures.verbs.iter().find(|kind| kind.verb == "fsync");
    let own = own.map_or(Latency::default(), |kind| kind.latency);
    checks.equal(name, own.count, FILES);
    let mean = latencies.iter().sum::<u64>() as f64 / count as f64 / 1e3;
    checks.near(name, own.mean_us, mean);
    checks.near("longest fsync", own.max_us, latencies[count - 1] as f64 / 1e3);
    for (name, got, percent) in [
        ("median of fsyncs", own.p50_us, 50),
        ("p90 of fsyncs", own.p90_us, 90),
        ("p99 of fsyncs", own.p99_us, 99),
    ] {
        let exact = latencies[(count * percent).div_ceil(100) - 1] as f64 / 1e3;
        // A histogram's bucket is that wide.
        let holds = (exact - 1e-3..=exact * 1.008 + 1e-3).contains(&got);
        checks.holds(name, holds, || format!("{got} us instead of {exact} us"));
    }
}

/// The time of a client for reads that it waits for one by one.
fn cold_reads_ns(run: &Evidence) -> u64 {
    let each = |one: &Served| 1000 * REQUEST_US + BYTE_NS * one.len + read_ns(one.len);
    run.kind(IoKind::Read).map(each).sum()
}

/// Operations without any work of the disk, through the kernel of a mount.
fn through_the_kernel(checks: &mut Checks, planted: PlantedFault) {
    let mut script = Script::default();
    let ino = twin_fs::ROOT_INO;
    (0..500).for_each(|_| script.add(Op::GetAttr { ino }, Outcome::Attr));
    let config = on_machine("lfs:size=256M,front-end=fuse");
    let run = Evidence::of(&config, &script.workload(), planted);
    let each = TRANSIT_US + SERVE_US + ATTR_US;
    let median = run.figures.latency.p50_us;
    let holds = (median / each as f64 - 1.0).abs() < 0.008;
    checks.holds("latency through the kernel", holds, || format!("{median} instead of {each} us"));
    let all = (500 * 1000 * each + cold_reads_ns(&run)) as f64 / 1e9;
    checks.near("time through the kernel", run.figures.span_s, all);
}

/// Operations that fail though they did not in the workload, and others that cannot be issued
/// because of that.
fn failing(checks: &mut Checks, planted: PlantedFault) {
    const FAILING: u64 = 10;
    const SOUND: u64 = 80;
    let mut script = Script::default();
    let ino = twin_fs::ROOT_INO;
    (0..SOUND).for_each(|_| script.add(Op::GetAttr { ino }, Outcome::Attr));
    for n in 0..FAILING {
        let name = format!("missing{n}").into_bytes().into();
        script.add(Op::Lookup { dir: ino, name }, Outcome::Entry(5000 + n));
        script.read(5000 + n, 0, 4096);
    }
    let config = on_machine("lfs:size=256M");
    let run = Evidence::of(&config, &script.workload(), planted);
    // A look-up is free on this machine, but for reading the directory.
    let seconds = (1000 * SOUND * ATTR_US + cold_reads_ns(&run)) as f64 / 1e9;
    let failed = run.figures;
    checks.equal("operations issued", failed.ops, SOUND + FAILING);
    checks.near("operations issued a second", failed.ops_per_s, (SOUND + FAILING) as f64 / seconds);
    checks.equal("failed operations", failed.failed, 2 * FAILING);
    let mut slow = Script::default();
    (0..1000).for_each(|_| slow.add(Op::GetAttr { ino }, Outcome::Attr));
    let sound = Evidence::of(&config, &slow.workload(), PlantedFault::None).figures;
    let mut all: [Figures; 2] = [failed, sound];
    rank(&mut all.iter_mut().collect::<Vec<_>>(), MEASURES.default_entry(), &Trust::of([&config]));
    let ranks = all.map(|figures| figures.rank);
    checks.holds("rank of what failed", ranks == [None, Some(1)], || format!("{ranks:?}"));
}

/// A file is overwritten at random until its log has been cleaned many times.
fn cleaned(checks: &mut Checks, planted: PlantedFault) {
    const BLOCKS: u64 = 5000;
    // As docs/ondisk-lfs.md has it.
    const SEGMENTS_AT: u64 = 65_536;
    const SEGMENT: u64 = 256 << 10;
    const SIZE: u64 = 32 << 20;
    let mut script = Script::default();
    script.existing(OLD, BLOCKS * 4096);
    let mut rng = twin_rt::Rng::new(7);
    for _ in 0..2000 {
        // A batch overwrites no block twice, so that every byte reaches the disk.
        let first = rng.below(BLOCKS);
        (0..4).for_each(|n| script.write(OLD, (first + n * 1000) % BLOCKS * 4096, 4096));
        script.fsync(OLD);
    }
    let config = on_machine("lfs:size=32M,segment=256K,cache=8M");
    let run = Evidence::of(&config, &script.workload(), planted);
    let log = run.figures.log;
    checks.requests(&run);
    let read = run.cleaner_read();
    checks.holds("there is cleaning", read > 10 << 20, || format!("{read} bytes"));
    checks.equal("bytes that the cleaner read", log.cleaner_read_bytes, read);
    checks.equal("bytes that clients read of a cleaned log", run.figures.read_bytes, 0);
    // Superblocks and checkpoints lie at fixed places before and behind the segments.
    let log_of = SEGMENTS_AT..SEGMENTS_AT + (SIZE - SEGMENTS_AT - 12_288) / SEGMENT * SEGMENT;
    let segments = run.submitted("write").filter(|one| log_of.contains(&one.at));
    let written: u64 = segments.map(|one| one.len).sum();
    checks.equal("bytes written to the log", log.log_bytes, written);
    checks.equal("new data", log.new_data_bytes, script.written());
    let cost = (written + read) as f64 / script.written() as f64;
    checks.near("write cost", log.write_cost.unwrap_or_default(), cost);
}

/// Clients side by side on a disk that serves one request at a time, takes no request above a
/// mebibyte, and shares nothing with the host.
fn waiting(checks: &mut Checks, planted: PlantedFault) {
    let config = Config::parse("lfs:disk=hp97560,size=256M,cache=16M,segment=4M").unwrap();
    let text = "mail:messages=300,clients=4,think=0us";
    let run = Evidence::of(&config, &Workload::Generated(text.into(), 1), planted);
    checks.requests(&run);
    let disk = &run.figures.disk_use;
    let arrivals = run.arrivals();
    let pairs = || arrivals.iter().zip(&run.served);
    let waited: u64 = pairs().map(|(arrived, served)| served.begun.0 - arrived).sum();
    checks.holds("there is waiting", waited > run.service() / 10, || format!("{waited} ns"));
    checks.near("waiting in the queue", disk.waiting_s, waited as f64 / 1e9);
    checks.near("service of a disk in demand", disk.service_s, run.service() as f64 / 1e9);
    let mut present: Vec<(u64, u64)> =
        pairs().map(|(&arrived, served)| (arrived, served.done.0)).collect();
    present.sort_unstable();
    let (mut busy, mut until) = (0, 0);
    for (arrived, done) in present {
        busy += done.saturating_sub(until.max(arrived));
        until = until.max(done);
    }
    checks.near("time with requests", disk.busy_s, busy as f64 / 1e9);
    let named: f64 = disk.time_s.iter().map(|(_, seconds)| seconds).sum();
    checks.near("parts of the time", named, (waited + run.service()) as f64 / 1e9);
}

/// A file is written in one go, in requests that are larger than the disk takes.
fn split(checks: &mut Checks, planted: PlantedFault) {
    let mut script = Script::default();
    script.create(OLD);
    (0..24).for_each(|n| script.write(OLD, n << 20, 1 << 20));
    script.fsync(OLD);
    let config = Config::parse("lfs:disk=hp97560,size=256M,cache=64M,segment=4M").unwrap();
    let run = Evidence::of(&config, &script.workload(), planted);
    let split = run.served.len() > run.submitted.len();
    checks.holds("there are split requests", split, || "none".into());
    checks.requests(&run);
}

/// A file that exists is read twice: once from the disk, once from memory.
fn read_twice(checks: &mut Checks, planted: PlantedFault) {
    let mut script = Script::default();
    script.existing(OLD, 16 * OLD_BYTES);
    for pass in 0..2 * 16 * OLD_BYTES / u64::from(CHUNK) {
        script.read(OLD, pass * u64::from(CHUNK) % (16 * OLD_BYTES), CHUNK);
    }
    let config = on_machine("lfs:size=256M,cache=64M,read-ahead=0");
    let run = Evidence::of(&config, &script.workload(), planted);
    let share = run.figures.cache_hit_share;
    // Indirect blocks are looked up too, a few for each read.
    let holds = (0.49..0.53).contains(&share);
    checks.holds("share of cache hits", holds, || format!("{share} instead of a half"));
}

/// Wear of an SSD that is far from full.
fn wear(checks: &mut Checks, planted: PlantedFault) {
    const PAGE: u64 = 16_384;
    let mut script = Script::default();
    script.existing(OLD, 64 << 20);
    for n in 0..200 {
        script.write(OLD, n * 65_536, 32_768);
        script.fsync(OLD);
    }
    let config = Config::parse("ffs:disk=ssd-tlc,size=1G").unwrap();
    let run = Evidence::of(&config, &script.workload(), planted);
    let mut pages = std::collections::BTreeSet::new();
    let mut most = 0;
    for served in run.kind(IoKind::Write) {
        let touched = served.at / PAGE..(served.at + served.len).div_ceil(PAGE);
        most += touched.end - touched.start;
        pages.extend(touched);
    }
    let Some(wear) = run.figures.disk_use.wear else { panic!("an SSD wears") };
    let programmed = wear.programmed_bytes / PAGE;
    // The drive's cache may join requests for a page, and programs each touched page at least once.
    let holds = (pages.len() as u64..=most).contains(&programmed);
    let range = || format!("{programmed} pages are not from {} to {most}", pages.len());
    checks.holds("pages programmed", holds, range);
    checks.equal("pages moved on an SSD with room", wear.moved_bytes, 0);
    let times = wear.programmed_bytes as f64 / run.bytes(IoKind::Write) as f64;
    checks.near("bytes programmed a written byte", wear.amplification.unwrap_or_default(), times);
}

/// All checks on runs with this fault; those that failed.
fn failed_checks(planted: PlantedFault) -> BTreeMap<&'static str, String> {
    let mut checks = Checks::default();
    by_hand(&mut checks, planted);
    through_the_kernel(&mut checks, planted);
    failing(&mut checks, planted);
    cleaned(&mut checks, planted);
    waiting(&mut checks, planted);
    split(&mut checks, planted);
    read_twice(&mut checks, planted);
    wear(&mut checks, planted);
    checks.0
}

#[test]
fn the_accounts_of_runs_agree_with_independent_arithmetic() {
    let failed = failed_checks(PlantedFault::None);
    assert!(failed.is_empty(), "{failed:#?}");
}

/// Faults that are planted on purpose: only the fault campaign builds them in.
#[cfg(feature = "planted-faults")]
mod planted {
    use twin_sim::PlantedFault as DiskFault;

    use super::*;

    /// All faults.
    const FAULTS: &[PlantedFault] = &[
        PlantedFault::Disk(DiskFault::WaitingIsService),
        PlantedFault::Disk(DiskFault::PartsTwice),
        PlantedFault::Disk(DiskFault::WholeAndParts),
        PlantedFault::Disk(DiskFault::CleanerReadsLeftOut),
        PlantedFault::Disk(DiskFault::BusyWithoutWaiting),
        PlantedFault::SyncLeftOut,
        PlantedFault::MkfsCounted,
        PlantedFault::PopulatingTimed,
        PlantedFault::PopulatingProcessor,
        PlantedFault::PopulatingWritten,
        PlantedFault::PopulatingHits,
        PlantedFault::PopulatingWear,
        PlantedFault::FailuresHidden,
        PlantedFault::SkippedCounted,
        PlantedFault::WrongKind,
        PlantedFault::P99IsP90,
        PlantedFault::WriteCostOfAllData,
        PlantedFault::CleanerReadsAreUsers,
        PlantedFault::FuseLeftOut,
        PlantedFault::AmplificationOfData,
    ];

    #[test]
    fn every_planted_fault_of_accounting_is_caught() {
        let mut missed = Vec::new();
        for &fault in FAULTS {
            let failed = failed_checks(fault);
            for (name, what) in &failed {
                println!("{fault:?}: {name}: {what}");
            }
            if failed.is_empty() {
                missed.push(fault);
            }
        }
        assert!(missed.is_empty(), "nothing noticed {missed:?}");
    }
}
