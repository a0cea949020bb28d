//! A volume in memory: operations, closing, opening again.

use std::rc::Rc;

use twin_disk::{Block, BlockDevice, Buf, Bytes, Class, Io, MemDisk, Origin};
use twin_fs::{
    Cpu, Data, FsError, Ino, Op, ROOT_INO, Reply, Request, SetAttr, SetTime, Settings, Timestamp,
    VolumeOf,
};
use twin_lfs::format::Superblock;
use twin_lfs::{Lfs, LfsSettings, MkfsOptions};
use twin_rt::{ClockOnly, Rt};

struct World {
    rt: Rt,
    disk: Rc<MemDisk>,
    volume: VolumeOf<Lfs>,
    next_id: u64,
}

impl World {
    fn new(options: &MkfsOptions, size: u64) -> World {
        let rt = Rt::new(ClockOnly::default(), 1);
        let disk = Rc::new(MemDisk::new(size));
        rt.block_on(Lfs::mkfs(&rt, Rc::clone(&disk) as _, options)).unwrap().unwrap();
        let volume = World::open(&rt, &disk);
        World { rt, disk, volume, next_id: 1 }
    }

    fn open(rt: &Rt, disk: &Rc<MemDisk>) -> VolumeOf<Lfs> {
        let (settings, lfs) = (Settings::default(), LfsSettings::default());
        let open = Lfs::open(rt, Rc::clone(disk) as _, Cpu::none(), settings, lfs);
        rt.block_on(open).unwrap().unwrap().0
    }

    fn reopen(mut self) -> World {
        self.rt.block_on(self.volume.close()).unwrap().unwrap();
        self.rt.crash();
        self.rt = Rt::new(ClockOnly::default(), 2);
        self.volume = World::open(&self.rt, &self.disk);
        self
    }

    fn crash(mut self) -> World {
        self.rt.crash();
        self.rt = Rt::new(ClockOnly::default(), 2);
        self.volume = World::open(&self.rt, &self.disk);
        self
    }

    fn try_op(&mut self, op: Op) -> Result<Reply, FsError> {
        let request = Request::root(self.next_id, op);
        self.next_id += 1;
        self.rt.block_on(self.volume.execute(request)).unwrap()
    }

    fn op(&mut self, op: Op) -> Reply {
        self.try_op(op.clone()).unwrap_or_else(|e| panic!("{op:?}: {e}"))
    }

    fn create(&mut self, dir: Ino, name: &str) -> Ino {
        let op = Op::Create { dir, name: name.as_bytes().into(), mode: 0o644, exclusive: true };
        match self.op(op) {
            Reply::Entry(entry) => entry.attr.ino,
            other => panic!("{other:?}"),
        }
    }

    fn lookup(&mut self, dir: Ino, name: &str) -> Ino {
        match self.op(Op::Lookup { dir, name: name.as_bytes().into() }) {
            Reply::Entry(entry) => entry.attr.ino,
            other => panic!("{other:?}"),
        }
    }

    fn write(&mut self, ino: Ino, off: u64, bytes: &[u8]) {
        self.op(Op::Write { ino, off, data: Data::Bytes(Bytes::copy_of(bytes)) });
    }

    fn read(&mut self, ino: Ino, off: u64, len: u32) -> Vec<u8> {
        match self.op(Op::Read { ino, off, len }) {
            Reply::Data(blocks) => blocks.iter().flat_map(|b| b.to_bytes().to_vec()).collect(),
            other => panic!("{other:?}"),
        }
    }
}

fn pattern(len: usize, seed: u64) -> Vec<u8> {
    let mut rng = twin_rt::Rng::new(seed);
    (0..len).map(|_| rng.next_u64() as u8).collect()
}

fn both_profiles(test: impl Fn(MkfsOptions)) {
    test(MkfsOptions::modern([1; 16]));
    test(MkfsOptions::classic([1; 16]));
}

#[test]
fn files_survive_closing() {
    both_profiles(|options| {
        let mut w = World::new(&options, 64 << 20);
        let sizes = [0usize, 1, 100, 255, 256, 257, 1000, 4096, 5000, 49_152, 50_000, 3_000_000];
        for (i, &size) in sizes.iter().enumerate() {
            let ino = w.create(ROOT_INO, &format!("f{i}"));
            w.write(ino, 0, &pattern(size, i as u64));
        }
        let mut w = w.reopen();
        for (i, &size) in sizes.iter().enumerate() {
            let ino = w.lookup(ROOT_INO, &format!("f{i}"));
            assert!(w.read(ino, 0, 4_000_000) == pattern(size, i as u64), "size {size}");
        }
    });
}

#[test]
fn fsynced_files_survive_a_crash() {
    both_profiles(|options| {
        let mut w = World::new(&options, 64 << 20);
        let sizes = [1usize, 300, 4096, 60_000, 3_000_000];
        for (i, &size) in sizes.iter().enumerate() {
            let ino = w.create(ROOT_INO, &format!("f{i}"));
            w.write(ino, 0, &pattern(size, i as u64));
            w.op(Op::Fsync { ino, data_only: false });
            // A second write behind indirect blocks that are on disk already.
            w.write(ino, size as u64 / 2, &pattern(10, 99));
            w.op(Op::Fsync { ino, data_only: true });
        }
        let mut w = w.crash();
        for (i, &size) in sizes.iter().enumerate() {
            let ino = w.lookup(ROOT_INO, &format!("f{i}"));
            let mut expected = pattern(size, i as u64);
            expected.resize(size.max(size / 2 + 10), 0);
            expected[size / 2..size / 2 + 10].copy_from_slice(&pattern(10, 99));
            assert!(w.read(ino, 0, 4_000_000) == expected, "size {size}");
        }
    });
}

#[test]
fn removed_files_give_their_space_back() {
    both_profiles(|options| {
        let mut w = World::new(&options, 64 << 20);
        w.op(Op::Sync);
        let before = w.volume.layout.space().0;
        for round in 0..30 {
            let ino = w.create(ROOT_INO, "big");
            w.write(ino, 0, &pattern(4_000_000, round));
            w.op(Op::Release { ino });
            w.op(Op::Unlink { dir: ROOT_INO, name: (*b"big").into() });
            w.op(Op::Forget { ino, count: 1 });
        }
        let after = w.volume.layout.space().0;
        assert_eq!(before, after);
        let w = w.reopen();
        assert_eq!(w.volume.layout.space().0, w.volume.layout.with_segments(|s| s.live_bytes()));
    });
}

#[test]
fn a_thousand_names_in_one_directory() {
    both_profiles(|options| {
        let mut w = World::new(&options, 64 << 20);
        for i in 0..3000 {
            w.create(ROOT_INO, &format!("name-{i}"));
        }
        let mut w = w.reopen();
        for i in (0..3000).step_by(7) {
            w.lookup(ROOT_INO, &format!("name-{i}"));
        }
        for i in 0..3000 {
            let name = format!("name-{i}").into_bytes().into();
            w.op(Op::Unlink { dir: ROOT_INO, name });
        }
        let Reply::Dir(entries) =
            w.op(Op::ReadDir { dir: ROOT_INO, cookie: 0, max_bytes: 4096, plus: false })
        else {
            panic!()
        };
        assert_eq!(entries.len(), 2);
    });
}

#[test]
fn a_full_volume_says_so_and_recovers() {
    both_profiles(|options| {
        let mut w = World::new(&options, 32 << 20);
        let mut files = 0;
        let full = loop {
            let name = format!("f{files}").into_bytes().into();
            let op = Op::Create { dir: ROOT_INO, name, mode: 0o644, exclusive: true };
            let ino = match w.try_op(op) {
                Ok(Reply::Entry(entry)) => entry.attr.ino,
                Err(error) => break error,
                other => panic!("{other:?}"),
            };
            files += 1;
            let data = Data::Bytes(Bytes::copy_of(&pattern(100_000, files)));
            if let Err(error) = w.try_op(Op::Write { ino, off: 0, data }) {
                break error;
            }
        };
        assert_eq!(full, FsError::NoSpace);
        let (used, limit) = w.volume.layout.space();
        assert!(used > limit * 95 / 100, "{used} of {limit}");
        for i in 0..files - 1 {
            let name = format!("f{i}").into_bytes().into();
            w.op(Op::Unlink { dir: ROOT_INO, name });
        }
    });
}

#[test]
fn a_feature_for_writers_refuses_writers_alone() {
    let disk = Rc::new(MemDisk::new(16 << 20));
    let rt = Rt::new(ClockOnly::default(), 1);
    let options = MkfsOptions::modern([7; 16]);
    let sb = rt.block_on(Lfs::mkfs(&rt, Rc::clone(&disk) as _, &options)).unwrap().unwrap();
    let mut sb = sb;
    sb.must_write = 4;
    for at in Superblock::places(sb.size(), sb.copies) {
        let raw = Block::Bytes(Buf::copy_of(&sb.encode()).freeze());
        let io = Io::write(at, vec![raw], Class::Meta, Origin::Checkpoint);
        rt.block_on(disk.submit(io)).unwrap().unwrap();
    }
    let open = |read_only| {
        let settings = Settings { read_only, ..Settings::default() };
        let lfs = LfsSettings::default();
        rt.block_on(Lfs::open(&rt, Rc::clone(&disk) as _, Cpu::none(), settings, lfs)).unwrap()
    };
    let refused = open(false).err().map(|error| error.to_string()).unwrap();
    assert!(refused.contains("read-only"), "{refused}");
    open(true).unwrap();
}

#[test]
fn data_that_is_written_back_leaves_times_and_set_id_bits() {
    both_profiles(|options| {
        let mut w = World::new(&options, 64 << 20);
        let ino = w.create(ROOT_INO, "late");
        let at = |secs| SetTime::At(Timestamp { secs, nanos: 7 });
        let set = SetAttr {
            mode: Some(0o6777),
            mtime: Some(at(1_000)),
            ctime: Some(Timestamp { secs: 2_000, nanos: 7 }),
            ..SetAttr::default()
        };
        let Reply::Attr(before) = w.op(Op::SetAttr { ino, set }) else { panic!() };
        let bytes = pattern(100_000, 5);
        let data = Data::Bytes(Bytes::copy_of(&bytes));
        w.op(Op::WriteBack { ino, off: 0, data });
        let mut w = w.reopen();
        let ino = w.lookup(ROOT_INO, "late");
        let Reply::Attr(after) = w.op(Op::GetAttr { ino }) else { panic!() };
        let kept = |a: &twin_fs::Attr| (a.mode, a.mtime, a.ctime);
        assert_eq!((kept(&after), after.size), (kept(&before), 100_000));
        assert!(w.read(ino, 0, 200_000) == bytes);
        w.write(ino, 0, b"now");
        let Reply::Attr(changed) = w.op(Op::GetAttr { ino }) else { panic!() };
        assert!(changed.mtime != after.mtime && changed.ctime != after.ctime);
    });
}

/// What is written because of its age goes to the log; a checkpoint, which writes the maps too, comes when its own time has come.
#[test]
fn checkpoints_come_by_their_own_age_and_not_with_each_write() {
    both_profiles(|options| {
        let mut world = World::new(&options, 64 << 20);
        let age_ns = LfsSettings::default().checkpoint_age_ns;
        let count = |world: &World| {
            let log = world.volume.layout().views().log.unwrap();
            log.status(world.volume.core()).checkpoints
        };
        let before = count(&world);
        let rounds = 12;
        for round in 0..rounds {
            world.create(ROOT_INO, &format!("file {round}"));
            let rt = world.rt.clone();
            world.rt.block_on(async move { rt.sleep(age_ns / 3).await }).unwrap();
        }
        let made = count(&world) - before;
        assert!((2..=rounds / 2).contains(&made), "{made} checkpoints in {rounds} rounds");
    });
}
