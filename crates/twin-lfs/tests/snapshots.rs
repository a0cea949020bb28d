//! Snapshots and branches of a volume: each keeps what it had, and gives back what only it needed.

use crate::common::{World, both_profiles};
use twin_fs::SnapshotView;
use twin_fs::snapshots::{Difference, HeadChange, Keep, StateKind};
use twin_fs::{Cpu, FsError, Op, ROOT_INO, Reply, Request, Settings, Volume};
use twin_lfs::format::{SnapshotsFile, Superblock};
use twin_lfs::{LFS, Lfs, MkfsOptions, check};
use twin_rt::{ClockOnly, Rt};

const SIZE: u64 = 32 << 20;

fn keep(world: &World, name: &str, what: Keep) -> Result<(), FsError> {
    let (volume, rt) = (&world.volume, &world.rt);
    rt.block_on(volume.layout.keep(volume.core(), name, what)).unwrap()
}

fn delete(world: &World, names: &[&str]) -> Result<(), FsError> {
    let names: Vec<String> = names.iter().map(ToString::to_string).collect();
    let (volume, rt) = (&world.volume, &world.rt);
    rt.block_on(volume.layout.delete(volume.core(), &names)).unwrap()
}

fn view(world: &World, name: &str) -> Result<Volume, FsError> {
    let (volume, rt) = (&world.volume, &world.rt);
    rt.block_on(volume.open_state(name, 1 << 20)).unwrap()
}

fn read(world: &World, volume: &Volume, name: &str) -> Result<Vec<u8>, FsError> {
    let execute = |op| world.rt.block_on(volume.execute(Request::root(1, op))).unwrap();
    let Reply::Entry(entry) = execute(Op::Lookup { dir: ROOT_INO, name: name.as_bytes().into() })?
    else {
        panic!("no entry")
    };
    match execute(Op::Read { ino: entry.attr.ino, off: 0, len: entry.attr.size as u32 })? {
        Reply::Data(blocks) => Ok(blocks.iter().flat_map(|b| b.to_bytes().to_vec()).collect()),
        other => panic!("{other:?}"),
    }
}

fn pattern(seed: u64, len: usize) -> Vec<u8> {
    let mut rng = twin_rt::Rng::new(seed);
    (0..len).map(|_| rng.next_u64() as u8).collect()
}

/// Overwrites a file of its own until the log has gone around the volume, and cleans.
fn churn(world: &mut World, name: &str, times: u64) {
    let ino = world.create(name);
    for round in 0..times {
        world.write(ino, round % 7 * 65_536, &pattern(round, 256 << 10));
        if round % 16 == 0 {
            let (volume, rt) = (world.volume.clone(), world.rt.clone());
            rt.block_on(volume.layout.clean(volume.core(), 64, 0.1)).unwrap().unwrap();
        }
    }
}

fn free_bytes(world: &World) -> u64 {
    let stat = world.volume.stat();
    stat.free * u64::from(stat.block_size)
}

fn set_head(world: World, change: HeadChange) -> (World, Result<(), FsError>) {
    world.rt.block_on(world.volume.close()).unwrap().unwrap();
    world.rt.crash();
    let rt = Rt::new(ClockOnly::default(), 5);
    let done = rt.block_on(Lfs::set_head(&rt, world.disk.clone(), &change)).unwrap();
    rt.crash();
    world.assert_clean();
    (world.crash(), done)
}

#[test]
fn a_snapshot_has_what_was_there_whatever_is_written_and_cleaned_afterwards() {
    both_profiles(|options| {
        let mut world = World::new(&options, SIZE);
        let (a, b) = (pattern(1, 300_000), pattern(2, 70_000));
        for (name, content) in [("a", &a), ("b", &b)] {
            let ino = world.create(name);
            world.write(ino, 0, content);
        }
        keep(&world, "before", Keep::Snapshot).unwrap();
        let ino = world.lookup("a");
        world.write(ino, 100_000, &pattern(3, 50_000));
        world.op(Op::Unlink { dir: ROOT_INO, name: b"b".as_slice().into() });
        churn(&mut world, "churn", 200);
        for reopened in [false, true] {
            if reopened {
                world = world.reopen();
            }
            let before = view(&world, "before").unwrap();
            assert_eq!(read(&world, &before, "a").unwrap(), a);
            assert_eq!(read(&world, &before, "b").unwrap(), b);
            assert!(read(&world, &before, "churn").is_err());
            assert!(read(&world, &world.volume, "b").is_err());
        }
        let world = world.reopen();
        world.rt.block_on(world.volume.close()).unwrap().unwrap();
        world.assert_clean();
    });
}

#[test]
fn deleting_a_snapshot_gives_back_what_only_it_needed() {
    both_profiles(|options| {
        let mut world = World::new(&options, SIZE);
        let ino = world.create("a");
        world.write(ino, 0, &pattern(1, 4 << 20));
        let free = free_bytes(&world);
        keep(&world, "s", Keep::Snapshot).unwrap();
        world.resize(ino, 0);
        world.rt.block_on(world.volume.layout.clean(world.volume.core(), 1, 0.5)).unwrap().unwrap();
        assert!(free_bytes(&world) < free + (256 << 10), "what the snapshot needs is not free");
        delete(&world, &["s"]).unwrap();
        assert!(free_bytes(&world) >= free + (4 << 20));
        let world = world.reopen();
        assert!(free_bytes(&world) >= free + (4 << 20));
        world.assert_clean();
    });
}

#[test]
fn names_are_unique_and_what_is_read_or_is_the_head_cannot_be_deleted() {
    let world = World::new(&MkfsOptions::modern([1; 16]), SIZE);
    keep(&world, "s", Keep::Snapshot).unwrap();
    assert_eq!(keep(&world, "s", Keep::Branch), Err(FsError::Exists));
    assert_eq!(keep(&world, "main", Keep::Snapshot), Err(FsError::Exists));
    assert!(matches!(keep(&world, "a/b", Keep::Snapshot), Err(FsError::Invalid(_))));
    assert_eq!(keep(&world, "t", Keep::BranchOf("nobody".into())), Err(FsError::NotFound));
    assert_eq!(delete(&world, &["main"]), Err(FsError::Busy));
    assert_eq!(delete(&world, &["s", "nobody"]), Err(FsError::NotFound));
    let open = view(&world, "s").unwrap();
    assert_eq!(delete(&world, &["s"]), Err(FsError::Busy));
    drop(open);
    assert_eq!(delete(&world, &["s", "s"]), Ok(()));
    assert_eq!(world.volume.layout.states(world.volume.core()).states.len(), 1);
    world.assert_clean();
}

#[test]
fn a_rollback_brings_back_what_was_there_and_frees_the_rest() {
    both_profiles(|options| {
        let mut world = World::new(&options, SIZE);
        let a = pattern(1, 200_000);
        let ino = world.create("a");
        world.write(ino, 0, &a);
        keep(&world, "s", Keep::Snapshot).unwrap();
        let free = free_bytes(&world);
        world.write(ino, 0, &pattern(2, 1 << 20));
        churn(&mut world, "churn", 20);
        let (mut world, done) = set_head(world, HeadChange::Rollback("s".into()));
        assert_eq!(done, Ok(()));
        assert_eq!(read(&world, &world.volume, "a").unwrap(), a);
        assert!(read(&world, &world.volume, "churn").is_err());
        assert!(free_bytes(&world).abs_diff(free) < 256 << 10, "{} {free}", free_bytes(&world));
        churn(&mut world, "churn", 100);
        delete(&world, &["s"]).unwrap();
        assert_eq!(read(&world, &world.volume, "a").unwrap(), a);
        let world = world.reopen();
        assert_eq!(read(&world, &world.volume, "a").unwrap(), a);
        world.assert_clean();
    });
}

#[test]
fn branches_go_on_apart_and_share_what_neither_changed() {
    both_profiles(|options| {
        let mut world = World::new(&options, SIZE);
        let (shared, one) = (pattern(1, 1 << 20), pattern(2, 100_000));
        let ino = world.create("shared");
        world.write(ino, 0, &shared);
        let free = free_bytes(&world);
        keep(&world, "s", Keep::Snapshot).unwrap();
        keep(&world, "work", Keep::BranchOf("s".into())).unwrap();
        assert!(free - free_bytes(&world) < 1 << 20, "a branch takes no copy");
        let ino = world.create("one");
        world.write(ino, 0, &one);
        let (world, refused) = set_head(world, HeadChange::Switch("s".into()));
        assert!(matches!(refused, Err(FsError::Invalid(_))), "a snapshot cannot go on");
        let (mut world, done) = set_head(world, HeadChange::Switch("work".into()));
        assert_eq!(done, Ok(()));
        let ino = world.create("two");
        world.write(ino, 0, &pattern(3, 5000));
        assert!(read(&world, &world.volume, "one").is_err());
        churn(&mut world, "churn", 50);
        let (world, done) = set_head(world, HeadChange::Switch("main".into()));
        assert_eq!(done, Ok(()));
        assert_eq!(read(&world, &world.volume, "one").unwrap(), one);
        assert!(read(&world, &world.volume, "two").is_err());
        let states = world.volume.layout.states(world.volume.core()).states;
        let kinds: Vec<_> = states.iter().map(|state| (state.name.as_str(), state.kind)).collect();
        let expected =
            [("main", StateKind::Head), ("s", StateKind::Snapshot), ("work", StateKind::Branch)];
        assert_eq!(kinds, expected);
        let work = view(&world, "work").unwrap();
        assert_eq!(read(&world, &work, "shared").unwrap(), shared);
        drop(work);
        delete(&world, &["work", "s"]).unwrap();
        assert_eq!(read(&world, &world.volume, "shared").unwrap(), shared);
        world.assert_clean();
    });
}

#[test]
fn a_full_volume_refuses_a_snapshot_and_what_would_overwrite_one() {
    let mut world = World::new(&MkfsOptions::modern([1; 16]), 16 << 20);
    let ino = world.create("a");
    let write = |world: &mut World, at: u64, seed: u64| {
        let data = twin_fs::Data::Bytes(twin_disk::Bytes::copy_of(&pattern(seed, 64 << 10)));
        world.try_op(Op::Write { ino, off: at, data })
    };
    for at in 0..128 {
        write(&mut world, at << 16, 1).unwrap();
    }
    keep(&world, "s", Keep::Snapshot).unwrap();
    let refused = (0..128).map(|at| write(&mut world, at << 16, 2)).find_map(Result::err);
    assert_eq!(refused, Some(FsError::NoSpace), "old and new do not fit");
    assert_eq!(keep(&world, "t", Keep::Snapshot), Err(FsError::NoSpace));
    world.op(Op::Fsync { ino, data_only: false });
    delete(&world, &["s"]).unwrap();
    for at in 0..128 {
        write(&mut world, at << 16, 3).unwrap();
    }
    let world = world.reopen();
    world.assert_clean();
}

#[test]
fn an_older_program_does_not_write_a_volume_with_snapshots() {
    let world = World::new(&MkfsOptions::modern([1; 16]), SIZE);
    let must_write = |world: &World| {
        let reading = twin_lfs::read_superblock(&*world.disk);
        world.rt.block_on(reading).unwrap().unwrap().must_write
    };
    assert_eq!(must_write(&world), 0);
    keep(&world, "s", Keep::Snapshot).unwrap();
    assert_eq!(must_write(&world), twin_lfs::format::HAS_SNAPSHOTS);
    let world = world.reopen();
    world.assert_clean();
}

#[test]
fn the_records_of_hundreds_of_snapshots_come_and_go() {
    let mut world = World::new(&MkfsOptions::modern([1; 16]), SIZE);
    let free = free_bytes(&world);
    let ino = world.create("a");
    let mut contents = Vec::new();
    for n in 0..150u64 {
        let content = pattern(n, 3000);
        world.write(ino, 0, &content);
        keep(&world, &format!("s{n}"), Keep::Snapshot).unwrap();
        contents.push(content);
    }
    let mut world = world.reopen();
    world.assert_clean();
    for n in (0..150).step_by(7) {
        let volume = view(&world, &format!("s{n}")).unwrap();
        assert_eq!(read(&world, &volume, "a").unwrap(), contents[n]);
    }
    let mut rng = twin_rt::Rng::new(1);
    let mut left: Vec<usize> = (0..150).collect();
    while !left.is_empty() {
        let n = left.swap_remove(rng.below(left.len() as u64) as usize);
        delete(&world, &[&format!("s{n}")]).unwrap();
        if let Some(&other) = left.first() {
            let volume = view(&world, &format!("s{other}")).unwrap();
            assert_eq!(read(&world, &volume, "a").unwrap(), contents[other]);
        }
    }
    world.op(Op::Unlink { dir: ROOT_INO, name: b"a".as_slice().into() });
    let world = world.reopen();
    assert!(free_bytes(&world).abs_diff(free) < 64 << 10);
    let settings = Settings { read_only: true, ..Settings::default() };
    let opening =
        Lfs::open(&world.rt, world.disk.clone(), Cpu::none(), settings, Default::default());
    drop(world.rt.block_on(opening).unwrap().unwrap());
    world.assert_clean();
}

#[test]
fn a_difference_names_what_was_added_removed_and_changed_and_nothing_else() {
    both_profiles(|options| {
        let mut world = World::new(&options, SIZE);
        let differences = |world: &World, from: &Volume, to: &Volume| -> Vec<String> {
            let found = world.rt.block_on(LFS.differences(from, to)).unwrap().unwrap();
            let text =
                |d: &Difference| format!("{:?} {}", d.change, String::from_utf8_lossy(&d.path));
            found.iter().map(text).collect()
        };
        let mkdir = |world: &mut World, name: &str| {
            world.op(Op::MakeDir { dir: ROOT_INO, name: name.as_bytes().into(), mode: 0o755 })
        };
        for name in ["same", "gone", "grown", "touched", "was-file"] {
            let ino = world.create(name);
            world.write(ino, 0, &pattern(ino, 100_000));
        }
        mkdir(&mut world, "dir");
        keep(&world, "a", Keep::Snapshot).unwrap();
        let a = view(&world, "a").unwrap();
        keep(&world, "a2", Keep::Snapshot).unwrap();
        assert_eq!(differences(&world, &a, &view(&world, "a2").unwrap()), [""; 0]);
        let ino = world.lookup("grown");
        world.write(ino, 100_000, b"more");
        for name in ["gone", "was-file"] {
            world.op(Op::Unlink { dir: ROOT_INO, name: name.as_bytes().into() });
        }
        mkdir(&mut world, "was-file");
        let dir = world.lookup("dir");
        world.op(Op::MakeDir { dir, name: b"deep".as_slice().into(), mode: 0o700 });
        churn(&mut world, "new", 60);
        let ino = world.lookup("touched");
        let set = twin_fs::SetAttr { mode: Some(0o600), ..Default::default() };
        world.op(Op::SetAttr { ino, set });
        let expected = [
            "Added /dir/deep",
            "Removed /gone",
            "Changed /grown",
            "Added /new",
            "Changed /touched",
            "Added /was-file",
            "Removed /was-file",
        ];
        assert_eq!(differences(&world, &a, &world.volume), expected);
        keep(&world, "b", Keep::Snapshot).unwrap();
        assert_eq!(differences(&world, &a, &view(&world, "b").unwrap()), expected);
    });
}

/// A closed volume with a file and two snapshots of it, as bytes, and where the newest snapshots' file is.
fn with_two_snapshots(options: &MkfsOptions) -> (Vec<u8>, usize, Vec<u8>) {
    let mut world = World::new(options, SIZE);
    let content = pattern(1, 200_000);
    let ino = world.create("a");
    world.write(ino, 0, &content);
    keep(&world, "one", Keep::Snapshot).unwrap();
    world.write(ino, 0, &pattern(2, 100_000));
    keep(&world, "two", Keep::Snapshot).unwrap();
    world.rt.block_on(world.volume.close()).unwrap().unwrap();
    world.assert_clean();
    let bytes = world.disk.to_bytes();
    let records = |at: &usize| u32::from_le_bytes(bytes[at + 12..at + 16].try_into().unwrap());
    let mut files =
        (0..bytes.len()).step_by(512).filter(|&at| bytes[at..].starts_with(b"twinsnps"));
    let newest = files.rfind(|at| records(at) == 2).unwrap();
    (bytes.clone(), newest, content)
}

fn check_and_repair(bytes: Vec<u8>) -> (check::Report, check::Report, World) {
    let disk = std::rc::Rc::new(twin_disk::MemDisk::from_bytes(bytes));
    let rt = Rt::new(ClockOnly::default(), 6);
    let (options, mut ignore) = (check::CheckOptions { data: false }, |_| {});
    let found =
        rt.block_on(check::check(&rt, disk.clone(), &options, &mut ignore)).unwrap().unwrap();
    let repaired =
        rt.block_on(check::repair(&rt, disk.clone(), &options, &mut ignore)).unwrap().unwrap();
    rt.crash();
    let world = World::of_disk(disk);
    world.assert_clean();
    (found, repaired, world)
}

#[test]
fn a_repair_gives_up_a_snapshot_whose_table_is_lost_and_keeps_the_others() {
    let (mut bytes, at, content) = with_two_snapshots(&MkfsOptions::modern([1; 16]));
    let sb = Superblock::decode(&bytes, 0, SIZE).unwrap();
    let file = SnapshotsFile::decode(&sb, &bytes[at..at + 4096]).unwrap();
    let two = file.records.iter().find(|record| record.name == "two").unwrap();
    let table = (two.ifile.ptrs[0].addr * u64::from(sb.geometry.frag_size)) as usize;
    bytes[table..table + 4].copy_from_slice(&7u32.to_le_bytes());
    let (found, repaired, world) = check_and_repair(bytes);
    assert!(found.has(check::FindingKind::Snapshot), "{found}");
    assert!(repaired.losses.iter().any(|loss| loss.what.contains("\"two\"")), "{repaired}");
    let one = view(&world, "one").unwrap();
    assert_eq!(read(&world, &one, "a").unwrap(), content);
    assert!(view(&world, "two").is_err());
    drop(one);
    delete(&world, &["one"]).unwrap();
    world.assert_clean();
}

#[test]
fn a_repair_without_readable_records_gives_up_all_snapshots_and_their_space() {
    let (mut bytes, at, _) = with_two_snapshots(&MkfsOptions::modern([1; 16]));
    bytes[at + 20] ^= 1;
    let (found, repaired, world) = check_and_repair(bytes);
    assert!(found.has(check::FindingKind::Snapshot), "{found}");
    assert!(!repaired.losses.is_empty(), "{repaired}");
    let states = world.volume.layout.states(world.volume.core());
    assert_eq!((states.states.len(), states.held_bytes), (1, 0));
    assert_eq!(read(&world, &world.volume, "a").unwrap().len(), 200_000);
    keep(&world, "one", Keep::Snapshot).unwrap();
    world.assert_clean();
}

#[test]
fn pins_that_no_record_accounts_for_are_found_and_counted_anew() {
    // Without checksums on the usage table a wrong one can be written.
    let (mut bytes, at, _) = with_two_snapshots(&MkfsOptions::classic([1; 16]));
    let sb = Superblock::decode(&bytes, 0, SIZE).unwrap();
    let rt = Rt::new(ClockOnly::default(), 1);
    let disk = twin_disk::MemDisk::from_bytes(bytes.clone());
    let checkpoint = rt.block_on(twin_lfs::read_checkpoint(&disk, &sb)).unwrap().unwrap();
    let table = (checkpoint.ifile.ptrs[0].addr * u64::from(sb.geometry.frag_size)) as usize;
    let _ = at;
    let pins = u16::from_le_bytes([bytes[table + 6], bytes[table + 7]]);
    assert_eq!(pins, 2, "segment 0 has the root directory of both");
    bytes[table + 6] = 1;
    let (found, repaired, world) = check_and_repair(bytes);
    assert!(found.has(check::FindingKind::Usage) && !repaired.is_clean(), "{found}");
    assert!(repaired.losses.is_empty(), "{repaired}");
    delete(&world, &["one", "two"]).unwrap();
    world.assert_clean();
}
