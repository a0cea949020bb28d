//! Seeded random operations on a volume, beside the model that says what is right: every reply is
//! compared, and after closing the tree and the checker's opinion.

use std::rc::Rc;

use twin_disk::MemDisk;
use twin_fs::{Cpu, Op, Opened, ROOT_INO, Reply, Request, SetTime, Settings, Volume};
use twin_model::generate::{Generator, WorkloadParams};
use twin_model::{Compare, DataMode, ModelFs, diff};
use twin_rt::{ClockOnly, Rt, Time};
use vsfs::{MkfsOptions, Vsfs};

struct TestVolume {
    rt: Rt,
    disk: Rc<MemDisk>,
    volume: Volume,
    settings: Settings,
    next_id: u64,
}

impl TestVolume {
    fn new(size: u64, options: &MkfsOptions, settings: Settings) -> TestVolume {
        let rt = Rt::new(ClockOnly::default(), 1);
        let disk = Rc::new(MemDisk::new(size));
        rt.block_on(Vsfs::mkfs(&rt, Rc::clone(&disk) as _, options)).unwrap().unwrap();
        let volume = open(&rt, &disk, &settings);
        TestVolume { rt, disk, volume, settings, next_id: 1 << 40 }
    }

    fn ask(&mut self, request: Request) -> twin_fs::Result<Reply> {
        self.rt.block_on(self.volume.execute(request)).unwrap()
    }

    fn reopen(&mut self) {
        self.rt.block_on(self.volume.close()).unwrap().unwrap();
        self.rt.crash();
        let rt = Rt::new(ClockOnly::default(), 3);
        let (disk, mut quiet) = (Rc::clone(&self.disk) as _, |_, _| {});
        let check = vsfs::VSFS.check(&rt, disk, Default::default(), &mut quiet);
        let report = rt.block_on(check).unwrap().unwrap();
        assert!(report.is_clean(), "{report:?}");
        self.rt = Rt::new(ClockOnly { start: self.rt.now() }, 2);
        self.volume = open(&self.rt, &self.disk, &self.settings);
    }

    fn model(&mut self) -> ModelFs {
        let core = self.volume.core();
        let settings = twin_model::Settings {
            block_size: core.geometry.block_size,
            data: DataMode::Bytes,
            file_size_max: core.features.file_bytes_max,
            link_max: core.features.link_max,
            symlink_max: twin_fs::dir::SYMLINK_MAX.min(core.geometry.block_size as usize),
            xattrs: core.features.extended_attributes,
            birth_times: core.features.birth_time,
            inline_max: core.features.inline_bytes.into(),
            promised_is_data: true,
            ..twin_model::Settings::default()
        };
        let mut model = ModelFs::new(settings, Time(0));
        match self.ask(Request::root(1 << 39, Op::GetAttr { ino: ROOT_INO })) {
            Ok(Reply::Attr(attr)) => model.set_root_attr(&attr),
            other => panic!("the root of a new volume: {other:?}"),
        }
        model
    }

    /// Makes the times of a request those that a volume can keep.
    fn tame(&self, mut request: Request) -> Request {
        if let Op::SetAttr { set, .. } = &mut request.op {
            for time in [&mut set.atime, &mut set.mtime].into_iter().flatten() {
                if let SetTime::At(at) = time {
                    *at = self.volume.core().features.nearest_time(*at);
                }
            }
        }
        request
    }

    /// Runs `ops` requests of a workload, closing and opening in between.
    fn beside_the_model(&mut self, workload: &str, seed: u64, ops: u64) {
        let mut model = self.model();
        let params = WorkloadParams { block_size: 4096, ..WorkloadParams::default() };
        let mut generator = Generator::new(workload, params, seed).unwrap();
        for round in 0..4 {
            for _ in 0..ops / 4 {
                let request = self.tame(generator.next());
                let reply = self.ask(request.clone());
                generator.learn(&request, &reply);
                if let Err(what) = model.follow(self.rt.now(), &request, &reply) {
                    panic!("{workload}, seed {seed}: {what}");
                }
            }
            // What clients hold is gone when a volume is closed.
            generator.remount();
            model.crash();
            self.reopen();
            let volume = self.volume.clone();
            let found = self.rt.block_on(twin_model::dump(&volume, &mut self.next_id)).unwrap();
            let names = ["model", "volume"];
            if let Some(what) = diff(&model.dump(), &found.unwrap(), names, &Compare::default()) {
                panic!("{workload}, seed {seed}, round {round}: {what}");
            }
        }
    }
}

fn open(rt: &Rt, disk: &Rc<MemDisk>, settings: &Settings) -> Volume {
    let opening = Vsfs::open(rt, Rc::clone(disk) as _, Cpu::none(), settings.clone());
    let Opened { volume, recovery } = rt.block_on(opening).unwrap().unwrap();
    assert_eq!(recovery, None);
    volume
}

fn bytes() -> Settings {
    Settings { expand_stamps: true, ..Settings::default() }
}

#[test]
fn volumes_do_what_the_model_does() {
    for workload in twin_model::generate::WORKLOADS.iter().map(|w| w.name) {
        let mut run = TestVolume::new(48 << 20, &MkfsOptions::new([1; 16]), bytes());
        run.beside_the_model(workload, 11, 4000);
    }
}

#[test]
fn small_caches_and_blocks_change_nothing() {
    for block_size in [1024, 4096, 16_384] {
        let options = MkfsOptions { block_size, ..MkfsOptions::new([1; 16]) };
        let settings = Settings { cache_bytes: 1 << 20, cached_inodes: 20, ..bytes() };
        TestVolume::new(24 << 20, &options, settings).beside_the_model("mixed", 5, 4000);
    }
}
