//! A volume on a disk in memory, for tests that tell one story.
#![allow(dead_code, unreachable_pub)] // No test uses all of it.

use std::rc::Rc;

use twin_disk::{Bytes, MemDisk};
use twin_ffs::{Ffs, FfsSettings, MkfsOptions};
use twin_fs::{
    Attr, Cpu, Data, FsError, Ino, Op, ROOT_INO, Reply, Request, SetAttr, Settings, VolumeOf,
};
use twin_rt::{ClockOnly, Rt};

pub struct World {
    pub rt: Rt,
    pub disk: Rc<MemDisk>,
    pub volume: VolumeOf<Ffs>,
    pub settings: Settings,
    pub ffs: FfsSettings,
    next_id: u64,
}

impl World {
    pub fn new(options: &MkfsOptions, size: u64) -> World {
        World::with(options, size, Settings::default(), FfsSettings::default())
    }

    pub fn with(options: &MkfsOptions, size: u64, settings: Settings, ffs: FfsSettings) -> World {
        let rt = Rt::new(ClockOnly::default(), 1);
        let disk = Rc::new(MemDisk::new(size));
        rt.block_on(Ffs::mkfs(&rt, Rc::clone(&disk) as _, options)).unwrap().unwrap();
        let volume = open(&rt, &disk, &settings, &ffs);
        World { rt, disk, volume, settings, ffs, next_id: 1 }
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
        self.volume = open(&self.rt, &self.disk, &self.settings, &self.ffs);
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
}

fn open(rt: &Rt, disk: &Rc<MemDisk>, settings: &Settings, ffs: &FfsSettings) -> VolumeOf<Ffs> {
    let (settings, ffs) = (settings.clone(), ffs.clone());
    let opening = Ffs::open(rt, Rc::clone(disk) as _, Cpu::none(), settings, ffs);
    rt.block_on(opening).unwrap().unwrap().0
}

/// Every profile with every ordering.
pub fn all_kinds(test: impl Fn(MkfsOptions)) {
    for entry in &twin_ffs::ordering::REGISTRY {
        for base in [MkfsOptions::modern([1; 16]), MkfsOptions::classic([1; 16])] {
            test(MkfsOptions { ordering: entry.name.into(), ..base });
        }
    }
}
