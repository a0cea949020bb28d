//! Tests of the checker: clean volumes are clean, each kind of damage is named, and no damage at
//! all makes it panic, run on, or call a volume clean that is not.

mod clean;
mod damage;
mod mounted;
mod mutations;
mod repair;
mod rich;

use std::rc::Rc;

use twin_disk::{Bytes, MemDisk};
use twin_fs::{Cpu, Data, FsError, Ino, Op, Reply, Request, Settings, VolumeOf};
use twin_model::generate::{Generator, WorkloadParams};
use twin_rt::{ClockOnly, Rt};

use super::*;
use crate::{Lfs, LfsSettings, MkfsOptions};

/// A mounted volume on a disk in memory.
struct World {
    rt: Rt,
    disk: Rc<MemDisk>,
    volume: VolumeOf<Lfs>,
    next_id: u64,
}

fn profiles() -> [MkfsOptions; 2] {
    [MkfsOptions::modern([1; 16]), MkfsOptions::classic([1; 16])]
}

impl World {
    fn new(options: &MkfsOptions, size: u64) -> World {
        let rt = Rt::new(ClockOnly::default(), 1);
        let disk = Rc::new(MemDisk::new(size));
        rt.block_on(Lfs::mkfs(&rt, Rc::clone(&disk) as _, options)).unwrap().unwrap();
        World::mount(disk, LfsSettings::default())
    }

    fn mount(disk: Rc<MemDisk>, lfs: LfsSettings) -> World {
        let rt = Rt::new(ClockOnly::default(), 2);
        let settings = Settings { expand_stamps: true, ..Settings::default() };
        let open = Lfs::open(&rt, Rc::clone(&disk) as _, Cpu::none(), settings, lfs);
        let volume = rt.block_on(open).unwrap().unwrap().0;
        World { rt, disk, volume, next_id: 1 }
    }

    /// Unmounts; gives the disk.
    fn close(self) -> Rc<MemDisk> {
        self.rt.block_on(self.volume.close()).unwrap().unwrap();
        self.rt.crash();
        self.disk
    }

    /// The power fails; gives the disk.
    fn crash(self) -> Rc<MemDisk> {
        self.rt.crash();
        self.disk
    }

    fn request(&mut self, request: Request) -> Result<Reply, FsError> {
        self.next_id = request.id + 1;
        self.rt.block_on(self.volume.execute(request)).unwrap()
    }

    fn op(&mut self, op: Op) -> Reply {
        let request = Request::root(self.next_id, op);
        self.request(request.clone()).unwrap_or_else(|e| panic!("{request:?}: {e}"))
    }

    /// Runs generated requests.
    fn run(&mut self, workload: &str, params: WorkloadParams, seed: u64, count: u64) {
        let mut generator = Generator::new(workload, params, seed).unwrap();
        generator.set_next_id(self.next_id);
        for _ in 0..count {
            let request = generator.next();
            let reply = self.request(request.clone());
            if let Err(error) = &reply {
                assert!(!error.is_damage(), "{workload}, seed {seed}: {request:?}: {error}");
            }
            generator.learn(&request, &reply);
        }
    }

    fn entry(&mut self, op: Op) -> Ino {
        match self.op(op) {
            Reply::Entry(entry) => entry.attr.ino,
            other => panic!("{other:?}"),
        }
    }

    fn create(&mut self, dir: Ino, name: &str) -> Ino {
        let name = name.as_bytes().into();
        let ino = self.entry(Op::Create { dir, name, mode: 0o644, exclusive: true });
        self.op(Op::Release { ino });
        ino
    }

    fn mkdir(&mut self, dir: Ino, name: &str) -> Ino {
        self.entry(Op::MakeDir { dir, name: name.as_bytes().into(), mode: 0o755 })
    }

    fn write(&mut self, ino: Ino, off: u64, len: usize) {
        let mut rng = twin_rt::Rng::new(ino + off);
        let bytes: Vec<u8> = (0..len).map(|_| rng.next_u64() as u8).collect();
        self.op(Op::Write { ino, off, data: Data::Bytes(Bytes::copy_of(&bytes)) });
    }
}

fn check_disk(disk: Rc<MemDisk>, data: bool) -> Result<Report, FsError> {
    let rt = Rt::new(ClockOnly::default(), 3);
    rt.block_on(check(&rt, disk, &CheckOptions { data }, &mut |_| {})).unwrap()
}

fn repair_disk(disk: Rc<MemDisk>, data: bool) -> Result<Report, FsError> {
    let rt = Rt::new(ClockOnly::default(), 4);
    let repaired = rt.block_on(repair(&rt, disk, &CheckOptions { data }, &mut |_| {})).unwrap();
    rt.crash();
    repaired
}

fn try_check(bytes: Vec<u8>, data: bool) -> Result<Report, FsError> {
    check_disk(Rc::new(MemDisk::from_bytes(bytes)), data)
}

fn check_bytes(bytes: Vec<u8>, data: bool) -> Report {
    try_check(bytes, data).unwrap()
}

fn assert_clean(disk: &Rc<MemDisk>, what: &str) -> Report {
    let without = check_disk(Rc::clone(disk), false).unwrap();
    assert!(without.is_clean(), "{what}: {without}");
    let report = check_disk(Rc::clone(disk), true).unwrap();
    assert!(report.is_clean(), "{what}, data: {report}");
    report
}
