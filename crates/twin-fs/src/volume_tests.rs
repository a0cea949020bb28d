//! Tests of the layers above a minimal layout that keeps everything in memory and writes nothing.
//! It has few features, and a test can tell it to have no room.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::rc::Rc;

use twin_cache::Lbn;
use twin_disk::{Bytes, MemDisk};
use twin_rt::{ClockOnly, Rt};

use crate::geometry::{Geometry, Ptr, UNWRITTEN};
use crate::{
    Core, Cpu, Data, Dirty, Fallocate, Features, FileSystem, FsError, Ino, Inode, Layout, Need, Op,
    Peeked, Picked, ROOT_INO, RenameMode, Reply, Request, Result, Room, SetAttr, SetTime, Settings,
    SpaceMap, Timestamp, Volume, VolumeStat, mode,
};

/// The minimal layout. It only picks inode numbers, of which `last` was the latest, and records
/// orphans.
#[derive(Default)]
struct InMemory {
    last: Cell<Ino>,
    is_full: Cell<bool>,
    orphans: RefCell<BTreeSet<Ino>>,
    /// The files that were about to take the names of others.
    replacing: RefCell<Vec<Ino>>,
}

impl Layout for InMemory {
    type AdmissionGuard = ();

    async fn load_inode(&self, _: &Rc<Core>, _: Ino) -> Result<Rc<Inode>> {
        Err(FsError::NotFound)
    }

    async fn pick_inode(&self, _: &Rc<Core>, _near: Ino, _mode: u32) -> Result<Picked> {
        self.last.set(self.last.get() + 1);
        Ok(Picked { ino: self.last.get(), generation: 1 })
    }

    fn unpick(&self, _: &Core, _: Picked) {}

    fn inode_created(&self, _: &Core, _: &Rc<Inode>) {}

    fn free_inode(&self, core: &Core, inode: &Rc<Inode>) {
        core.drop_inode(inode);
    }

    fn set_orphan(&self, _: &Core, inode: &Inode, orphan: bool) {
        let mut orphans = self.orphans.borrow_mut();
        let _ = if orphan { orphans.insert(inode.ino) } else { orphans.remove(&inode.ino) };
    }

    fn reserve(&self, _: &Core, _bytes: u64) -> Result<()> {
        Ok(())
    }

    fn unreserve(&self, _: &Core, _bytes: u64) {}

    fn inode_bytes(&self) -> u64 {
        0
    }

    fn place(&self, _: &Core, _: &Inode, _: Lbn, _old: Ptr, len: u32) -> Ptr {
        Ptr { addr: UNWRITTEN, len, crc: 0 }
    }

    fn free_block(&self, _: &Core, _: &Inode, _: Ptr, _len: u32) {}

    async fn admit(&self, _: &Rc<Core>, _bytes: u64, _: Need) -> Result<()> {
        if self.is_full.get() { Err(FsError::NoSpace) } else { Ok(()) }
    }

    async fn before_replace(&self, _: &Rc<Core>, source: &Rc<Inode>) -> Result<()> {
        self.replacing.borrow_mut().push(source.ino);
        Ok(())
    }

    fn has_dirty(&self, _: &Core) -> bool {
        false
    }

    fn dirty(&self, _: &Core) -> Dirty {
        Dirty { unit_bytes: 4096, ..Dirty::default() }
    }

    async fn write_back(&self, _: &Rc<Core>) -> Result<()> {
        Ok(())
    }

    async fn settle(&self, _: &Rc<Core>, _durable: bool) -> Result<()> {
        Ok(())
    }

    async fn fsync(&self, _: &Rc<Core>, _: &Rc<Inode>, _data_only: bool) -> Result<()> {
        Ok(())
    }

    async fn sync(&self, _: &Rc<Core>) -> Result<()> {
        Ok(())
    }

    async fn close(&self, _: &Rc<Core>) -> Result<()> {
        Ok(())
    }

    fn room(&self, _: &Core) -> Room {
        Room { free_bytes: 1 << 20, limit_bytes: 1 << 20 }
    }

    fn written(&self) -> crate::Written {
        crate::Written::default()
    }

    fn space_map(&self, _: &Core) -> SpaceMap {
        SpaceMap::default()
    }

    fn stat(&self, _: &Core) -> VolumeStat {
        VolumeStat { block_size: 4096, free: 256, ..VolumeStat::default() }
    }
}

struct World {
    rt: Rt,
    volume: Rc<Volume<InMemory>>,
    asked: Cell<u64>,
}

impl World {
    fn new(change: impl FnOnce(Features) -> Features) -> World {
        World::with(change, Settings::default())
    }

    fn with(change: impl FnOnce(Features) -> Features, settings: Settings) -> World {
        let rt = Rt::new(ClockOnly::default(), 1);
        let geometry = Geometry::classic(4096, 1024);
        let features = change(Features::of(&geometry));
        let device = Rc::new(MemDisk::new(1 << 20));
        let core =
            Core::new(rt.clone(), device, Cpu::none(), geometry, features, settings).unwrap();
        let layout = InMemory { last: Cell::new(ROOT_INO), ..InMemory::default() };
        let volume = Volume::new(core, layout).unwrap();
        volume.make_root(Picked { ino: ROOT_INO, generation: 1 }, 0o755).unwrap();
        World { rt, volume, asked: Cell::new(0) }
    }

    fn op(&self, op: Op) -> Result<Reply> {
        self.asked.set(self.asked.get() + 1);
        let request = Request::root(self.asked.get(), op);
        self.rt.block_on(self.volume.execute(request)).unwrap()
    }

    /// Makes a file, to which the client then has a reference and an open.
    fn create(&self, name: &str) -> Ino {
        let name = name.as_bytes().into();
        match self.op(Op::Create { dir: ROOT_INO, name, mode: 0o644, exclusive: true }) {
            Ok(Reply::Entry(entry)) => entry.attr.ino,
            other => panic!("{other:?}"),
        }
    }

    fn write(&self, ino: Ino, off: u64, len: usize) -> Result<Reply> {
        self.op(Op::Write { ino, off, data: Data::Bytes(Bytes::copy_of(&vec![7; len])) })
    }

    fn attr(&self, ino: Ino) -> crate::Attr {
        match self.op(Op::GetAttr { ino }) {
            Ok(Reply::Attr(attr)) => attr,
            other => panic!("{other:?}"),
        }
    }
}

fn is_unsupported(reply: &Result<Reply>) -> bool {
    matches!(reply, Err(FsError::NotSupported(_)))
}

#[test]
fn what_would_make_a_hole_is_refused_where_files_have_none_and_changes_nothing() {
    let w = World::new(|features| Features { holes: false, ..features });
    let ino = w.create("a");
    assert_eq!(w.write(ino, 0, 5000), Ok(Reply::Written(5000)));
    let before = w.attr(ino);
    let resized = |size| {
        let set = SetAttr { size: Some(size), ..SetAttr::default() };
        w.op(Op::SetAttr { ino, set })
    };
    let allocated = |mode| w.op(Op::Fallocate { ino, off: 0, len: 20_000, mode });
    for reply in [
        w.write(ino, 3 * 4096, 1),
        resized(9000),
        allocated(Fallocate::PunchHole),
        allocated(Fallocate::ZeroRange { keep_size: true }),
        allocated(Fallocate::Allocate { keep_size: false }),
    ] {
        assert!(is_unsupported(&reply), "{reply:?}");
    }
    assert_eq!(w.attr(ino), before);
    // Changes that make no hole succeed: within the last block, right after it, and truncation.
    assert!(resized(6000).is_ok() && w.write(ino, 8192, 1).is_ok() && resized(1).is_ok());
    let with_holes = World::new(|features| features);
    let ino = with_holes.create("a");
    assert_eq!(with_holes.write(ino, 3 * 4096, 1), Ok(Reply::Written(1)));
}

#[test]
fn extended_attributes_are_refused_where_inodes_have_none() {
    let w = World::new(|features| features);
    let (ino, name) = (w.create("a"), crate::Name::from(*b"user.x"));
    let set =
        Op::SetXattr { ino, name: name.clone(), value: (*b"1").into(), mode: Default::default() };
    let get = Op::GetXattr { ino, name: name.clone() };
    for op in [set, get, Op::ListXattr { ino }, Op::RemoveXattr { ino, name }] {
        assert!(is_unsupported(&w.op(op)));
    }
}

#[test]
fn an_inode_gets_no_more_names_and_no_finer_times_than_the_layout_has() {
    let w = World::new(|f| Features { link_max: 2, nanoseconds: false, seconds: (0, 99), ..f });
    let ino = w.create("a");
    let link = |name: &str| w.op(Op::Link { ino, dir: ROOT_INO, name: name.as_bytes().into() });
    assert!(link("b").is_ok());
    assert_eq!(link("c"), Err(FsError::TooManyLinks));
    let mtime = Some(SetTime::At(Timestamp { secs: 100, nanos: 5 }));
    let set = SetAttr { mtime, ..SetAttr::default() };
    assert!(w.op(Op::SetAttr { ino, set }).is_ok());
    assert_eq!(w.attr(ino).mtime, Timestamp { secs: 99, nanos: 0 });
}

#[test]
fn an_inode_that_there_is_no_room_to_free_is_freed_with_the_next() {
    let w = World::new(|features| features);
    let inos = ["a", "b"].map(|name| w.create(name));
    let orphans = || w.volume.layout.orphans.borrow().len();
    for (ino, name) in inos.into_iter().zip([*b"a", *b"b"]) {
        assert!(w.write(ino, 0, 100).is_ok());
        assert!(w.op(Op::Unlink { dir: ROOT_INO, name: name.into() }).is_ok());
        assert!(w.op(Op::Forget { ino, count: 1 }).is_ok());
    }
    assert_eq!(orphans(), 2);
    w.volume.layout.is_full.set(true);
    assert_eq!(w.op(Op::Release { ino: inos[0] }), Ok(Reply::Done));
    assert_eq!(orphans(), 2);
    w.volume.layout.is_full.set(false);
    assert_eq!(w.op(Op::Release { ino: inos[1] }), Ok(Reply::Done));
    assert_eq!(orphans(), 0);
    assert!(inos.into_iter().all(|ino| w.volume.core.cached_inode(ino).is_none()));
}

#[test]
fn a_directory_shows_its_entries_and_no_device_number() {
    let w = World::new(|features| Features { indexed_directories: true, ..features });
    w.create("a");
    let root = w.volume.core.cached_inode(ROOT_INO).unwrap();
    assert_eq!((root.d.borrow().entries, w.attr(ROOT_INO).rdev), (1, 0));
    let name = (*b"dev").into();
    let device = Op::MakeNode { dir: ROOT_INO, name, mode: mode::CHAR | 0o600, rdev: 0x501 };
    let Ok(Reply::Entry(entry)) = w.op(device) else { panic!("a device") };
    assert_eq!((entry.attr.rdev, root.d.borrow().entries), (0x501, 2));
}

impl World {
    fn append(&self, ino: Ino, expected: u64, byte: u8, len: usize) -> Result<Reply> {
        let data = Data::Bytes(Bytes::copy_of(&vec![byte; len]));
        self.op(Op::Append { ino, off: expected, data })
    }

    fn bytes(&self, ino: Ino) -> Vec<u8> {
        match self.op(Op::Read { ino, off: 0, len: 100_000 }) {
            Ok(Reply::Data(blocks)) => blocks.iter().flat_map(|b| b.to_bytes().to_vec()).collect(),
            other => panic!("{other:?}"),
        }
    }

    fn rename(&self, from: &str, to: &str, mode: RenameMode) -> Result<Reply> {
        let (name, to_name) = (from.as_bytes().into(), to.as_bytes().into());
        self.op(Op::Rename { dir: ROOT_INO, name, to_dir: ROOT_INO, to_name, mode })
    }
}

#[test]
fn an_append_goes_behind_the_end_that_the_file_has_then() {
    // Two clients that both believe the file to be empty, as a kernel beside a server does: the second
    // one wrote over what the first one had appended.
    let w = World::new(|features| features);
    let ino = w.create("log");
    assert_eq!(w.append(ino, 0, 1, 3), Ok(Reply::Written(3)));
    assert_eq!(w.write(ino, 3, 4), Ok(Reply::Written(4)));
    assert_eq!(w.append(ino, 3, 2, 2), Ok(Reply::Written(2)));
    assert_eq!(w.append(ino, 1 << 40, 3, 9000), Ok(Reply::Written(9000)));
    let mut expected = vec![1, 1, 1, 7, 7, 7, 7, 2, 2];
    expected.extend([3; 9000]);
    assert_eq!((w.attr(ino).size, w.bytes(ino)), (9009, expected));
}

#[test]
fn an_append_fails_only_where_it_would_end() {
    let w = World::new(|features| Features { file_bytes_max: 10, ..features });
    let ino = w.create("log");
    // What the client expected does not matter.
    assert_eq!(w.append(ino, u64::MAX, 1, 9), Ok(Reply::Written(9)));
    assert_eq!(w.append(ino, 0, 1, 2), Err(FsError::FileTooBig));
    assert_eq!(w.write(ino, 10, 1), Err(FsError::FileTooBig));
    assert_eq!((w.attr(ino).size, w.append(ino, 0, 1, 1)), (9, Ok(Reply::Written(1))));
}

#[test]
fn room_beyond_an_end_that_stays_is_refused_before_anything_is_changed() {
    // It was answered with success, and the write into it then found the volume full.
    let w = World::new(|features| features);
    let ino = w.create("a");
    assert_eq!(w.write(ino, 0, 5000), Ok(Reply::Written(5000)));
    let before = w.attr(ino);
    let allocate = |off, len, mode| w.op(Op::Fallocate { ino, off, len, mode });
    for (off, len) in [(5000, 1), (0, 5001), (4999, 2), (8192, 4096), (1 << 30, 4096)] {
        for mode in
            [Fallocate::Allocate { keep_size: true }, Fallocate::ZeroRange { keep_size: true }]
        {
            let reply = allocate(off, len, mode);
            assert!(is_unsupported(&reply), "{off} {len} {mode:?}: {reply:?}");
        }
    }
    assert_eq!((w.attr(ino), w.bytes(ino)), (before, vec![7; 5000]));
    // A hole needs no room, wherever it is.
    assert_eq!(allocate(8192, 4096, Fallocate::PunchHole), Ok(Reply::Done));
    assert_eq!(allocate(0, 5000, Fallocate::Allocate { keep_size: true }), Ok(Reply::Done));
}

#[test]
fn a_range_that_was_made_zero_has_its_room() {
    let w = World::new(|features| features);
    let ino = w.create("a");
    let size = Some(5 * 4096);
    assert!(w.op(Op::SetAttr { ino, set: SetAttr { size, ..SetAttr::default() } }).is_ok());
    assert_eq!(w.write(ino, 4096, 4096), Ok(Reply::Written(4096)));
    assert_eq!(w.attr(ino).blocks, 8);
    let mode = Fallocate::ZeroRange { keep_size: true };
    assert_eq!(w.op(Op::Fallocate { ino, off: 100, len: 8000, mode }), Ok(Reply::Done));
    // Two blocks, the first of which was a hole; the end of the second one was not meant.
    let mut expected = vec![0; 8100];
    expected.extend([7; 92]);
    expected.resize(5 * 4096, 0);
    assert_eq!((w.attr(ino).blocks, w.bytes(ino)), (16, expected));
    let mode = Fallocate::ZeroRange { keep_size: false };
    assert_eq!(w.op(Op::Fallocate { ino, off: 0, len: 6 * 4096, mode }), Ok(Reply::Done));
    assert_eq!((w.attr(ino).blocks, w.bytes(ino)), (48, vec![0; 6 * 4096]));
}

#[test]
fn a_whiteout_that_must_replace_nothing_replaces_nothing() {
    let w = World::new(|features| features);
    let ino = w.create("a");
    w.create("c");
    let how = RenameMode::WhiteoutNoReplace;
    assert_eq!(w.rename("a", "c", how), Err(FsError::Exists));
    assert_eq!(w.rename("a", "b", how), Ok(Reply::Done));
    let found = |name: &str| match w.op(Op::Lookup { dir: ROOT_INO, name: name.as_bytes().into() })
    {
        Ok(Reply::Entry(entry)) => (entry.attr.ino, entry.attr.mode & mode::TYPE),
        other => panic!("{other:?}"),
    };
    assert_eq!(found("b"), (ino, mode::REGULAR));
    assert_eq!(found("a").1, mode::CHAR);
}

#[test]
fn data_is_written_before_a_file_takes_the_place_of_another() {
    // An editor's or a package manager's rename without an fsync: after a crash the name was empty.
    for settings in [Settings::default(), Settings::default().mounted()] {
        let asks = settings.durable_within_ns.is_some();
        let w = World::with(|features| features, settings);
        let inos = ["a", "b", "c"].map(|name| w.create(name));
        let name = (*b"d").into();
        assert!(w.op(Op::MakeDir { dir: ROOT_INO, name, mode: 0o755 }).is_ok());
        for (from, to, mode) in [
            ("a", "new", RenameMode::Replace),
            ("new", "a", RenameMode::NoReplace),
            ("a", "b", RenameMode::Exchange),
            ("c", "d/", RenameMode::Replace),
        ] {
            let _ = w.rename(from, to, mode);
        }
        assert_eq!(*w.volume.layout.replacing.borrow(), []);
        assert_eq!(w.rename("c", "a", RenameMode::Replace), Ok(Reply::Done));
        let expected: &[Ino] = if asks { &inos[2..] } else { &[] };
        assert_eq!(*w.volume.layout.replacing.borrow(), expected);
    }
}

#[test]
fn a_name_is_known_without_waiting_while_its_directory_is_in_memory() {
    let w = World::new(|features| features);
    let ino = w.create("a");
    let peek = |name: &[u8]| w.volume.peek(ROOT_INO, name);
    assert_eq!((peek(b"a"), peek(b"b")), (Peeked::LeadsTo(ino), Peeked::Absent));
    assert_eq!(w.volume.peek(ino, b"a"), Peeked::Unknown);
    assert_eq!(w.volume.peek(12_345, b"a"), Peeked::Unknown);
}
