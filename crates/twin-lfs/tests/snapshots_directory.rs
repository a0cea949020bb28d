//! The directory `.twinfs/snapshots`: what was kept is read below it, and nothing is changed there.

use crate::common::World;
use twin_fs::SnapshotView;
use twin_fs::snapshots::{Keep, is_below, is_volatile};
use twin_fs::{Data, DirEntry, FsError, Ino, LookupEntry, Op, ROOT_INO, Reply, SetAttr};
use twin_lfs::MkfsOptions;

fn world() -> World {
    World::new(&MkfsOptions::modern([7; 16]), 64 << 20)
}

fn keep(world: &World, name: &str) {
    let (volume, rt) = (&world.volume, &world.rt);
    rt.block_on(volume.layout.keep(volume.core(), name, Keep::Snapshot)).unwrap().unwrap();
}

fn delete(world: &World, names: &[&str]) -> Result<(), FsError> {
    let names: Vec<String> = names.iter().map(ToString::to_string).collect();
    world.rt.block_on(world.volume.delete_states(&names)).unwrap()
}

fn find(world: &mut World, dir: Ino, name: &str) -> Result<LookupEntry, FsError> {
    match world.try_op(Op::Lookup { dir, name: name.as_bytes().into() })? {
        Reply::Entry(entry) => Ok(entry),
        other => panic!("{other:?}"),
    }
}

/// The inode to which a path leads from the root.
fn walk(world: &mut World, path: &str) -> Result<Ino, FsError> {
    path.split('/').try_fold(ROOT_INO, |dir, name| Ok(find(world, dir, name)?.attr.ino))
}

fn read(world: &mut World, ino: Ino) -> Result<Vec<u8>, FsError> {
    match world.try_op(Op::Read { ino, off: 0, len: 1 << 20 })? {
        Reply::Data(blocks) => Ok(blocks.iter().flat_map(|b| b.to_bytes().to_vec()).collect()),
        other => panic!("{other:?}"),
    }
}

fn list(world: &mut World, dir: Ino, cookie: u64, max_bytes: u32) -> Vec<DirEntry> {
    match world.op(Op::ReadDir { dir, cookie, max_bytes, plus: true }) {
        Reply::Dir(entries) => entries,
        other => panic!("{other:?}"),
    }
}

fn names(entries: &[DirEntry]) -> Vec<String> {
    entries.iter().map(|entry| String::from_utf8_lossy(&entry.name).into_owned()).collect()
}

#[test]
fn a_file_is_read_as_it_was_in_each_state() {
    let mut world = world();
    world.op(Op::MakeDir { dir: ROOT_INO, name: (*b"d").into(), mode: 0o755 });
    let dir = walk(&mut world, "d").unwrap();
    world.op(Op::Create { dir, name: (*b"f").into(), mode: 0o644, exclusive: true });
    let file = walk(&mut world, "d/f").unwrap();
    for version in 0..3u8 {
        world.write(file, 0, &[version; 9000]);
        keep(&world, &format!("v{version}"));
    }
    for version in 0..3u8 {
        let ino = walk(&mut world, &format!(".twinfs/snapshots/v{version}/d/f")).unwrap();
        assert!(is_below(ino) && !is_volatile(ino));
        assert_eq!(read(&mut world, ino).unwrap(), [version; 9000]);
    }
    assert_eq!(walk(&mut world, ".twinfs/snapshots/v3"), Err(FsError::NotFound));
}

#[test]
fn the_way_up_leads_out_of_a_state() {
    let mut world = world();
    keep(&world, "s");
    for (path, leads_to) in [
        (".twinfs/snapshots/s/..", ".twinfs/snapshots"),
        (".twinfs/snapshots/..", ".twinfs"),
        (".twinfs/..", "."),
        (".twinfs/snapshots/s/.", ".twinfs/snapshots/s"),
    ] {
        assert_eq!(walk(&mut world, path), walk(&mut world, leads_to), "{path}");
    }
    let state = walk(&mut world, ".twinfs/snapshots/s").unwrap();
    let listed = list(&mut world, state, 0, 4096);
    assert_eq!(listed[1].ino, walk(&mut world, ".twinfs/snapshots").unwrap());
}

#[test]
fn the_directory_is_found_and_not_listed_and_lists_the_states() {
    let mut world = world();
    for name in ["b", "a", "c"] {
        keep(&world, name);
    }
    let root = list(&mut world, ROOT_INO, 0, 4096);
    assert_eq!(names(&root), [".", ".."]);
    let dir = walk(&mut world, ".twinfs").unwrap();
    let in_it = list(&mut world, dir, 0, 4096);
    assert_eq!(names(&in_it), [".", "..", "snapshots"]);
    // With room for one name at a time, while one of the states goes.
    let dir = walk(&mut world, ".twinfs/snapshots").unwrap();
    assert!(is_volatile(dir));
    let (mut all, mut cookie) = (Vec::new(), 0);
    loop {
        let some = list(&mut world, dir, cookie, 32);
        let Some(last) = some.last() else { break };
        cookie = last.next;
        all.extend(names(&some));
        if all.len() == 3 {
            delete(&world, &["b"]).unwrap();
        }
    }
    assert_eq!(all, [".", "..", "b", "a", "c"]);
    let too_little = Op::ReadDir { dir, cookie: 0, max_bytes: 31, plus: false };
    assert!(matches!(world.try_op(too_little), Err(FsError::Invalid(_))));
    let again = list(&mut world, dir, 0, 4096);
    assert_eq!(names(&again), [".", "..", "a", "c"]);
}

#[test]
fn nothing_below_it_can_be_changed() {
    let mut world = world();
    let file = world.create("f");
    world.write(file, 0, b"kept");
    keep(&world, "s");
    let state = walk(&mut world, ".twinfs/snapshots/s").unwrap();
    let all = walk(&mut world, ".twinfs/snapshots").unwrap();
    let kept = find(&mut world, state, "f").unwrap().attr.ino;
    let (name, other) = (b"f".as_slice(), b"g".as_slice());
    let rename = |dir, to_dir| Op::Rename {
        dir,
        name: name.into(),
        to_dir,
        to_name: other.into(),
        mode: Default::default(),
    };
    let refused = [
        Op::Write { ino: kept, off: 0, data: Data::Synthetic(4) },
        Op::WriteBack { ino: kept, off: 0, data: Data::Synthetic(4) },
        Op::SetAttr { ino: kept, set: SetAttr { size: Some(0), ..SetAttr::default() } },
        Op::Open { ino: kept, read: true, write: true, truncate: false },
        Op::Access { ino: kept, mask: 2 },
        Op::Unlink { dir: state, name: name.into() },
        Op::MakeDir { dir: all, name: other.into(), mode: 0o755 },
        Op::RemoveDir { dir: all, name: (*b"s").into() },
        Op::Link { ino: file, dir: state, name: other.into() },
        Op::Link { ino: kept, dir: state, name: other.into() },
        rename(state, state),
        rename(ROOT_INO, state),
    ];
    for op in refused {
        assert_eq!(world.try_op(op.clone()), Err(FsError::ReadOnly), "{op:?}");
    }
    let out = [Op::Link { ino: kept, dir: ROOT_INO, name: other.into() }, rename(state, ROOT_INO)];
    for op in out {
        assert_eq!(world.try_op(op.clone()), Err(FsError::CrossDevice), "{op:?}");
    }
    assert_eq!(read(&mut world, kept).unwrap(), b"kept");
}

#[test]
fn what_is_below_a_deleted_state_is_stale_also_for_one_of_the_same_name() {
    let mut world = world();
    let file = world.create("f");
    world.write(file, 0, b"first");
    keep(&world, "s");
    let first = walk(&mut world, ".twinfs/snapshots/s/f").unwrap();
    world.op(Op::Open { ino: first, read: true, write: false, truncate: false });
    delete(&world, &["s"]).unwrap();
    assert_eq!(read(&mut world, first), Err(FsError::Stale));
    world.write(file, 0, b"other");
    keep(&world, "s");
    assert_eq!(read(&mut world, first), Err(FsError::Stale));
    // These cannot fail.
    world.op(Op::Release { ino: first });
    world.op(Op::Forget { ino: first, count: 1 });
    let second = walk(&mut world, ".twinfs/snapshots/s/f").unwrap();
    assert_eq!(read(&mut world, second).unwrap(), b"other");
}

#[test]
fn files_are_read_on_when_more_states_are_read_than_are_open_at_a_time() {
    let mut world = world();
    let file = world.create("f");
    let mut kept = Vec::new();
    for version in 0..20u8 {
        world.write(file, 0, &[version; 3000]);
        keep(&world, &format!("v{version}"));
        kept.push(walk(&mut world, &format!(".twinfs/snapshots/v{version}/f")).unwrap());
    }
    for (version, &ino) in kept.iter().enumerate() {
        assert_eq!(read(&mut world, ino).unwrap(), [version as u8; 3000]);
    }
    // All can be deleted although all were read.
    let names: Vec<String> = (0..20).map(|version| format!("v{version}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    delete(&world, &names).unwrap();
}

#[test]
fn its_time_changes_with_the_states() {
    let mut world = world();
    let time = |world: &mut World| find(world, ROOT_INO, ".twinfs").unwrap().attr.mtime;
    let before = time(&mut world);
    assert_eq!(time(&mut world), before);
    keep(&world, "s");
    let kept = time(&mut world);
    assert!(kept > before);
    delete(&world, &["s"]).unwrap();
    assert!(time(&mut world) > kept);
}

#[test]
fn a_file_of_one_s_own_with_that_name_hides_it() {
    let mut world = world();
    keep(&world, "s");
    let own = world.create(".twinfs");
    assert_eq!(find(&mut world, ROOT_INO, ".twinfs").unwrap().attr.ino, own);
    world.op(Op::Unlink { dir: ROOT_INO, name: b".twinfs".as_slice().into() });
    assert!(is_below(find(&mut world, ROOT_INO, ".twinfs").unwrap().attr.ino));
}

#[test]
fn numbers_that_lead_nowhere_are_stale() {
    let mut world = world();
    let dir = walk(&mut world, ".twinfs").unwrap();
    for ino in [dir + 5, dir | 7 << 38 | 2, u64::MAX] {
        assert_eq!(world.try_op(Op::GetAttr { ino }), Err(FsError::Stale), "{ino:x}");
    }
    keep(&world, "s");
    let state = walk(&mut world, ".twinfs/snapshots/s").unwrap();
    assert_eq!(world.try_op(Op::GetAttr { ino: state + 1000 }), Err(FsError::NotFound));
}
