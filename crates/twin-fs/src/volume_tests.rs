//! Tests of the layers above a minimal layout that keeps everything in memory and writes nothing.
//! It has few features, and a test can tell it to have no room.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::rc::Rc;

use twin_cache::Lbn;
use twin_disk::{Bytes, MemDisk};
use twin_rt::{BoxFuture, ClockOnly, Rt};

use crate::geometry::{Geometry, Ptr, UNWRITTEN};
use crate::{
    Admission, AdmissionGuard, Answer, Chosen, Core, Cpu, Data, Dirty, Fallocate, Features,
    Figures, FileSystem, FsError, Ino, Inode, InodeEvent, Layout, Need, Op, Peeked, Picked,
    ROOT_INO, RenameMode, Reply, Request, Result, Room, SetAttr, SetTime, Settings, SpaceMap,
    SyncScope, Timestamp, UpdateOrder, Views, VolumeOf, VolumeStat, mode,
};

/// The minimal layout. It only picks inode numbers, of which `last` was the latest, and records
/// orphans.
#[derive(Default)]
struct InMemory {
    last: Cell<Ino>,
    is_full: Cell<bool>,
    /// The next admission fails, and no other.
    refuses_once: Cell<bool>,
    admission: Admission,
    orphans: RefCell<BTreeSet<Ino>>,
    /// The files that were about to take the names of others.
    replacing: RefCell<Vec<Ino>>,
}

fn done<'a>() -> BoxFuture<'a, Result<()>> {
    Box::pin(std::future::ready(Ok(())))
}

impl Layout for InMemory {
    fn load_inode<'a>(&'a self, _: &'a Rc<Core>, _: Ino) -> BoxFuture<'a, Result<Rc<Inode>>> {
        Box::pin(std::future::ready(Err(FsError::NotFound)))
    }

    fn pick_inode<'a>(
        &'a self,
        _: &'a Rc<Core>,
        _near: Ino,
        _mode: u32,
    ) -> BoxFuture<'a, Result<Picked>> {
        self.last.set(self.last.get() + 1);
        Box::pin(std::future::ready(Ok(Picked { ino: self.last.get(), generation: 1 })))
    }

    fn inode_event(&self, core: &Core, event: InodeEvent<'_>) {
        let mut orphans = self.orphans.borrow_mut();
        match event {
            InodeEvent::Unpicked(_) | InodeEvent::Created(_) => {}
            InodeEvent::Orphaned(inode) => drop(orphans.insert(inode.ino)),
            InodeEvent::Adopted(inode) => drop(orphans.remove(&inode.ino)),
            InodeEvent::Freed(inode) => core.drop_inode(inode),
        }
    }

    fn admit<'a>(
        &'a self,
        _: &'a Rc<Core>,
        bytes: u64,
        _: Need,
    ) -> Answer<'a, Result<AdmissionGuard>> {
        let full = self.is_full.get() || self.refuses_once.take();
        let admitted = if full { Err(FsError::NoSpace) } else { Ok(self.admission.admit(bytes)) };
        Answer::ready(admitted)
    }

    fn reserve(&self, _: &Core, _bytes: u64) -> Result<()> {
        Ok(())
    }

    fn release(&self, _: &Core, _bytes: u64) {}

    fn place(&self, _: &Core, _: &Inode, _: Lbn, _old: Ptr, len: u32) -> Ptr {
        Ptr { addr: UNWRITTEN, len, crc: 0 }
    }

    fn free_block(&self, _: &Core, _: &Inode, _: Ptr, _len: u32) {}

    fn dirty(&self, _: &Core) -> Dirty {
        Dirty { unit_bytes: 4096, ..Dirty::default() }
    }

    fn write_back<'a>(
        &'a self,
        _: &'a Rc<Core>,
        _: Option<Vec<Chosen>>,
    ) -> BoxFuture<'a, Result<()>> {
        done()
    }

    fn drain<'a>(&'a self, _: &'a Rc<Core>, _durable: bool) -> BoxFuture<'a, Result<()>> {
        done()
    }

    fn sync<'a>(&'a self, _: &'a Rc<Core>, _: SyncScope<'a>) -> BoxFuture<'a, Result<()>> {
        done()
    }

    fn room(&self, _: &Core) -> Room {
        Room { free_bytes: 1 << 20, limit_bytes: 1 << 20 }
    }

    fn figures(&self, _: &Core) -> Figures {
        let stat = VolumeStat { block_size: 4096, free: 256, ..VolumeStat::default() };
        Figures { stat, written: crate::Written::default() }
    }

    fn space_map(&self, _: &Core) -> SpaceMap {
        SpaceMap::default()
    }

    fn views(&self) -> Views<'_> {
        Views { order: Some(self), ..Views::default() }
    }
}

impl UpdateOrder for InMemory {
    fn before_replace<'a>(
        &'a self,
        _: &'a Rc<Core>,
        source: &'a Rc<Inode>,
    ) -> BoxFuture<'a, Result<()>> {
        self.replacing.borrow_mut().push(source.ino);
        done()
    }

    fn relocate_tail(&self, _: &Core, _: &Inode, _: Lbn, ptr: Ptr) -> Ptr {
        ptr
    }
}

struct World {
    rt: Rt,
    volume: VolumeOf<InMemory>,
    asked: Cell<u64>,
}

impl World {
    fn new(change: impl FnOnce(Features) -> Features) -> World {
        World::with(change, Settings::default())
    }

    fn with(change: impl FnOnce(Features) -> Features, settings: Settings) -> World {
        let rt = Rt::new(ClockOnly::default(), 1);
        let geometry = Geometry::classic(4096, 1024);
        let features = Features { new_inode_bytes: 0, ..Features::of(&geometry) };
        let features = change(features);
        let device = Rc::new(MemDisk::new(1 << 20));
        let core =
            Core::new(rt.clone(), device, Cpu::none(), geometry, features, settings).unwrap();
        let layout = InMemory { last: Cell::new(ROOT_INO), ..InMemory::default() };
        let volume = VolumeOf::new(core, layout).unwrap();
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
    assert!(inos.into_iter().all(|ino| w.volume.core().cached_inode(ino).is_none()));
}

#[test]
fn a_directory_shows_its_entries_and_no_device_number() {
    let w = World::new(|features| Features { indexed_directories: true, ..features });
    w.create("a");
    let root = w.volume.core().cached_inode(ROOT_INO).unwrap();
    assert_eq!((root.d.borrow().entries, w.attr(ROOT_INO).rdev), (1, 0));
    let name = (*b"dev").into();
    let device = Op::MakeNode { dir: ROOT_INO, name, mode: mode::CHAR | 0o600, rdev: 0x501 };
    let Ok(Reply::Entry(entry)) = w.op(device) else { panic!("a device") };
    assert_eq!((entry.attr.rdev, root.d.borrow().entries), (0x501, 2));
}

/// The open held the inode while its truncation waited, so nobody else freed it.
#[test]
fn an_open_whose_truncation_fails_frees_what_it_was_the_last_user_of() {
    let w = World::new(|features| features);
    let ino = w.create("a");
    assert!(w.write(ino, 0, 100).is_ok());
    let inode = w.volume.core().cached_inode(ino).unwrap();
    let busy = w.rt.block_on(inode.lock.write()).unwrap();
    let opening = Op::Open { ino, read: false, write: true, truncate: true };
    let (volume, answer) = (w.volume.clone(), Rc::new(Cell::new(None)));
    let slot = Rc::clone(&answer);
    w.rt.spawn("open", async move {
        slot.set(Some(volume.execute(Request::root(1000, opening)).await));
    });
    let turns = |n| (0..n).for_each(|_| w.rt.block_on(w.rt.yield_now()).unwrap());
    turns(3);
    // While it waits for the inode, the last name goes, and the other open and the reference.
    assert!(w.op(Op::Unlink { dir: ROOT_INO, name: (*b"a").into() }).is_ok());
    assert!(w.op(Op::Release { ino }).is_ok() && w.op(Op::Forget { ino, count: 1 }).is_ok());
    w.volume.layout.refuses_once.set(true);
    drop((busy, inode));
    turns(20);
    assert_eq!(answer.take(), Some(Err(FsError::NoSpace)));
    assert!(w.volume.layout.orphans.borrow().is_empty());
    assert!(w.volume.core().cached_inode(ino).is_none());
}

/// One of each operation, on this inode, which is a file, with its place in the list.
fn every_op(ino: Ino) -> Vec<Op> {
    let name = || crate::Name::from(*b"x");
    let dir = ROOT_INO;
    vec![
        Op::Lookup { dir, name: name() },
        Op::Forget { ino, count: 0 },
        Op::GetAttr { ino },
        Op::SetAttr { ino, set: SetAttr::default() },
        Op::ReadLink { ino },
        Op::MakeNode { dir, name: name(), mode: mode::FIFO | 0o600, rdev: 0 },
        Op::MakeDir { dir, name: name(), mode: 0o700 },
        Op::Symlink { dir, name: name(), target: (*b"t").into() },
        Op::Create { dir, name: name(), mode: 0o600, exclusive: false },
        Op::Unlink { dir, name: name() },
        Op::RemoveDir { dir, name: name() },
        Op::Rename { dir, name: name(), to_dir: dir, to_name: name(), mode: Default::default() },
        Op::Link { ino, dir, name: name() },
        Op::Open { ino, read: true, write: false, truncate: true },
        Op::Release { ino },
        Op::Read { ino, off: 0, len: 1 },
        Op::Write { ino, off: 0, data: Data::Bytes(Bytes::copy_of(b"1")) },
        Op::Append { ino, off: 0, data: Data::Bytes(Bytes::copy_of(b"1")) },
        Op::WriteBack { ino, off: 0, data: Data::Bytes(Bytes::copy_of(b"1")) },
        Op::Fsync { ino, data_only: false },
        Op::ReadDir { dir, cookie: 0, max_bytes: 4096, plus: false },
        Op::StatFs,
        Op::Access { ino, mask: 4 },
        Op::SetXattr { ino, name: name(), value: (*b"1").into(), mode: Default::default() },
        Op::GetXattr { ino, name: name() },
        Op::ListXattr { ino },
        Op::RemoveXattr { ino, name: name() },
        Op::Fallocate { ino, off: 0, len: 1, mode: Fallocate::PunchHole },
        Op::Seek { ino, off: 0, what: crate::SeekFor::Data },
        Op::Sync,
    ]
}

/// The place of an operation in [`every_op`]. A new one does not compile before it has one.
fn place(op: &Op) -> usize {
    match op {
        Op::Lookup { .. } => 0,
        Op::Forget { .. } => 1,
        Op::GetAttr { .. } => 2,
        Op::SetAttr { .. } => 3,
        Op::ReadLink { .. } => 4,
        Op::MakeNode { .. } => 5,
        Op::MakeDir { .. } => 6,
        Op::Symlink { .. } => 7,
        Op::Create { .. } => 8,
        Op::Unlink { .. } => 9,
        Op::RemoveDir { .. } => 10,
        Op::Rename { .. } => 11,
        Op::Link { .. } => 12,
        Op::Open { .. } => 13,
        Op::Release { .. } => 14,
        Op::Read { .. } => 15,
        Op::Write { .. } => 16,
        Op::Append { .. } => 17,
        Op::WriteBack { .. } => 18,
        Op::Fsync { .. } => 19,
        Op::ReadDir { .. } => 20,
        Op::StatFs => 21,
        Op::Access { .. } => 22,
        Op::SetXattr { .. } => 23,
        Op::GetXattr { .. } => 24,
        Op::ListXattr { .. } => 25,
        Op::RemoveXattr { .. } => 26,
        Op::Fallocate { .. } => 27,
        Op::Seek { .. } => 28,
        Op::Sync => 29,
    }
}

#[test]
fn a_volume_that_has_stopped_refuses_every_operation_that_changes_it_and_makes_none_dirty() {
    let w = World::new(|features| features);
    let ino = w.create("a");
    w.volume.core().poison(FsError::inconsistent("for this test"));
    let before = (w.attr(ino), w.attr(ROOT_INO));
    for (nth, op) in every_op(ino).into_iter().enumerate() {
        assert_eq!(place(&op), nth);
        let (changes, said) = (op.changes_volume(), format!("{op:?}"));
        let reply = w.op(op);
        assert!(!changes || reply == Err(FsError::ReadOnly), "{said}: {reply:?}");
        // Whatever it says of itself, nothing has changed.
        assert_eq!((w.attr(ino), w.attr(ROOT_INO)), before, "{said}");
        assert_eq!(
            w.op(Op::Lookup { dir: ROOT_INO, name: (*b"x").into() }),
            Err(FsError::NotFound)
        );
    }
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
