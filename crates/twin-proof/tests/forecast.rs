//! Forecasts: the next period of a workload, in kind, on the volume that the last one left. No operation
//! of it fails, however often it is repeated; and what it does to fullness and write cost is what the
//! real second half of a workload does, within bounds.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;

use twin_age::again::Window;
use twin_age::load::{Expiry, HOMES, Habits, LOGS, Load, MAIL, NEWS, SESSIONS_A_DAY};
use twin_ageing::forecast::next_period;
use twin_ageing::fork::{Closed, Twin};
use twin_disk::{BlockDevice, MemDisk};
use twin_fs::{
    Cpu, FileSystem, FsError, Identity, Op, Reply, Request, Settings, Volume, write_cost,
};
use twin_lab::layouts::layout;
use twin_lab::{Config, Run, Workload, simulate};
use twin_model::generate::{Generator, WORKLOADS, WorkloadParams};
use twin_rt::{ClockOnly, MILLIS, Nanos, Rt};
use twin_sim::{Platter, SimDisk, model};
use twin_trace::replay::{Options, Pace, Replayer};
use twin_trace::{Header, Record, Recorder, RecorderOptions, Source, TraceError};

const IDENTITY: Identity = Identity { uuid: [7; 16], root: (0, 0, 0o755) };
/// All of a recording.
const ALL: Window = Window { last_ns: None, requests: None };

/// Records in memory.
struct Listed(Header, std::vec::IntoIter<Record>);

impl Source for Listed {
    fn header(&self) -> &Header {
        &self.0
    }
    fn next_record(&mut self) -> Result<Option<Record>, TraceError> {
        Ok(self.1.next())
    }
}

/// A recorder whose trace stays in memory.
type InMemory = Recorder<Volume, Vec<u8>>;

/// A volume that is recorded from a moment on.
struct Recordable {
    volume: Volume,
    recorder: RefCell<Option<Rc<InMemory>>>,
    records: Cell<bool>,
}

impl Recordable {
    fn new(volume: &Volume) -> Recordable {
        Recordable {
            volume: volume.clone(),
            recorder: RefCell::default(),
            records: Cell::new(false),
        }
    }

    fn begin(&self, rt: &Rt) {
        let options = RecorderOptions::default();
        let recorder = Recorder::new(rt, self.volume.clone(), Vec::new(), options).unwrap();
        *self.recorder.borrow_mut() = Some(Rc::new(recorder));
        self.records.set(true);
    }

    /// What was recorded; from here on nothing is.
    fn end(&self) -> Workload {
        self.records.set(false);
        let recorder = self.recorder.take().unwrap();
        Workload::Trace(Arc::from(recorder.finish().unwrap().unwrap()))
    }
}

impl FileSystem for Recordable {
    async fn execute(&self, request: Request) -> Result<Reply, FsError> {
        let recorder = self.recorder.borrow().clone();
        match recorder.filter(|_| self.records.get()) {
            Some(recorder) => recorder.execute(request).await,
            None => self.volume.execute(request).await,
        }
    }
}

fn sync(rt: &Rt, volume: &Volume) {
    rt.block_on(volume.execute(Request::root(1 << 39, Op::Sync))).unwrap().unwrap();
}

/// Days of a volume, each of which is forecast from the one before.
fn days(layout_name: &str, load: &str, seed: u64) -> (u64, u64) {
    let what = format!("{layout_name}, {load}, seed {seed}");
    let kind = layout(layout_name).unwrap();
    let rt = Rt::new(ClockOnly::default(), seed);
    let options = model::Options { size: Some(256 << 20), ..model::Options::default() };
    let built = model::REGISTRY.get("ssd-sata").unwrap().build(&options).unwrap();
    let device: Rc<dyn BlockDevice> = Rc::new(SimDisk::builder(&rt, built).start());
    let config = kind.config();
    rt.block_on(config.mkfs(&rt, Rc::clone(&device), IDENTITY)).unwrap().unwrap();
    let settings = Settings { cache_bytes: 16 << 20, ..Settings::default() };
    let opened = rt.block_on(config.open(&rt, Rc::clone(&device), Cpu::none(), settings));
    let volume = opened.unwrap().unwrap().volume;
    let recordable = Recordable::new(&volume);
    // Users whose rights differ are the kernel's business: it checks them before it asks a mount.
    let params = WorkloadParams { space_max: 1 << 20, users: false, ..WorkloadParams::default() };
    let mut generator = Generator::new(load, params, seed).unwrap();
    recordable.begin(&rt);
    for _ in 0..2000 {
        // The recorder tells by times what was made since it began.
        rt.block_on(rt.sleep(MILLIS)).unwrap();
        let request = generator.next();
        let reply = rt.block_on(recordable.execute(request.clone())).unwrap();
        generator.learn(&request, &reply);
    }
    let mut recording = recordable.end();
    let (mut operations, mut left_out) = (0, 0);
    for day in 2..=5 {
        sync(&rt, &volume);
        let map = Closed::of(&rt, kind, Rc::clone(&device)).unwrap().map().unwrap();
        assert!(map.problems.is_empty(), "{what}: {:?}", map.problems);
        let (next, told) = next_period(&recording, ALL, &map).unwrap();
        recordable.begin(&rt);
        rt.block_on(rt.sleep(MILLIS)).unwrap();
        let options = Options { pace: Pace::Asap, ..Options::default() };
        let mut replayer = Replayer::new(&rt, &recordable, options);
        let population = next.population().unwrap();
        rt.block_on(replayer.populate(&population)).unwrap().unwrap();
        let mut source = next.start().unwrap();
        let report = rt.block_on(replayer.run(&mut source)).unwrap().unwrap();
        rt.block_on(replayer.release_all()).unwrap().unwrap();
        let (differ, examples) = (&report.divergences, &report.examples);
        assert_eq!(report.failed_ops(), 0, "{what}, day {day}: {differ:?}, {examples:?}");
        assert!(report.ops > 100, "{what}, day {day}: {} operations", report.ops);
        operations += report.ops;
        left_out += told.left_out;
        recording = recordable.end();
    }
    rt.block_on(volume.close()).unwrap().unwrap();
    (operations, left_out)
}

#[test]
fn no_operation_of_a_forecast_fails_however_often_the_day_is_repeated() {
    for layout_name in ["lfs", "ffs"] {
        // One of them fills the volume, where operations fail for want of room.
        for load in WORKLOADS.iter().map(|spec| spec.name).filter(|name| *name != "fill") {
            let (mut operations, mut left_out) = (0, 0);
            for seed in twin_proof::seeds(1..=5, 5) {
                let (all, without) = days(layout_name, load, seed);
                operations += all;
                left_out += without;
            }
            println!("{layout_name}, {load}: {operations} operations, {left_out} left out");
        }
    }
}

/// What a period did.
#[derive(Clone, Copy, Debug)]
struct Did {
    used_before: u64,
    used: u64,
    write_cost: f64,
    written: u64,
    p99_us: f64,
}

/// Splits records where no request is in flight, at the first such place from each time on.
fn split(records: Vec<Record>, times: &[Nanos]) -> Vec<Vec<Record>> {
    let mut parts = vec![Vec::new()];
    let mut in_flight = 0u64;
    for record in records {
        let next = times.get(parts.len() - 1);
        if let (Record::Request { at_ns, .. }, 0, Some(next)) = (&record, in_flight, next)
            && at_ns >= next
        {
            parts.push(Vec::new());
        }
        match &record {
            Record::Request { request, .. } if !matches!(request.op, Op::Forget { .. }) => {
                in_flight += 1;
            }
            Record::Reply { .. } => in_flight -= 1,
            _ => {}
        }
        parts.last_mut().unwrap().push(record);
    }
    parts
}

/// A load in three parts, recorded until noon: one that makes the volume what it is in the morning, the time
/// until noon, which the forecast repeats in kind, and the time until the evening. Returns what the morning, the evening and its forecast did.
fn noon(config: &Config, source: &mut dyn Source, pace: Pace, times: &[Nanos]) -> [Did; 3] {
    let header = source.header().clone();
    let mut records = Vec::new();
    while let Some(record) = source.next_record().unwrap() {
        records.push(record);
    }
    let parts = split(records, times);
    let rt = Rt::new(ClockOnly::default(), 1);
    let options = model::Options { size: config.size, ..model::Options::default() };
    let built = config.disk.build(&options).unwrap();
    let disk = SimDisk::builder(&rt, built).start();
    let device: Rc<dyn BlockDevice> = Rc::new(disk.clone());
    rt.block_on(config.of_layout.mkfs(&rt, Rc::clone(&device), IDENTITY)).unwrap().unwrap();
    let opening = config.of_layout.open(&rt, device, Cpu::none(), config.settings.clone());
    let volume = rt.block_on(opening).unwrap().unwrap().volume;
    let recordable = Recordable::new(&volume);
    let mut replayer = Replayer::new(&rt, &recordable, Options { pace, ..Options::default() });
    let mut done = Vec::new();
    let mut at_noon = None;
    for (nth, part) in parts.into_iter().enumerate() {
        sync(&rt, &volume);
        if nth == 0 {
            recordable.begin(&rt);
        }
        if nth == 2 {
            at_noon = Some((recordable.end(), disk.platter()));
        }
        let before = (volume.written(), volume.stat());
        disk.reset_stats();
        let mut source = Listed(header.clone(), part.into_iter());
        let report = rt.block_on(replayer.run(&mut source)).unwrap().unwrap();
        assert_eq!(report.failed_ops(), 0, "part {nth}: {:?}", report.divergences);
        sync(&rt, &volume);
        let (written, stat) = (volume.written(), volume.stat());
        let block = u64::from(stat.block_size);
        let cost = write_cost(
            written.bytes - before.0.bytes,
            written.cleaner_read_bytes - before.0.cleaner_read_bytes,
            written.new_data_bytes - before.0.new_data_bytes,
        );
        let latency = report.latency_ns();
        done.push(Did {
            used_before: (stat.blocks - before.1.free) * block,
            used: (stat.blocks - stat.free) * block,
            write_cost: cost.unwrap(),
            written: disk.stats().writes.bytes,
            p99_us: latency.quantile(0.99) as f64 / 1e3,
        });
    }
    rt.crash();
    let (recording, platter) = at_noon.unwrap();
    let [_, morning, evening] = done[..] else { panic!("three parts") };
    let window = Window { last_ns: Some(times[1] - times[0]), requests: None };
    [morning, evening, forecast(config, (&recording, window, pace), platter)]
}

/// What the next period is forecast to do, from the recording of the last one and the content of the
/// disk now.
fn forecast(
    config: &Config,
    (recording, window, pace): (&Workload, Window, Pace),
    platter: Platter,
) -> Did {
    let rt = Rt::new(ClockOnly::default(), 1);
    let options = model::Options { size: config.size, ..model::Options::default() };
    let built = config.disk.build(&options).unwrap();
    let disk = SimDisk::builder(&rt, built).platter(platter).start();
    let closed = Closed::of(&rt, config.layout, Rc::new(disk)).unwrap();
    let map = closed.map().unwrap();
    let twin = Twin::of(&closed, &mut |_, _| {}).unwrap().platter().unwrap();
    rt.crash();
    let (next, told) = next_period(recording, window, &map).unwrap();
    let run = Run { start: Some(twin), ..Run::from(config) };
    let figures = simulate(run, &next, pace).unwrap();
    assert_eq!(figures.failed, 0, "{told:?}");
    println!("  {told:?}");
    Did {
        used_before: figures.space.used_before_bytes,
        used: figures.space.used_bytes,
        write_cost: figures.log.write_cost.unwrap(),
        written: figures.disk_use.written_bytes,
        p99_us: figures.latency.p99_us,
    }
}

/// How far a forecast is from what happened, and how far it would be if it were said to be like the
/// morning; as shares.
fn errors([morning, evening, forecast]: [Did; 3], what: &str) -> [f64; 2] {
    let error = |of: fn(Did) -> f64| of(forecast) / of(evening) - 1.0;
    let naive = |of: fn(Did) -> f64| of(morning) / of(evening) - 1.0;
    let percent = |share: f64| format!("{:+.1}%", share * 100.0);
    let line = |name: &str, of: fn(Did) -> f64| {
        let (is, said) = (of(evening), of(forecast));
        println!(
            "  {name}: {is:.3}, forecast {said:.3}: {}; as the morning {}",
            percent(error(of)),
            percent(naive(of))
        );
    };
    println!("{what}");
    line("write cost", |did| did.write_cost);
    line("MiB used", |did| did.used as f64 / f64::from(1 << 20));
    line("MiB used at noon", |did| did.used_before as f64 / f64::from(1 << 20));
    line("MiB written", |did| did.written as f64 / f64::from(1 << 20));
    line("p99 us", |did| did.p99_us);
    [error(|did| did.write_cost).abs(), error(|did| did.used as f64).abs()]
}

/// Home directories in which any file changes as often as another, and more than on those of the study. Of those, in
/// which the youngest tenth has nine of ten changes, the forecast is 28% off in write cost on the log.
const CHANGING_HOMES: Habits =
    Habits { users: 120, dirs: 1, turnover: 0.015, expiry: Expiry::Random, ..HOMES };
/// News that expire in the order in which they came.
const EVEN_NEWS: Habits = Habits { expiry: Expiry::Oldest, ..NEWS };

const DAY: Nanos = 86_400 * twin_rt::SECS;

/// A load of a file server: it fills the volume in a quarter of its time, goes on for a half, and is
/// recorded for an eighth.
fn of_load(layout_name: &str, name: &str, habits: Habits, (days, draw): (u64, u64)) -> [f64; 2] {
    let of_layout = if layout_name == "ffs" { ",bytes-per-inode=1K" } else { "" };
    let machine = "disk=ssd-sata,cpu=free,size=64M,cache=8M";
    let config = format!("{layout_name}:{machine}{of_layout}");
    let config = Config::parse(&config).unwrap();
    let rt = Rt::new(ClockOnly::default(), 1);
    let device: Rc<dyn BlockDevice> = Rc::new(MemDisk::new(64 << 20));
    rt.block_on(config.of_layout.mkfs(&rt, Rc::clone(&device), IDENTITY)).unwrap().unwrap();
    let opening = config.of_layout.open(&rt, device, Cpu::none(), Settings::default());
    let volume = rt.block_on(opening).unwrap().unwrap().volume;
    let stat = volume.stat();
    let capacity = stat.free * u64::from(stat.block_size);
    let geometry = volume.core().geometry.clone();
    rt.crash();
    let course = vec![(0.0, 0.45), (days as f64 / 4.0, 0.75)];
    let load = Load::new(habits, geometry, capacity, course, &format!("forecast {draw}"));
    let mut load = load.part(days * SESSIONS_A_DAY);
    let times = [days * DAY * 3 / 4, days * DAY * 7 / 8];
    let pace = Pace::Recorded { speed: 1.0 };
    errors(noon(&config, &mut load, pace, &times), &format!("{layout_name}, {name}"))
}

/// The medians of the errors over several draws of a load: large files come at random, so that days of one
/// load differ by a quarter in what they write, which nobody can foretell.
fn medians(layout_name: &str, name: &str, habits: Habits, days: u64) -> [f64; 2] {
    let all: Vec<_> =
        (0..DRAWS).map(|draw| of_load(layout_name, name, habits, (days, draw))).collect();
    [0, 1].map(|of| {
        let mut errors: Vec<f64> = all.iter().map(|error| error[of]).collect();
        errors.sort_by(f64::total_cmp);
        errors[errors.len() / 2]
    })
}

const DRAWS: u64 = 5;

fn is_within_a_tenth(name: &str, habits: Habits, days: u64) {
    for layout_name in ["lfs", "ffs"] {
        let [cost, used] = medians(layout_name, name, habits, days);
        assert!(cost < 0.1 && used < 0.1, "{layout_name}, {name}: {cost:.3}, {used:.3}");
    }
}

mod by_night {
    use super::*;

    #[test]
    #[ignore = "long: cargo xtask nightly tests"]
    fn a_forecast_of_homes_made_at_noon_is_within_a_tenth_of_the_evening() {
        is_within_a_tenth("homes", CHANGING_HOMES, 240);
    }

    #[test]
    #[ignore = "long: cargo xtask nightly tests"]
    fn a_forecast_of_mail_made_at_noon_is_within_a_tenth_of_the_evening() {
        is_within_a_tenth("mail", MAIL, 160);
    }

    #[test]
    #[ignore = "long: cargo xtask nightly tests"]
    fn a_forecast_of_logs_made_at_noon_is_within_a_tenth_of_the_evening() {
        is_within_a_tenth("logs", LOGS, 240);
    }

    /// Articles expire in the order in which they came, over all directories; a forecast keeps to that
    /// order within each directory, which costs the cleaner of a nearly full log a third more. So only the
    /// room is promised (docs/ageing.md has the write cost).
    #[test]
    #[ignore = "long: cargo xtask nightly tests"]
    fn a_forecast_of_news_made_at_noon_has_the_evening_s_room_within_a_tenth() {
        for layout_name in ["lfs", "ffs"] {
            let [_, used] = of_load(layout_name, "news", EVEN_NEWS, (64, 0));
            assert!(used < 0.1, "{layout_name}, news: {used:.3}");
        }
    }
}
