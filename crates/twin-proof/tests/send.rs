//! Random trees on a log, with snapshots between random changes: a whole stream and increments, applied to a model and to
//! another volume, give the tree of each snapshot, wherever one was cut off and applied again.

use std::rc::Rc;

use twin_disk::MemDisk;
use twin_fs::snapshots::Keep;
use twin_fs::{
    Cpu, Fallocate, FileSystem, FsError, Op, ROOT_INO, Reply, Request, SetAttr, SetTime, Settings,
    SnapshotView, Timestamp, Volume, VolumeOf, mode,
};
use twin_lfs::{LFS, Lfs, LfsSettings, MkfsOptions};
use twin_model::generate::{Generator, WorkloadParams};
use twin_model::{Compare, Dump, ModelFs, Mounted, diff, dump};
use twin_rt::{ClockOnly, Rng, Rt, Time};
use twin_send::{
    Header, MARK_ATTRIBUTE, Reader, ReceiveError, Receiver, Record, Refusal, StateId, Totals,
    Writer, send,
};

const SIZE: u64 = 48 << 20;
const CACHE_BYTES: u64 = 4 << 20;

struct World {
    rt: Rt,
    volume: VolumeOf<Lfs>,
}

fn world(options: &MkfsOptions) -> World {
    let rt = Rt::new(ClockOnly::default(), 1);
    let disk = Rc::new(MemDisk::new(SIZE));
    rt.block_on(Lfs::mkfs(&rt, Rc::clone(&disk) as _, options)).unwrap().unwrap();
    let settings = Settings { expand_stamps: true, ..Settings::default() };
    let opening = Lfs::open(&rt, disk as _, Cpu::none(), settings, LfsSettings::default());
    let volume = rt.block_on(opening).unwrap().unwrap().0;
    World { rt, volume }
}

impl World {
    /// Random changes by clients.
    fn change(&self, generator: &mut Generator, count: usize) {
        for _ in 0..count {
            let request = generator.next();
            let reply = self.rt.block_on(self.volume.execute(request.clone())).unwrap();
            assert!(!reply.as_ref().is_err_and(FsError::is_damage), "{request:?}: {reply:?}");
            generator.learn(&request, &reply);
        }
    }

    fn keep(&self, name: &str) {
        let keeping = self.volume.layout.keep(self.volume.core(), name, Keep::Snapshot);
        self.rt.block_on(keeping).unwrap().unwrap();
    }

    fn state(&self, name: &str) -> (Volume, StateId) {
        let states = self.volume.layout.states(self.volume.core()).states;
        let state = states.iter().find(|state| state.name == name).unwrap();
        let opened = self.rt.block_on(self.volume.open_state(name, CACHE_BYTES)).unwrap().unwrap();
        let id =
            StateId { volume: [1; 16], id: state.id, time_ns: state.time.0, name: name.into() };
        (opened, id)
    }

    fn stream(&self, base: Option<&str>, name: &str) -> (Vec<u8>, Totals) {
        let base = base.map(|base| self.state(base));
        let (state, id) = self.state(name);
        let header = Header { state: id, base: base.as_ref().map(|(_, id)| id.clone()) };
        let mut writer = Writer::new();
        let mut bytes = writer.write(&Record::Header(header)).unwrap();
        let shared = base.as_ref().and_then(|(base, _)| LFS.shared(base, &state));
        let mut out = |record: Record| {
            bytes.extend(writer.write(&record).map_err(|error| error.to_string())?);
            Ok(())
        };
        let base = base.as_ref().map(|(base, _)| base);
        let sending = send(base, &state, shared.as_deref(), &mut out);
        self.rt.block_on(sending).unwrap().unwrap();
        bytes.extend(writer.end().unwrap());
        (bytes, writer.totals())
    }
}

/// Applies the records of a stream, and gives what its end says.
async fn receive<F: FileSystem>(fs: F, bytes: &[u8]) -> Result<(), String> {
    let (mut reader, mut receiver) = (Reader::new(), Receiver::new(fs));
    for piece in bytes.chunks(10_000) {
        reader.push(piece);
        while let Some(record) = reader.next_record().map_err(|error| error.to_string())? {
            receiver.apply(record).await.map_err(|error| error.to_string())?;
        }
    }
    reader.finish().map_err(|error| error.to_string())
}

fn tree<F: FileSystem>(rt: &Rt, fs: &F) -> Dump {
    let mut tree = rt.block_on(dump(fs, &mut 1)).unwrap().unwrap();
    for node in tree.nodes.values_mut() {
        node.xattrs.remove(MARK_ATTRIBUTE);
        (node.attr.atime, node.attr.ctime, node.attr.btime) = Default::default();
        if node.attr.kind() == mode::SYMLINK {
            node.attr.mode = mode::SYMLINK;
        }
    }
    tree
}

fn assert_same(a: &Dump, b: &Dump, what: &str) {
    let names = ["snapshot", "copy"];
    if let Some(difference) = diff(a, b, names, &Compare::default()) {
        panic!("{what}: {difference}");
    }
}

fn round(options: &MkfsOptions, workload: &str, seed: u64) {
    let what = format!("{workload}, seed {seed}");
    let world = world(options);
    let params = WorkloadParams { far_size_max: 1 << 22, ..WorkloadParams::default() };
    let mut generator = Generator::new(workload, params, seed).unwrap();
    let mut rng = Rng::new(seed);
    let model = Rc::new(Mounted::new(
        world.rt.clone(),
        ModelFs::new(twin_model::Settings::default(), Time(0)),
    ));
    let target = self::world(&MkfsOptions::modern([2; 16]));
    let mut base: Option<String> = None;
    for n in 0..4 {
        let name = format!("s{n}");
        world.change(&mut generator, 200 + rng.below(400) as usize);
        world.keep(&name);
        let (bytes, totals) = world.stream(base.as_deref(), &name);
        assert!(totals.records > 1);
        // Cut somewhere, and again from the beginning.
        for _ in 0..2 {
            let cut = &bytes[..rng.below(bytes.len() as u64) as usize];
            let error = world.rt.block_on(receive(Rc::clone(&model), cut)).unwrap();
            assert!(error.is_err_and(|error| error.contains("cut off")), "{what}");
        }
        world.rt.block_on(receive(Rc::clone(&model), &bytes)).unwrap().unwrap();
        let volume: &Volume = &target.volume;
        target.rt.block_on(receive(volume.clone(), &bytes)).unwrap().unwrap();
        let expected = tree(&world.rt, &world.state(&name).0);
        assert_same(&expected, &tree(&world.rt, &model), &format!("{what}, {name}, model"));
        assert_same(&expected, &tree(&target.rt, volume), &format!("{what}, {name}, volume"));
        base = Some(name);
    }
}

#[test]
fn whole_streams_and_increments_give_the_trees_of_the_snapshots() {
    for seed in 0..6 {
        for workload in ["mixed", "metadata", "overwrite", "acls"] {
            round(&MkfsOptions::modern([1; 16]), workload, seed);
        }
        round(&MkfsOptions::classic([1; 16]), "metadata", seed);
    }
}

#[test]
fn an_increment_without_changes_is_small_and_one_reads_what_differs() {
    let world = world(&MkfsOptions::modern([1; 16]));
    let params = WorkloadParams::default();
    let mut generator = Generator::new("mixed", params, 3).unwrap();
    world.change(&mut generator, 1000);
    world.keep("a");
    world.keep("b");
    let (_, all) = world.stream(None, "a");
    let (_, none) = world.stream(Some("a"), "b");
    assert!(all.data_bytes > 10_000, "{all:?}");
    assert_eq!(none, Totals { records: 1, data_bytes: 0 });
    let name = b"large".as_slice();
    let run = |op| world.rt.block_on(world.volume.execute(Request::root(9999, op))).unwrap();
    let create = Op::Create { dir: ROOT_INO, name: name.into(), mode: 0o644, exclusive: true };
    let Ok(Reply::Entry(made)) = run(create) else { panic!("no file") };
    let write = |off: u64, len: usize, byte: u8| {
        let data = twin_fs::Data::Bytes(twin_disk::Bytes::copy_of(&vec![byte; len]));
        run(Op::Write { ino: made.attr.ino, off, data }).unwrap();
    };
    write(0, 2_000_000, 1);
    world.keep("c");
    write(1_000_000, 10, 2);
    world.keep("d");
    let (_, changed) = world.stream(Some("c"), "d");
    assert!((10..100_000).contains(&changed.data_bytes), "{changed:?}");
}

#[test]
fn a_stream_that_does_not_belong_there_changes_nothing() {
    let world = world(&MkfsOptions::modern([1; 16]));
    let mut generator = Generator::new("mixed", WorkloadParams::default(), 5).unwrap();
    for name in ["a", "b", "c"] {
        world.change(&mut generator, 300);
        world.keep(name);
    }
    let (whole, _) = world.stream(None, "a");
    let (increment, _) = world.stream(Some("b"), "c");
    let model = || {
        let empty = ModelFs::new(twin_model::Settings::default(), Time(0));
        Rc::new(Mounted::new(world.rt.clone(), empty))
    };
    let copy = model();
    let received =
        |fs: &Rc<Mounted>, bytes: &[u8]| world.rt.block_on(receive(Rc::clone(fs), bytes)).unwrap();
    assert!(received(&copy, &increment).is_err());
    assert_eq!(copy.snapshot().dump(), model().snapshot().dump());
    received(&copy, &whole).unwrap();
    let before = copy.snapshot().dump();
    for refused in [&whole, &increment] {
        assert!(received(&copy, refused).is_err());
        assert_eq!(copy.snapshot().dump(), before);
    }
    let mut damaged = whole.clone();
    damaged[40] ^= 1;
    let fresh = model();
    assert!(received(&fresh, &damaged).is_err());
    assert_eq!(fresh.snapshot().dump(), model().snapshot().dump());
    let needed = ReceiveError::Refused(Refusal::NotEmpty).to_string();
    assert!(needed.contains("empty"), "{needed}");
}

/// Changes that random clients hardly make: a hole in a file that stays as long, a directory whose time is set back after a
/// change, a name that leads to another inode with the same content.
#[test]
fn holes_times_that_are_set_back_and_links_that_look_alike_are_sent() {
    let world = world(&MkfsOptions::modern([1; 16]));
    let run = |op| world.rt.block_on(world.volume.execute(Request::root(7, op))).unwrap().unwrap();
    let made = |op| match run(op) {
        Reply::Entry(entry) => entry.attr.ino,
        other => panic!("{other:?}"),
    };
    let create = |dir, name: &[u8]| {
        made(Op::Create { dir, name: name.into(), mode: 0o644, exclusive: true })
    };
    let write = |ino, len: usize| {
        let data = twin_fs::Data::Bytes(twin_disk::Bytes::copy_of(&vec![7; len]));
        run(Op::Write { ino, off: 0, data });
    };
    let set_back = |ino| {
        let time = Some(SetTime::At(Timestamp { secs: 77, nanos: 0 }));
        run(Op::SetAttr { ino, set: SetAttr { mtime: time, ..SetAttr::default() } });
    };
    let dir = made(Op::MakeDir { dir: ROOT_INO, name: b"dir".as_slice().into(), mode: 0o755 });
    let holed = create(dir, b"holed");
    write(holed, 100_000);
    let one = create(dir, b"one");
    write(one, 5000);
    run(Op::Link { ino: one, dir, name: b"two".as_slice().into() });
    [one, holed, dir].into_iter().for_each(set_back);
    world.keep("a");
    run(Op::Fallocate { ino: holed, off: 40_960, len: 8192, mode: Fallocate::PunchHole });
    run(Op::Unlink { dir, name: b"two".as_slice().into() });
    let two = create(dir, b"two");
    write(two, 5000);
    [two, holed, dir].into_iter().for_each(set_back);
    world.keep("b");
    let empty = ModelFs::new(twin_model::Settings::default(), Time(0));
    let copy = Rc::new(Mounted::new(world.rt.clone(), empty));
    for (base, name) in [(None, "a"), (Some("a"), "b")] {
        let (bytes, _) = world.stream(base, name);
        world.rt.block_on(receive(Rc::clone(&copy), &bytes)).unwrap().unwrap();
        let expected = tree(&world.rt, &world.state(name).0);
        assert_same(&expected, &tree(&world.rt, &copy), name);
    }
}

/// A stream can name a path that is below a symbolic link of an earlier record, and does not come through it.
#[test]
fn nothing_is_made_below_a_symbolic_link() {
    let world = world(&MkfsOptions::modern([1; 16]));
    let state = StateId { volume: [1; 16], id: 1, time_ns: 1, name: "s".into() };
    let mut writer = Writer::new();
    let path = |path: &[u8]| path.to_vec();
    let records = [
        Record::Header(Header { state, base: None }),
        Record::Directory(path(b"inside")),
        Record::Symlink { path: path(b"link"), target: path(b"inside") },
        Record::File { path: path(b"link/file"), size: 0 },
    ];
    let mut bytes: Vec<u8> = records.iter().flat_map(|r| writer.write(r).unwrap()).collect();
    bytes.extend(writer.end().unwrap());
    let fs: &Volume = &world.volume;
    let error = world.rt.block_on(receive(fs.clone(), &bytes)).unwrap().unwrap_err();
    assert!(error.starts_with("link/file: "), "{error}");
    let tree = tree(&world.rt, fs);
    assert_eq!(tree.nodes.len(), 3, "{:?}", tree.nodes.keys());
}
