//! A volume on a disk in memory, for tests that tell one story.
#![allow(dead_code, unreachable_pub)] // No test uses all of it.

use std::rc::Rc;

use twin_disk::{Bytes, MemDisk};
use twin_fs::{
    Attr, Cpu, Data, FsError, Ino, Op, ROOT_INO, Reply, Request, SetAttr, Settings, VolumeOf,
};
use twin_lfs::{Lfs, LfsSettings, MkfsOptions, check};
use twin_rt::{ClockOnly, Rt};

pub struct World {
    pub rt: Rt,
    pub disk: Rc<MemDisk>,
    pub volume: VolumeOf<Lfs>,
    pub settings: Settings,
    pub lfs: LfsSettings,
    next_id: u64,
}

impl World {
    pub fn new(options: &MkfsOptions, size: u64) -> World {
        World::with(options, size, Settings::default(), LfsSettings::default())
    }

    pub fn with(options: &MkfsOptions, size: u64, settings: Settings, lfs: LfsSettings) -> World {
        let rt = Rt::new(ClockOnly::default(), 1);
        let disk = Rc::new(MemDisk::new(size));
        rt.block_on(Lfs::mkfs(&rt, Rc::clone(&disk) as _, options)).unwrap().unwrap();
        let volume = open(&rt, &disk, &settings, &lfs);
        World { rt, disk, volume, settings, lfs, next_id: 1 }
    }

    /// The volume on a disk.
    pub fn of_disk(disk: Rc<MemDisk>) -> World {
        let rt = Rt::new(ClockOnly::default(), 1);
        let (settings, lfs) = (Settings::default(), LfsSettings::default());
        let volume = open(&rt, &disk, &settings, &lfs);
        World { rt, disk, volume, settings, lfs, next_id: 1 }
    }

    /// Closes and opens.
    pub fn reopen(mut self) -> World {
        self.rt.block_on(self.volume.close()).unwrap().unwrap();
        self.begin_anew();
        self
    }

    /// Opens without having closed.
    pub fn crash(mut self) -> World {
        self.begin_anew();
        self
    }

    fn begin_anew(&mut self) {
        self.rt.crash();
        self.rt = Rt::new(ClockOnly::default(), 2);
        self.volume = open(&self.rt, &self.disk, &self.settings, &self.lfs);
    }

    pub fn try_op(&mut self, op: Op) -> Result<Reply, FsError> {
        let request = Request::root(self.next_id, op);
        self.next_id += 1;
        self.rt.block_on(self.volume.execute(request)).unwrap()
    }

    pub fn op(&mut self, op: Op) -> Reply {
        self.try_op(op.clone()).unwrap_or_else(|e| panic!("{op:?}: {e}"))
    }

    fn entry(&mut self, op: Op) -> Ino {
        match self.op(op) {
            Reply::Entry(entry) => entry.attr.ino,
            other => panic!("{other:?}"),
        }
    }

    pub fn create(&mut self, name: &str) -> Ino {
        let name = name.as_bytes().into();
        self.entry(Op::Create { dir: ROOT_INO, name, mode: 0o644, exclusive: true })
    }

    pub fn lookup(&mut self, name: &str) -> Ino {
        self.entry(Op::Lookup { dir: ROOT_INO, name: name.as_bytes().into() })
    }

    pub fn write(&mut self, ino: Ino, off: u64, bytes: &[u8]) {
        self.op(Op::Write { ino, off, data: Data::Bytes(Bytes::copy_of(bytes)) });
    }

    pub fn read(&mut self, ino: Ino, off: u64, len: u32) -> Vec<u8> {
        match self.op(Op::Read { ino, off, len }) {
            Reply::Data(blocks) => blocks.iter().flat_map(|b| b.to_bytes().to_vec()).collect(),
            other => panic!("{other:?}"),
        }
    }

    pub fn resize(&mut self, ino: Ino, size: u64) {
        let set = SetAttr { size: Some(size), ..SetAttr::default() };
        self.op(Op::SetAttr { ino, set });
    }

    pub fn attr(&mut self, ino: Ino) -> Attr {
        match self.op(Op::GetAttr { ino }) {
            Reply::Attr(attr) => attr,
            other => panic!("{other:?}"),
        }
    }

    /// Space used, in units of 512 bytes.
    pub fn blocks(&mut self, ino: Ino) -> u64 {
        self.attr(ino).blocks
    }

    /// Fails where a check of the whole volume, data included, finds anything.
    pub fn assert_clean(&self) {
        let options = check::CheckOptions { data: true };
        let (disk, mut ignore) = (Rc::clone(&self.disk), |_| {});
        let checking = check::check(&self.rt, disk, &options, &mut ignore);
        let report = self.rt.block_on(checking).unwrap().unwrap();
        assert!(report.is_clean(), "{report}");
    }
}

fn open(rt: &Rt, disk: &Rc<MemDisk>, settings: &Settings, lfs: &LfsSettings) -> VolumeOf<Lfs> {
    let (settings, lfs) = (settings.clone(), lfs.clone());
    let opening = Lfs::open(rt, Rc::clone(disk) as _, Cpu::none(), settings, lfs);
    rt.block_on(opening).unwrap().unwrap().0
}

pub fn both_profiles(test: impl Fn(MkfsOptions)) {
    test(MkfsOptions::modern([1; 16]));
    test(MkfsOptions::classic([1; 16]));
}
