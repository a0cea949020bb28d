//! A run of a server: every client is a task of its own, on one virtual time.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use twin_cache::CacheStats;
use twin_fs::{FsError, Name, Op, ROOT_INO, Reply, Request, Volume};
use twin_lab::{
    BusFigures, Counted, Latency, LogFigures, SimulateError, Steps, VerbFigures, Workload,
    disk_figures, watched_runtime,
};
use twin_observe::{Observing, Panel, Parts, Pool};
use twin_rt::{ClockOnly, Event, Nanos, Rt, Time};
use twin_sim::SimDisk;
use twin_sim::model::Wear;
use twin_trace::replay::{self, Listener, Options, Replayer, Report};
use twin_trace::{Histogram, Verb};

use crate::build::Built;
use crate::figures::{OfBus, OfDisk, OfFileSystem, OfHost, ServerFigures, Whole};
use crate::file::{Pace, ServerFile};

/// Numbers of requests between two clients of one file system.
const NUMBERS: u64 = 1 << 40;

/// Simulates a server. `workloads` has what each of its clients does, in their order; `observing`
/// names the observers of the run.
///
/// # Errors
/// If a workload is damaged, a part impossible, or a volume too small for what exists at the start.
pub fn simulate_server(
    server: &ServerFile,
    workloads: &[Workload],
    steps: Option<Steps>,
    observing: Option<&Observing>,
) -> Result<ServerFigures, SimulateError> {
    run_server(server, workloads, (steps, None), observing)
}

/// Who is told the simulated time, before it advances.
pub type TimeTold = Box<dyn FnMut(Time)>;

/// As [`simulate_server`], and tells how far the simulated time is. That changes nothing either.
///
/// # Errors
/// As [`simulate_server`].
pub fn simulate_server_telling(
    server: &ServerFile,
    workloads: &[Workload],
    told: TimeTold,
) -> Result<ServerFigures, SimulateError> {
    run_server(server, workloads, (None, Some(told)), None)
}

fn run_server(
    server: &ServerFile,
    workloads: &[Workload],
    (steps, told): (Option<Steps>, Option<TimeTold>),
    observing: Option<&Observing>,
) -> Result<ServerFigures, SimulateError> {
    let panel = observing.map(|observing| Rc::new(RefCell::new(Panel::new(observing))));
    let rt = match (panel.clone(), told) {
        (None, None) => Rt::with_order(ClockOnly::default(), server.seed, server.order.maker),
        (panel, mut told) => watched_runtime(server.seed, server.order.maker, move |next| {
            panel.iter().for_each(|panel| panel.borrow_mut().look(next));
            told.iter_mut().for_each(|told| told(next));
            true
        }),
    };
    let result = rt.block_on(run(&rt, server, workloads, steps, panel.clone()));
    panel.iter().for_each(|panel| panel.borrow_mut().leave());
    rt.crash();
    result.map_err(SimulateError::Stalled)?
}

/// Shows the panel all parts of the server from now on.
fn observe(rt: &Rt, server: &ServerFile, built: &Built, panel: &Rc<RefCell<Panel>>) {
    for (number, disk) in built.disks.iter().enumerate() {
        let panel = Rc::clone(panel);
        disk.observe(Rc::new(move |served| panel.borrow_mut().served(number, served)));
    }
    for (number, bus) in built.buses.iter().enumerate() {
        let panel = Rc::clone(panel);
        bus.observe(Rc::new(move |ns, span| panel.borrow_mut().bus_given(number, ns, span)));
    }
    let pool = |number: usize, name: &String| {
        let of = |fs: &usize| server.host_of(*fs) == number;
        Pool {
            name: name.clone(),
            memory: Some(Rc::clone(&built.hosts[number].1)),
            volumes: (0..built.volumes.len()).filter(of).collect(),
        }
    };
    let names = |all: Vec<&String>| all.into_iter().cloned().collect::<Vec<String>>();
    let disks = names(server.disks.iter().map(|part| &part.name).collect());
    let buses = names(server.buses.iter().map(|part| &part.name).collect());
    let volumes = names(server.file_systems.iter().map(|part| &part.name).collect());
    let hosts = server.hosts.iter().enumerate();
    let parts = Parts {
        disks,
        buses,
        volumes: volumes.into_iter().zip(built.volumes.iter().cloned()).collect(),
        pools: hosts.map(|(number, host)| pool(number, &host.name)).collect(),
    };
    panel.borrow_mut().begin(rt.now(), parts);
}

/// All clients wait here until every file that exists at the start exists.
#[derive(Default)]
struct Start {
    ready: Cell<usize>,
    is_ready: Event,
    begun: Cell<bool>,
    begin: Event,
}

/// What had been done when the clients began.
struct Before {
    cpu_ns: Vec<Nanos>,
    caches: Vec<CacheStats>,
    logs: Vec<LogFigures>,
    disks: Vec<(Option<Wear>, Option<Nanos>)>,
}

impl Before {
    fn of(built: &Built) -> Before {
        let of_disk = |disk: &SimDisk| (disk.wear(), disk.mechanics_ns());
        Before {
            cpu_ns: built.hosts.iter().map(|(cpu, _)| cpu.busy_ns()).collect(),
            caches: built.volumes.iter().map(|volume| volume.core().cache.stats()).collect(),
            logs: built.volumes.iter().map(LogFigures::of).collect(),
            disks: built.disks.iter().map(of_disk).collect(),
        }
    }
}

async fn run(
    rt: &Rt,
    server: &ServerFile,
    workloads: &[Workload],
    steps: Option<Steps>,
    panel: Option<Rc<RefCell<Panel>>>,
) -> Result<ServerFigures, SimulateError> {
    let built = Built::of(rt, server).await?;
    let start = Rc::new(Start::default());
    let mut clients = Vec::new();
    for (number, client) in server.clients.iter().enumerate() {
        let volume = &built.volumes[client.file_system];
        let alone =
            server.clients.iter().filter(|c| c.file_system == client.file_system).count() < 2;
        let root = if alone { ROOT_INO } else { directory(volume, number).await? };
        let task = play(
            rt.clone(),
            volume.clone(),
            Player {
                workload: workloads[number].clone(),
                pace: match client.pace {
                    Pace::Recorded => replay::Pace::Recorded { speed: 1.0 },
                    Pace::Think => replay::Pace::Think { speed: 1.0 },
                    Pace::Asap => replay::Pace::Asap,
                },
                first_id: 1 + number as u64 * NUMBERS,
                root,
                start: Rc::clone(&start),
                steps: steps.clone(),
                listener: panel.clone().map(|panel| {
                    let told = move |verb, ns| panel.borrow_mut().ended(verb, ns);
                    Rc::new(told) as Listener
                }),
            },
        );
        clients.push(rt.spawn("client", task));
    }
    let all = clients.len();
    start.is_ready.wait_until(|| start.ready.get() == all).await;
    settle(&built).await?;
    let (before, began) = (Before::of(&built), rt.now());
    panel.iter().for_each(|panel| observe(rt, server, &built, panel));
    start.begun.set(true);
    start.begin.notify();
    let mut reports = Vec::new();
    for client in clients {
        reports.push(client.await?);
    }
    let ended = rt.now();
    for volume in &built.volumes {
        volume.execute(sync_request()).await?;
    }
    let spans = (ended - began, rt.now() - began);
    let figures = figures(rt, server, &built, &reports, &before, spans);
    let observed = panel.map(|panel| panel.borrow_mut().end(rt.now())).unwrap_or_default();
    for volume in &built.volumes {
        volume.close().await?;
    }
    Ok(ServerFigures { observed, ..figures })
}

fn sync_request() -> Request {
    Request::root(u64::MAX, Op::Sync)
}

/// Writes everything that exists at the start, empties the caches and begins to count.
async fn settle(built: &Built) -> Result<(), SimulateError> {
    let flush = || twin_disk::Io::flush(twin_disk::Origin::User);
    for volume in &built.volumes {
        volume.execute(sync_request()).await?;
        volume.core().device.submit(flush()).await.map_err(FsError::Io)?;
        volume.core().drop_caches();
    }
    built.disks.iter().for_each(SimDisk::reset_stats);
    built.buses.iter().for_each(twin_sim::bus::Bus::reset_stats);
    Ok(())
}

/// A directory for one of several clients of a file system.
async fn directory(volume: &Volume, number: usize) -> Result<u64, SimulateError> {
    let name: Name = format!("client{}", number + 1).into_bytes().as_slice().into();
    let op = Op::MakeDir { dir: ROOT_INO, name, mode: 0o777 };
    match volume.execute(Request::root(NUMBERS / 2 + number as u64, op)).await? {
        Reply::Entry(entry) => Ok(entry.attr.ino),
        _ => Err(FsError::inconsistent("an entry was expected").into()),
    }
}

/// A client and what it does.
struct Player {
    workload: Workload,
    pace: replay::Pace,
    first_id: u64,
    root: u64,
    start: Rc<Start>,
    steps: Option<Steps>,
    listener: Option<Listener>,
}

async fn play(rt: Rt, volume: Volume, player: Player) -> Result<Report, SimulateError> {
    let Player { workload, pace, first_id, root, start, steps, listener } = player;
    let options = Options { pace, root, listener, ..Options::default() };
    let mut replayer = Replayer::new(&rt, &volume, options);
    replayer.set_next_id(first_id);
    let prepared = match workload.population() {
        Ok(population) => replayer.populate(&population).await.map_err(SimulateError::Replay),
        Err(error) => Err(SimulateError::Workload(error)),
    };
    // The others do not wait for a client that cannot begin.
    start.ready.set(start.ready.get() + 1);
    start.is_ready.notify();
    prepared?;
    start.begin.wait_until(|| start.begun.get()).await;
    let source = workload.start().map_err(SimulateError::Workload)?;
    let mut source = Counted::new(source, steps);
    let report = replayer.run(&mut source).await.map_err(SimulateError::Replay)?;
    let _ = replayer.release_all().await;
    Ok(report)
}

/// The figures of some reports by kind of operation.
fn verbs(reports: &[&Report]) -> Vec<VerbFigures> {
    let of = |verb: &Verb| {
        let (mut errors, mut done, mut latency_ns) = (0, 0, Histogram::new());
        for stats in reports.iter().map(|report| report.verb(*verb)) {
            errors += stats.errors;
            done += stats.done;
            latency_ns.merge(&stats.latency_ns);
        }
        (done > 0).then(|| VerbFigures::of(verb.name(), errors, &latency_ns, &Histogram::new()))
    };
    Verb::ALL.iter().filter_map(of).collect()
}

/// The sum of a histogram over reports.
fn merged(reports: &[&Report], of: impl Fn(&Report) -> Histogram) -> Latency {
    let mut all = Histogram::new();
    reports.iter().for_each(|report| all.merge(&of(report)));
    Latency::of(&all)
}

fn sum(reports: &[&Report], of: impl Fn(&Report) -> u64) -> u64 {
    reports.iter().map(|report| of(report)).sum()
}

fn figures(
    rt: &Rt,
    server: &ServerFile,
    built: &Built,
    reports: &[Report],
    before: &Before,
    (span, finish): (Nanos, Nanos),
) -> ServerFigures {
    let seconds = |ns: Nanos| ns as f64 / 1e9;
    let all: Vec<&Report> = reports.iter().collect();
    let whole = Whole {
        span_s: seconds(span),
        finish_s: seconds(finish),
        ops: sum(&all, |report| report.ops),
        failed: sum(&all, Report::failed_ops),
        read_bytes: sum(&all, |report| report.read_bytes),
        written_bytes: sum(&all, |report| report.written_bytes),
        latency: merged(&all, Report::latency_ns),
        verbs: verbs(&all),
        late: merged(&all, |report| report.late_ns.clone()),
    };
    let file_system = |number: usize| {
        let of = server.clients.iter().zip(reports).filter(|(c, _)| c.file_system == number);
        let own: Vec<&Report> = of.map(|(_, report)| report).collect();
        of_file_system(server, built, number, &own, before)
    };
    let disk = |(number, part): (usize, &crate::file::Disk)| {
        let disk_use = disk_figures(&built.disks[number], before.disks[number]);
        OfDisk {
            name: part.name.clone(),
            model: part.config.disk.name.into(),
            bus: part.bus.map(|bus| server.buses[bus].name.clone()),
            utilization: disk_use.service_s / seconds(finish).max(1e-9),
            disk_use,
        }
    };
    let bus = |(number, part): (usize, &crate::file::BusPart)| {
        let bus_use = BusFigures::of(&built.buses[number].stats());
        let utilization = bus_use.busy_s / seconds(finish).max(1e-9);
        OfBus { name: part.name.clone(), kind: part.kind.name, utilization, bus_use }
    };
    let host = |(number, part): (usize, &crate::file::Host)| {
        let (cpu, memory) = &built.hosts[number];
        let cpu_s = seconds(cpu.busy_ns() - before.cpu_ns[number]);
        OfHost {
            name: part.name.clone(),
            cpu: format!("{} {}", part.cpus, part.cpu),
            cpu_s,
            utilization: cpu_s / part.cpus as f64 / seconds(finish).max(1e-9),
            cache_bytes: part.cache_bytes,
            moved_cache_bytes: memory.moved_bytes(),
        }
    };
    ServerFigures {
        whole,
        file_systems: (0..server.file_systems.len()).map(file_system).collect(),
        disks: server.disks.iter().enumerate().map(disk).collect(),
        buses: server.buses.iter().enumerate().map(bus).collect(),
        hosts: server.hosts.iter().enumerate().map(host).collect(),
        fits: Vec::new(),
        observed: Vec::new(),
        digest: format!("{:016x}", rt.digest().value()),
    }
}

fn of_file_system(
    server: &ServerFile,
    built: &Built,
    number: usize,
    reports: &[&Report],
    before: &Before,
) -> OfFileSystem {
    let (part, volume) = (&server.file_systems[number], &built.volumes[number]);
    let (cache, old) = (volume.core().cache.stats(), before.caches[number]);
    let (hits, misses) = (cache.hits - old.hits, cache.misses - old.misses);
    OfFileSystem {
        name: part.name.clone(),
        config: part.config.name.clone(),
        disk: server.disks[part.disk].name.clone(),
        size: volume.core().device.info().size,
        ops: sum(reports, |report| report.ops),
        failed: sum(reports, Report::failed_ops),
        read_bytes: sum(reports, |report| report.read_bytes),
        written_bytes: sum(reports, |report| report.written_bytes),
        latency: merged(reports, Report::latency_ns),
        verbs: verbs(reports),
        cache_hit_share: hits as f64 / (hits + misses).max(1) as f64,
        cache_bytes: volume.core().cache.resident_bytes(),
        log: LogFigures::of(volume).since(&before.logs[number]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Does, PRESETS};

    const TEXT: &str = r#"
        [host.main]
        cache = "2M"
        [bus.scsi]
        kind = "scsi-2"
        [disk.a]
        bus = "scsi"
        model = "hp97560"
        [disk.b]
        bus = "scsi"
        model = "hp97560"
        queue = "scan"
        [fs.home]
        disk = "a"
        config = "lfs"
        [fs.src]
        disk = "b"
        config = "ffs"
        size = "200M"
        [fs.mail]
        disk = "b"
        config = "lfs"
        [[client]]
        fs = "home"
        workload = "zipf:writes=300,file-bytes=4M"
        pace = "asap"
        [[client]]
        fs = "home"
        workload = "zipf:writes=200,file-bytes=4M,reads=50%"
        pace = "asap"
        [[client]]
        fs = "src"
        workload = "build:files=20"
        [[client]]
        fs = "mail"
        workload = "mail:messages=20,keep=20"
    "#;

    fn simulated(text: &str) -> Result<ServerFigures, SimulateError> {
        observed(text, None)
    }

    fn observed(text: &str, observing: Option<&Observing>) -> Result<ServerFigures, SimulateError> {
        let server = ServerFile::parse(text).unwrap();
        let workload = |client: &crate::Client| match &client.does {
            Does::Workload(text, seed) => Workload::Generated(text.clone(), *seed),
            Does::Trace(..) => panic!("no trace here"),
        };
        let workloads: Vec<Workload> = server.clients.iter().map(workload).collect();
        simulate_server(&server, &workloads, None, observing)
    }

    #[test]
    fn a_server_repeats_itself_and_its_parts_add_up_to_the_whole() {
        let first = simulated(TEXT).unwrap();
        assert_eq!(first, simulated(TEXT).unwrap());
        let whole = &first.whole;
        assert_eq!(whole.failed, 0);
        assert_eq!(whole.ops, first.file_systems.iter().map(|fs| fs.ops).sum::<u64>());
        assert_eq!(whole.ops, whole.verbs.iter().map(|verb| verb.latency.count).sum::<u64>());
        assert!(first.file_systems.iter().all(|fs| fs.ops > 0));
        // All that the disks moved went over their bus, and the memory is shared.
        let moved = |disk: &OfDisk| disk.disk_use.read_bytes + disk.disk_use.written_bytes;
        assert_eq!(first.buses[0].bus_use.bytes, first.disks.iter().map(moved).sum::<u64>());
        assert!(first.buses[0].utilization > 0.0 && first.buses[0].utilization < 1.0);
        assert!(first.disks.iter().all(|disk| disk.utilization <= 1.0));
        assert!(first.hosts[0].cpu_s > 0.0);
    }

    /// A volume that needs room waits for the flusher of the one with the oldest data, whose own policy may
    /// see no lack: a sixteenth of its cache is kept for clean blocks, and caches differ.
    #[test]
    fn memory_that_survives_may_be_as_large_as_the_cache() {
        let text = |nvram: &str| {
            let volume = |name: &str, disk: &str| {
                format!(
                    "[disk.{disk}]\nmodel = \"hp97560\"\n[fs.{name}]\ndisk = \"{disk}\"\n\
                     config = \"lfs:flush=nvram-block\"\n[[client]]\nfs = \"{name}\"\n\
                     workload = \"zipf:writes=3000,file-bytes=8M\"\npace = \"asap\"\n"
                )
            };
            let (one, other) = (volume("one", "a"), volume("other", "b"));
            format!("[host.main]\ncache = \"4M\"\nnvram = \"{nvram}\"\n{one}{other}")
        };
        let [small, large] = ["1M", "4M"].map(|nvram| simulated(&text(nvram)).unwrap());
        assert_eq!((small.whole.ops, small.whole.failed), (6006, 0));
        assert_eq!((large.whole.ops, large.whole.failed), (6006, 0));
        // More of it saves writes.
        let written = |figures: &ServerFigures| {
            figures.disks.iter().map(|disk| disk.disk_use.written_bytes).sum::<u64>()
        };
        assert!(written(&large) < written(&small), "{} {}", written(&large), written(&small));
    }

    #[test]
    fn observers_change_nothing_and_agree_with_the_figures() {
        let plain = simulated(TEXT).unwrap();
        let observing = Observing::of(["all"], Some(twin_rt::SECS)).unwrap();
        let mut seen = observed(TEXT, Some(&observing)).unwrap();
        let all = std::mem::take(&mut seen.observed);
        assert_eq!(plain, seen, "the run is the same");
        let find = |what: &str, part: &str| {
            all.iter().find(|one| (one.what, one.part.as_str()) == (what, part)).unwrap()
        };
        let latency = find("latency", "all");
        assert_eq!(latency.whole.count, plain.whole.ops);
        assert!((latency.whole.mean.unwrap() - plain.whole.latency.mean_us).abs() < 1e-6);
        assert_eq!(latency.every.iter().map(|over| over.count).sum::<u64>(), plain.whole.ops);
        let bus = &plain.buses[0].bus_use;
        let waits = find("wait for the bus", "scsi").whole;
        assert_eq!((waits.count, waits.max), (bus.tenancies, Some(bus.longest_wait_us)));
        assert!((waits.mean.unwrap() - bus.mean_wait_us).abs() < 1e-6);
        let used = find("bus use", "scsi").whole.mean.unwrap();
        assert!((used / 100.0 - plain.buses[0].utilization).abs() < 1e-6, "{used}");
        for (fs, figures) in plain.file_systems.iter().map(|fs| (fs.name.as_str(), fs)) {
            let hits = find("hit ratio", fs).whole.mean.unwrap();
            assert!((hits / 100.0 - figures.cache_hit_share).abs() < 1e-9, "{hits}");
            let cost = find("write cost", fs).whole.mean;
            assert!((cost.unwrap() - figures.log.write_cost.unwrap()).abs() < 1e-9);
            assert!(find("at risk", fs).whole.max.unwrap() > 0.0);
        }
        for disk in &plain.disks {
            let requests = disk.disk_use.reads + disk.disk_use.writes;
            let queue = find("queue length", &disk.name).whole;
            assert!(queue.count >= requests && queue.max.unwrap() >= 1.0, "{queue:?}");
            let size = find("request size", &disk.name).whole;
            let moved = (disk.disk_use.read_bytes + disk.disk_use.written_bytes) as f64;
            assert!((size.mean.unwrap() * size.count as f64 / moved - 1.0).abs() < 1e-9);
            // A revolution of the HP 97560 takes 14.99 ms, and a request may lie on two tracks.
            let delay = find("rotational delay", &disk.name).whole;
            assert!(delay.max.unwrap() < 30_000.0 && delay.p50.unwrap() < 15_000.0, "{delay:?}");
            assert!(find("seek distance", &disk.name).whole.max.unwrap() < 1962.0);
            assert!(find("idle period", &disk.name).whole.count > 0);
        }
        // What is clean, dirty and free is the memory together, at any look.
        let host = ["clean", "dirty", "unused"].map(|what| find(what, "main").whole.mean.unwrap());
        assert!((host.iter().sum::<f64>() / f64::from(2 << 20) - 1.0).abs() < 0.05, "{host:?}");
    }

    #[test]
    fn a_random_order_is_another_run_and_repeats_itself() {
        let text = format!("order = \"random\"\n{TEXT}");
        let (random, plain) = (simulated(&text).unwrap(), simulated(TEXT).unwrap());
        assert_eq!(random, simulated(&text).unwrap());
        assert_ne!(random.digest, plain.digest);
        assert_eq!((random.whole.ops, random.whole.failed), (plain.whole.ops, 0));
        let other = simulated(&format!("seed = 7\n{text}")).unwrap();
        assert_ne!(other.digest, random.digest);
    }

    #[test]
    fn a_slower_bus_makes_requests_wait_longer() {
        let slow = TEXT.replace("kind = \"scsi-2\"", "kind = \"scsi-2\"\nrate = \"1M\"");
        let (fast, slow) = (simulated(TEXT).unwrap(), simulated(&slow).unwrap());
        let wait = |server: &ServerFigures| server.buses[0].bus_use.mean_wait_us;
        assert!(wait(&slow) > 2.0 * wait(&fast), "{} {}", wait(&slow), wait(&fast));
        assert!(slow.whole.latency.mean_us > fast.whole.latency.mean_us);
    }

    #[test]
    fn file_systems_that_do_not_fit_their_disk_are_refused() {
        for (size, words) in [("2G", "has 135"), ("1G\"\nfrom = \"500M", "fs.src")] {
            let text = TEXT.replace("200M", size);
            let error = simulated(&text).unwrap_err().to_string();
            assert!(error.contains(words), "{size}: {error}");
        }
        let full = TEXT.replace("size = \"200M\"", "size = \"1355000000\"");
        let error = simulated(&full).unwrap_err().to_string();
        assert!(error.contains("no room left"), "{error}");
    }

    #[test]
    fn every_shipped_server_can_be_put_together() {
        for preset in PRESETS {
            // An hour is enough to see that nothing is full or missing.
            let text =
                preset.text.replace("sprite-like:", "sprite-like:hours=1,from=10,files=200,");
            let figures = simulated(&text).unwrap();
            assert_eq!(figures.whole.failed, 0, "{}", preset.name);
            assert!((3500.0..3700.0).contains(&figures.whole.span_s), "{}", figures.whole.span_s);
        }
    }
}
