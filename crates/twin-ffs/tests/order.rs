//! The order in which writes reach the device where there is no journal.

use std::cell::RefCell;
use std::rc::Rc;

use twin_disk::{BlockDevice, Bytes, Class, DeviceInfo, Io, IoKind, MemDisk, Pending};
use twin_ffs::{Ffs, FfsSettings, MkfsOptions};
use twin_fs::{
    Cpu, Data, FileSystem, Ino, Layout, Op, ROOT_INO, Reply, Request, SetAttr, Settings, Volume,
};
use twin_rt::{ClockOnly, Rt};

/// A disk that notes what it is asked to do.
struct Noting {
    disk: MemDisk,
    notes: RefCell<Vec<(IoKind, Class, u64)>>,
}

impl BlockDevice for Noting {
    fn info(&self) -> DeviceInfo {
        self.disk.info()
    }

    fn submit(&self, io: Io) -> Pending {
        self.notes.borrow_mut().push((io.kind, io.class, io.at));
        self.disk.submit(io)
    }

    fn in_flight(&self) -> usize {
        self.disk.in_flight()
    }
}

struct World {
    rt: Rt,
    disk: Rc<Noting>,
    volume: Rc<Volume<Ffs>>,
}

impl World {
    fn new() -> World {
        let rt = Rt::new(ClockOnly::default(), 1);
        let disk = Rc::new(Noting { disk: MemDisk::new(16 << 20), notes: RefCell::default() });
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
            let (layout, core) = (Rc::clone(&world.volume.layout), Rc::clone(&world.volume.core));
            let work = async { layout.write_back(&core).await };
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
