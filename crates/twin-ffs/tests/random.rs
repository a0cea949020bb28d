//! Seeded random operations on volumes of every kind, beside the model that says what is right:
//! every reply is compared, and after closing the tree, the checker and the accounts.

use std::rc::Rc;

use twin_disk::MemDisk;
use twin_ffs::{Ffs, FfsSettings, MkfsOptions, check, write_behind};
use twin_fs::{Cpu, Op, ROOT_INO, Reply, Request, SetTime, Settings, VolumeOf};
use twin_model::generate::{Generator, WorkloadParams};
use twin_model::{self, Compare, DataMode, ModelFs, diff};
use twin_rt::{ClockOnly, Rt, Time};

use crate::common::all_kinds;

struct TestVolume {
    rt: Rt,
    disk: Rc<MemDisk>,
    volume: VolumeOf<Ffs>,
    settings: Settings,
    ffs: FfsSettings,
    next_id: u64,
    label: String,
}

impl TestVolume {
    fn new(options: &MkfsOptions, size: u64, settings: Settings, ffs: FfsSettings) -> TestVolume {
        let label = format!("{:?}, {}, {}", options.profile, options.ordering, ffs.write_behind);
        let rt = Rt::new(ClockOnly::default(), 1);
        let disk = Rc::new(MemDisk::new(size));
        rt.block_on(Ffs::mkfs(&rt, Rc::clone(&disk) as _, options)).unwrap().unwrap();
        let volume = open(&rt, &disk, &settings, &ffs);
        TestVolume { rt, disk, volume, settings, ffs, next_id: 1 << 40, label }
    }

    fn ask(&mut self, request: Request) -> twin_fs::Result<Reply> {
        self.rt.block_on(self.volume.execute(request)).unwrap()
    }

    fn reopen(&mut self) {
        self.rt.block_on(self.volume.close()).unwrap().unwrap();
        self.rt.crash();
        let report = self.check();
        assert!(report.is_clean(), "{}: {report}", self.label);
        self.rt = Rt::new(ClockOnly { start: self.rt.now() }, 2);
        self.volume = open(&self.rt, &self.disk, &self.settings, &self.ffs);
    }

    fn check(&self) -> check::Report {
        let rt = Rt::new(ClockOnly::default(), 3);
        let disk = Rc::clone(&self.disk) as _;
        rt.block_on(check::check(disk, &mut |_| {})).unwrap().unwrap()
    }

    fn dump(&mut self) -> twin_model::Dump {
        let volume = self.volume.clone();
        self.rt.block_on(twin_model::dump(&*volume, &mut self.next_id)).unwrap().unwrap()
    }
}

fn open(rt: &Rt, disk: &Rc<MemDisk>, settings: &Settings, ffs: &FfsSettings) -> VolumeOf<Ffs> {
    let opening = Ffs::open(rt, Rc::clone(disk) as _, Cpu::none(), settings.clone(), ffs.clone());
    rt.block_on(opening).unwrap().unwrap().0
}

fn model_of(run: &mut TestVolume) -> ModelFs {
    let geometry = run.volume.core().geometry.clone();
    let modern = geometry.is_modern();
    let settings = twin_model::Settings {
        block_size: geometry.block_size,
        data: DataMode::Bytes,
        file_size_max: geometry.max_file_size(),
        link_max: if modern { 65_000 } else { 32_767 },
        symlink_max: twin_fs::dir::SYMLINK_MAX.min(geometry.block_size as usize),
        xattr_total_max: 256 << 10,
        xattrs: modern,
        birth_times: modern,
        inline_max: geometry.inline_max.into(),
        promised_is_data: true,
        ..twin_model::Settings::default()
    };
    let mut model = ModelFs::new(settings, Time(0));
    match run.ask(Request::root(1 << 39, Op::GetAttr { ino: ROOT_INO })) {
        Ok(Reply::Attr(attr)) => model.set_root_attr(&attr),
        other => panic!("the root of a new volume: {other:?}"),
    }
    model
}

/// Makes the times of a request those that a volume can keep.
fn tame(run: &TestVolume, mut request: Request) -> Request {
    if let Op::SetAttr { set, .. } = &mut request.op {
        for time in [&mut set.atime, &mut set.mtime].into_iter().flatten() {
            if let SetTime::At(at) = time {
                *at = run.volume.core().features.nearest_time(*at);
            }
        }
    }
    request
}

/// Runs `ops` requests of a workload, closing and opening in between.
fn beside_the_model(
    run: &mut TestVolume,
    workload: &str,
    seed: u64,
    ops: u64,
    params: WorkloadParams,
) {
    let mut model = model_of(run);
    let mut generator = Generator::new(workload, params, seed).unwrap();
    for round in 0..4 {
        for _ in 0..ops / 4 {
            let request = tame(run, generator.next());
            let reply = run.ask(request.clone());
            generator.learn(&request, &reply);
            let now = run.rt.now();
            if let Err(what) = model.follow(now, &request, &reply) {
                panic!("{}, {workload}, seed {seed}: {what}", run.label);
            }
        }
        // What clients hold is gone when a volume is closed.
        generator.remount();
        model.crash();
        run.reopen();
        let (expected, found) = (model.dump(), run.dump());
        let names = ["model", "volume"];
        if let Some(what) = diff(&expected, &found, names, &Compare::default()) {
            panic!("{}, {workload}, seed {seed}, round {round}: {what}", run.label);
        }
    }
}

#[test]
fn volumes_do_what_the_model_does() {
    for workload in twin_model::generate::WORKLOADS.iter().map(|w| w.name) {
        all_kinds(|options| {
            let settings = Settings { expand_stamps: true, ..Settings::default() };
            let mut run = TestVolume::new(&options, 48 << 20, settings, FfsSettings::default());
            let params = WorkloadParams { block_size: 8192, ..WorkloadParams::default() };
            beside_the_model(&mut run, workload, 11, 1200, params);
        });
    }
}

#[test]
fn small_caches_and_every_way_of_writing_change_nothing() {
    for entry in &write_behind::REGISTRY {
        all_kinds(|options| {
            let settings = Settings {
                expand_stamps: true,
                cache_bytes: 1 << 20,
                cached_inodes: 20,
                ..Settings::default()
            };
            let ffs = FfsSettings { write_behind: entry.name.into(), ..FfsSettings::default() };
            let mut run = TestVolume::new(&options, 24 << 20, settings, ffs);
            let params = WorkloadParams { block_size: 8192, ..WorkloadParams::default() };
            beside_the_model(&mut run, "mixed", 5, 2000, params);
        });
    }
}
