//! The order in which writes reach the device where there is no journal.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use twin_disk::{
    BlockDevice, Bytes, Class, Completion, DeviceInfo, Io, IoKind, MemDisk, Pending, pending,
};
use twin_ffs::{Ffs, FfsSettings, MkfsOptions};
use twin_fs::{Cpu, Data, Ino, Layout, Op, ROOT_INO, Reply, Request, SetAttr, Settings, VolumeOf};
use twin_rt::{ClockOnly, Rt};

/// A disk that notes what it is asked to do, and that can be told to take its time.
struct Noting {
    disk: MemDisk,
    notes: RefCell<Vec<(IoKind, Class, u64)>>,
    /// So many writes of metadata are not done until they are let go.
    slow: Cell<usize>,
    held: RefCell<Vec<(Io, Completion)>>,
}

impl Noting {
    /// Does what was held.
    fn let_go(&self, rt: &Rt) {
        self.slow.set(0);
        for (io, completion) in self.held.take() {
            completion.done(rt.block_on(self.disk.submit(io)).unwrap());
        }
    }
}

impl BlockDevice for Noting {
    fn info(&self) -> DeviceInfo {
        self.disk.info()
    }

    fn submit(&self, io: Io) -> Pending {
        self.notes.borrow_mut().push((io.kind, io.class, io.at));
        if self.held.borrow().len() < self.slow.get()
            && (io.kind, io.class) == (IoKind::Write, Class::Meta)
        {
            let (completion, pending) = pending();
            self.held.borrow_mut().push((io, completion));
            return pending;
        }
        self.disk.submit(io)
    }

    fn in_flight(&self) -> usize {
        self.disk.in_flight()
    }
}

struct World {
    rt: Rt,
    disk: Rc<Noting>,
    volume: VolumeOf<Ffs>,
}

impl World {
    fn new() -> World {
        let rt = Rt::new(ClockOnly::default(), 1);
        let disk = Rc::new(Noting {
            disk: MemDisk::new(16 << 20),
            notes: RefCell::default(),
            slow: Cell::new(0),
            held: RefCell::default(),
        });
        let options = MkfsOptions { ordering: "sync".into(), ..MkfsOptions::modern([1; 16]) };
        rt.block_on(Ffs::mkfs(&rt, Rc::clone(&disk) as _, &options)).unwrap().unwrap();
        let (settings, ffs) = (Settings::default(), FfsSettings::default());
        let opening = Ffs::open(&rt, Rc::clone(&disk) as _, Cpu::none(), settings, ffs);
        let volume = rt.block_on(opening).unwrap().unwrap().0;
        World { rt, disk, volume }
    }

    fn op(&self, op: Op) -> Reply {
        self.rt.block_on(self.volume.execute(Request::root(1, op))).unwrap().unwrap()
    }

    /// Begins an operation, and lets it and all others run as far as they come without the disk.
    fn begin(&self, op: Op) -> Rc<Cell<bool>> {
        let (volume, over) = (self.volume.clone(), Rc::new(Cell::new(false)));
        let ended = Rc::clone(&over);
        self.rt.spawn("operation", async move {
            let _ = volume.execute(Request::root(1, op)).await;
            ended.set(true);
        });
        self.rt.run_ready();
        over
    }

    /// Begins to write back what is dirty, in the background.
    fn begin_write_back(&self) {
        let (layout, core) = (Rc::clone(&self.volume.layout), Rc::clone(self.volume.core()));
        self.rt.spawn("write-back", async move { layout.write_back(&core, None).await.unwrap() });
        self.rt.run_ready();
    }

    fn create(&self, name: &str) -> Ino {
        let name = name.as_bytes().into();
        match self.op(Op::Create { dir: ROOT_INO, name, mode: 0o644, exclusive: true }) {
            Reply::Entry(entry) => entry.attr.ino,
            other => panic!("{other:?}"),
        }
    }

    fn write(&self, ino: Ino, off: u64, len: usize) {
        self.op(Op::Write { ino, off, data: Data::Bytes(Bytes::copy_of(&vec![7; len])) });
    }

    fn fsync(&self, ino: Ino) {
        self.op(Op::Fsync { ino, data_only: false });
    }

    /// What the disk was asked to do since the last call.
    fn notes(&self) -> Vec<(IoKind, Class, u64)> {
        self.disk.notes.take()
    }
}

/// The place of the first write of data, and whether a flush lies between it and the first write of
/// metadata.
fn data_first(notes: &[(IoKind, Class, u64)]) -> (u64, bool) {
    let is = |kind, class| move |n: &(IoKind, Class, u64)| (n.0, n.1) == (kind, class);
    let data = notes.iter().position(is(IoKind::Write, Class::Data)).expect("data is written");
    let meta = notes.iter().position(is(IoKind::Write, Class::Meta)).expect("the inode is written");
    let flushed = notes[data..meta.max(data)].iter().any(|note| note.0 == IoKind::Flush);
    (notes[data].2, flushed)
}

/// A file was synced; a write made its last block longer, and the block had to move. The inode with the
/// new place reached the disk and the content did not: after the power failure the synced content was
/// gone, although the old place still had it.
#[test]
fn the_content_of_a_block_that_moves_is_durable_before_its_inode() {
    for in_background in [false, true] {
        let world = World::new();
        let (file, neighbour) = (world.create("file"), world.create("neighbour"));
        world.write(file, 0, 3000);
        world.notes();
        world.fsync(file);
        let (old, _) = data_first(&world.notes());
        world.write(neighbour, 0, 3000);
        world.fsync(neighbour);
        world.write(file, 3000, 3000);
        world.notes();
        if in_background {
            let (layout, core) = (Rc::clone(&world.volume.layout), Rc::clone(world.volume.core()));
            let work = async { layout.write_back(&core, None).await };
            world.rt.block_on(work).unwrap().unwrap();
        } else {
            world.fsync(file);
        }
        let (new, flushed) = data_first(&world.notes());
        assert_ne!(old, new, "the neighbour lies behind the file, so its block had to move");
        assert!(flushed, "in the background: {in_background}");
    }
}

/// The name of a removed file without blocks was durable, and that its inode is free was not: after a power failure the
/// repair put the file into lost+found, and a handle of the removed file led to it.
#[test]
fn syncing_a_directory_frees_the_inodes_of_removed_files_on_the_disk() {
    let world = World::new();
    // Its inode lies in another block of the table than that of the directory.
    for n in 0..40 {
        world.create(&n.to_string());
    }
    let file = world.create("file");
    // Without blocks there is no cut that would be written in order.
    let set = SetAttr { size: Some(5000), ..SetAttr::default() };
    world.op(Op::SetAttr { ino: file, set });
    world.fsync(file);
    world.op(Op::Release { ino: file });
    world.op(Op::Forget { ino: file, count: 1 });
    world.op(Op::Unlink { dir: ROOT_INO, name: (*b"file").into() });
    world.fsync(ROOT_INO);
    let report =
        world.rt.block_on(twin_ffs::check::check(Rc::clone(&world.disk) as _, &mut |_| {}));
    let report = report.unwrap().unwrap();
    assert_eq!(report.counts.files, 40, "{report}");
}

/// A write brought the first indirect block, which was on its way to the disk. The write-back wrote the
/// inode meanwhile, which then led to a block of pointers that a power failure would have left as it was.
#[test]
fn an_inode_waits_for_new_pointers_that_another_task_writes() {
    let world = World::new();
    let file = world.create("file");
    world.write(file, 0, 12 * 8192);
    world.fsync(file);
    world.notes();
    world.disk.slow.set(9);
    let data = Data::Bytes(Bytes::copy_of(&[7; 4096]));
    let written = world.begin(Op::Write { ino: file, off: 12 * 8192, data });
    let metadata = |notes: &[(IoKind, Class, u64)]| -> Vec<u64> {
        let of_meta = notes.iter().filter(|note| (note.0, note.1) == (IoKind::Write, Class::Meta));
        of_meta.map(|note| note.2).collect()
    };
    let map = metadata(&world.notes());
    assert_eq!((map.len(), written.get()), (1, false), "the new indirect block is on its way");
    world.begin_write_back();
    let early = metadata(&world.notes());
    assert_eq!(early, [], "nothing may lead to it yet");
    world.disk.let_go(&world.rt);
    world.rt.run_ready();
    assert!(written.get());
    let after = world.notes();
    let is_inode = |note: &(IoKind, Class, u64)| (note.0, note.1) == (IoKind::Write, Class::Meta);
    let inode = after.iter().position(is_inode).expect("the inode is written");
    assert!(after[..inode].iter().any(|note| note.0 == IoKind::Flush), "{after:?}");
    assert!(!metadata(&after).contains(&map[0]));
}

/// The inode of a file that gave up a place was on its way in another task's write, so that nothing was
/// left to write of it, and the place was used again: a power failure would have left two files there.
#[test]
fn space_is_used_again_when_the_inode_that_gave_it_up_is_on_the_disk() {
    let world = World::new();
    let (file, neighbour) = (world.create("file"), world.create("neighbour"));
    for ino in [file, neighbour] {
        world.write(ino, 0, 3000);
        world.fsync(ino);
    }
    world.op(Op::Sync);
    // The last block of the file moves.
    world.write(file, 3000, 3000);
    world.disk.slow.set(1);
    let synced = world.begin(Op::Fsync { ino: file, data_only: false });
    assert!(world.disk.held.borrow().len() == 1 && !synced.get(), "the inode is on its way");
    // What has no room makes the volume release what was given up.
    let space = || world.volume.layout.space_map(world.volume.core());
    let before = space();
    let data = Data::Synthetic(64 << 20);
    let written = world.begin(Op::Write { ino: neighbour, off: 3000, data });
    assert_eq!(space(), before, "the place may not be used again yet");
    world.disk.let_go(&world.rt);
    world.rt.run_ready();
    assert_ne!(space(), before);
    assert!(synced.get() && written.get());
}
