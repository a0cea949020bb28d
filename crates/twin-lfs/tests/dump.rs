//! The dump of volumes, sound and damaged: what is there is shown, what is not is told, and
//! nothing makes it panic or run on.

use std::rc::Rc;

use crate::common::{World, both_profiles};
use twin_disk::MemDisk;
use twin_fs::dump::{Column, DumpError, Fields, Problem, Request, Sink, Value};
use twin_fs::{Op, ROOT_INO, XattrMode};
use twin_lfs::dump::{STRUCTURES, dump};
use twin_lfs::format::Superblock;
use twin_lfs::{MkfsOptions, read_checkpoint, read_superblock};
use twin_rt::{ClockOnly, Rng, Rt};

/// Room for the sixteen segments of the classic profile.
const SIZE: u64 = 24 << 20;

/// A table: its name, its columns, its rows.
type Table = (String, Vec<&'static str>, Vec<Vec<Value>>);

#[derive(Default)]
struct DumpOutput {
    structures: Vec<(String, Fields)>,
    tables: Vec<Table>,
    problems: Vec<Problem>,
    open: bool,
}

impl Sink for DumpOutput {
    fn fields(&mut self, name: &str, _about: &str, fields: Fields) {
        assert!(!self.open, "{name} within a table");
        self.structures.push((name.into(), fields));
    }
    fn begin(&mut self, name: &str, _about: &str, columns: &[Column]) {
        assert!(!std::mem::replace(&mut self.open, true), "{name} within a table");
        self.tables.push((name.into(), columns.iter().map(|c| c.name).collect(), Vec::new()));
    }
    fn row(&mut self, row: Vec<Value>) {
        let (name, columns, rows) = self.tables.last_mut().unwrap();
        assert_eq!(columns.len(), row.len(), "{name}");
        rows.push(row);
    }
    fn end(&mut self) {
        assert!(std::mem::replace(&mut self.open, false));
    }
    fn problem(&mut self, problem: Problem) {
        self.problems.push(problem);
    }
}

impl DumpOutput {
    fn field(&self, structure: &str, name: &str) -> &Value {
        let found = self.structures.iter().find(|(n, _)| n == structure);
        let (_, fields) = found.unwrap_or_else(|| panic!("no {structure}"));
        &fields.iter().find(|(n, _)| *n == name).unwrap_or_else(|| panic!("no {name}")).1
    }

    /// A column of a table.
    fn column(&self, table: &str, name: &str) -> Vec<&Value> {
        let found = self.tables.iter().find(|(n, ..)| n == table);
        let (_, columns, rows) = found.unwrap_or_else(|| panic!("no {table}"));
        let nth = columns.iter().position(|n| *n == name).unwrap();
        rows.iter().map(|row| &row[nth]).collect()
    }
}

fn try_dump(disk: &Rc<MemDisk>, what: &Request) -> Result<DumpOutput, DumpError> {
    let mut kept = DumpOutput::default();
    let rt = Rt::new(ClockOnly::default(), 1);
    rt.block_on(dump(&rt, Rc::clone(disk) as _, what, &mut kept)).unwrap()?;
    assert!(!kept.open);
    Ok(kept)
}

/// What a sound volume shows.
fn sound(disk: &Rc<MemDisk>, what: Request) -> DumpOutput {
    let kept = try_dump(disk, &what).unwrap();
    assert_eq!(kept.problems, [], "{what:?}");
    kept
}

/// What is asked for as on the command line.
fn ask(text: &str) -> Request {
    let (structure, which) = match text.split_once(' ') {
        Some((structure, which)) => (structure, Some(which)),
        None => (text, None),
    };
    Request::parse(STRUCTURES, structure, which).unwrap()
}

/// A volume with some of everything.
fn world(options: &MkfsOptions) -> World {
    let mut w = World::new(options, SIZE);
    let big = w.create("big");
    w.write(big, 0, &[7; 300_000]);
    w.write(big, 3_000_000, &[8; 5000]);
    let dir = (*b"dir").into();
    w.op(Op::MakeDir { dir: ROOT_INO, name: dir, mode: 0o755 });
    let dir = w.lookup("dir");
    for i in 0..600 {
        let name = format!("a name that fills the directory {i}").into_bytes().into();
        w.op(Op::Create { dir, name, mode: 0o644, exclusive: true });
    }
    w.op(Op::Symlink { dir: ROOT_INO, name: (*b"link").into(), target: (*b"big").into() });
    if options.profile == twin_lfs::format::Profile::Modern {
        for len in [10, 500] {
            let name = format!("user.{len}").into_bytes().into();
            let value = vec![b'v'; len].into();
            w.op(Op::SetXattr { ino: big, name, value, mode: XattrMode::Any });
        }
    }
    w
}

fn closed(options: &MkfsOptions) -> Rc<MemDisk> {
    let w = world(options);
    w.rt.block_on(w.volume.close()).unwrap().unwrap();
    w.disk
}

/// All that can be asked for.
fn everything() -> Vec<Request> {
    let mut all: Vec<Request> = [
        "overview",
        "superblock",
        "checkpoints",
        "segments",
        "summaries",
        "ifile",
        "snapshots",
        "inodes",
    ]
    .map(ask)
    .into();
    all.extend((0..6).map(|segment| ask(&format!("summaries {segment}"))));
    for structure in ["inode", "dir", "file-map"] {
        let files = ["1", "2", "3", "/big", "/dir"];
        all.extend(files.map(|file| ask(&format!("{structure} {file}"))));
    }
    all
}

#[test]
fn a_sound_volume_shows_what_was_put_in() {
    both_profiles(|options| {
        let disk = closed(&options);
        let dir = sound(&disk, ask("dir /dir"));
        assert_eq!(dir.column("entries", "name").len(), 602);
        let root = sound(&disk, ask("dir /"));
        let names: Vec<_> = root.column("entries", "name").into_iter().cloned().collect();
        let expected = [".", "..", "big", "dir", "link"].map(|n| Value::Name(n.into()));
        assert_eq!(names, expected);
        let big = sound(&disk, ask("inode /big"));
        assert_eq!(big.field("inode", "size"), &Value::Number(3_005_000));
        let link = sound(&disk, ask("inode /link"));
        assert_eq!(link.field("inode", "target"), &Value::Name(b"big".to_vec()));
        assert_eq!(sound(&disk, ask("inodes")).column("inodes", "ino").len(), {
            let modern = options.profile == twin_lfs::format::Profile::Modern;
            // The root, /dir, its 600 files, two more; an index and attributes.
            604 + if modern { 2 } else { 0 }
        });
        if options.profile == twin_lfs::format::Profile::Modern {
            let names = big.column("attributes", "name");
            assert_eq!(
                names,
                [&Value::Name(b"user.10".to_vec()), &Value::Name(b"user.500".to_vec())]
            );
            assert_eq!(dir.field("index", "entries"), &Value::Number(600));
        }
    });
}

#[test]
fn the_map_of_a_file_covers_it_without_overlap() {
    both_profiles(|options| {
        let disk = closed(&options);
        let map = sound(&disk, ask("file-map /big"));
        let mut next = 0;
        let rows = map.column("map", "lbn").into_iter().zip(map.column("map", "blocks"));
        for (lbn, blocks) in rows {
            let (Value::Signed(lbn), Value::Number(blocks)) = (lbn, blocks) else { panic!() };
            if *lbn >= 0 {
                assert_eq!(*lbn, next);
                next += *blocks as i64;
            }
        }
        assert_eq!(next, 3_005_000_i64.div_euclid(4096) + 1);
    });
}

/// What the summaries call live adds up to the segment usage table.
#[test]
fn live_blocks_of_summaries_add_up_to_the_usage_table() {
    both_profiles(|options| {
        let mut w = world(&options);
        let big = w.lookup("big");
        w.write(big, 100_000, &[9; 50_000]);
        w.op(Op::Sync);
        w.op(Op::Unlink { dir: ROOT_INO, name: (*b"link").into() });
        w.rt.block_on(w.volume.close()).unwrap().unwrap();
        let table = sound(&w.disk, ask("segments"));
        let mut seen = 0;
        for (segment, live) in (0..).zip(table.column("segments", "live_bytes")) {
            let kept = sound(&w.disk, ask(&format!("summaries {segment}")));
            let rows =
                kept.column("blocks", "live").into_iter().zip(kept.column("blocks", "bytes"));
            let sum =
                rows.filter(|(live, _)| **live == Value::Flag(true)).map(
                    |(_, bytes)| match bytes {
                        Value::Number(bytes) => *bytes,
                        other => panic!("{other:?}"),
                    },
                );
            let sum: u64 = sum.sum();
            assert_eq!(live, &Value::Number(sum), "segment {segment}");
            seen += sum;
        }
        assert!(seen > 400_000);
    });
}

#[test]
fn a_crashed_volume_is_shown_as_it_will_be_found() {
    both_profiles(|options| {
        let mut w = world(&options);
        w.op(Op::Sync);
        let late = w.create("late");
        w.op(Op::Fsync { ino: late, data_only: false });
        for what in everything() {
            assert_eq!(
                try_dump(&w.disk, &what).map(|_| ()).err().filter(|_| {
                    // Directories are asked for by numbers of files too.
                    what.structure != "dir"
                }),
                None,
                "{what:?}"
            );
        }
        let kept = sound(&w.disk, ask("inode /late"));
        assert_eq!(kept.field("inode", "size"), &Value::Number(0));
        assert_eq!(sound(&w.disk, ask("overview")).field("state", "closed"), &Value::Flag(false));
        let before = try_dump(&w.disk, &Request { unrecovered: true, ..ask("inode /late") });
        assert!(matches!(before, Err(DumpError::NoSuch(_))));
    });
}

#[test]
fn what_is_not_there_is_told_apart_from_damage() {
    let disk = closed(&MkfsOptions::modern([1; 16]));
    for what in [
        ask("inode /none"),
        ask("inode /big/below"),
        ask("inode 1099511627776"),
        ask("dir /big"),
        ask("summaries 100000"),
    ] {
        let answer = try_dump(&disk, &what).map(|_| ());
        assert!(matches!(answer, Err(DumpError::NoSuch(_))), "{what:?}: {answer:?}");
    }
    let blank = Rc::new(MemDisk::new(SIZE));
    let answer = try_dump(&blank, &ask("overview")).map(|_| ());
    assert!(matches!(answer, Err(DumpError::Volume(_))), "{answer:?}");
}

fn change(disk: &Rc<MemDisk>, edit: impl FnOnce(&mut [u8])) -> Rc<MemDisk> {
    let mut bytes = disk.to_bytes();
    edit(&mut bytes);
    Rc::new(MemDisk::from_bytes(bytes))
}

#[test]
fn damage_is_told_with_its_place_and_the_rest_is_shown() {
    let disk = closed(&MkfsOptions::modern([1; 16]));
    let block = |lbn: usize| {
        let map = sound(&disk, ask("file-map /dir"));
        let at = map.column("map", "at");
        match at[lbn] {
            Value::Number(at) => *at,
            other => panic!("{other:?}"),
        }
    };
    let at = block(0);
    let bad = change(&disk, |bytes| bytes[at as usize + 100] ^= 1);
    let kept = try_dump(&bad, &ask("dir /dir")).unwrap();
    let places: Vec<_> = kept.problems.iter().map(|problem| problem.at).collect();
    assert_eq!(places, [Some(at)], "{:?}", kept.problems);
    assert!(kept.column("entries", "name").len() > 400);
}

/// What lies behind a lost indirect block is not called a hole.
#[test]
fn blocks_behind_a_lost_indirect_block_are_unknown() {
    let disk = closed(&MkfsOptions::modern([1; 16]));
    let map = sound(&disk, ask("file-map /big"));
    let lbns = map.column("map", "lbn");
    let nth = lbns.iter().position(|lbn| **lbn == Value::Signed(-12)).unwrap();
    let Value::Number(at) = *map.column("map", "at")[nth] else { panic!() };
    let bad = change(&disk, |bytes| bytes[at as usize] ^= 1);
    let kept = try_dump(&bad, &ask("file-map /big")).unwrap();
    let rows = kept.column("map", "kind").into_iter().zip(kept.column("map", "lbn"));
    let unknown = Value::Text("unknown".into());
    let unknown: Vec<_> = rows.filter(|(kind, _)| **kind == unknown).map(|(_, lbn)| lbn).collect();
    assert_eq!(unknown, [&Value::Signed(12)]);
    assert_eq!(kept.problems.len(), 1);
}

#[test]
fn a_volume_without_a_first_superblock_or_checkpoint_shows_what_it_can() {
    let disk = closed(&MkfsOptions::modern([1; 16]));
    let bad = change(&disk, |bytes| bytes[..12_288].fill(0));
    let kept = try_dump(&bad, &ask("dir /dir")).unwrap();
    assert_eq!(kept.column("entries", "name").len(), 602);
    assert!(!kept.problems.is_empty());
    let end = SIZE as usize - 4096 - 8192;
    let worse = change(&disk, |bytes| {
        bytes[4096..12_288].fill(0);
        bytes[end..end + 8192].fill(0);
    });
    let kept = try_dump(&worse, &ask("summaries 0")).unwrap();
    assert!(!kept.column("blocks", "ino").is_empty());
    for what in everything() {
        if let Ok(kept) = try_dump(&worse, &what) {
            assert!(!kept.problems.is_empty(), "{what:?}");
        }
    }
}

/// Random damage: to anything, and to what is read first, with a right checksum.
#[test]
fn damaged_volumes_never_make_it_panic() {
    let seed = 7;
    println!("seed {seed}");
    both_profiles(|options| {
        let mut w = world(&options);
        w.op(Op::Sync);
        let late = w.create("late");
        w.op(Op::Fsync { ino: late, data_only: false });
        let crashed = w.disk;
        let disk = closed(&options);
        let rt = Rt::new(ClockOnly::default(), 1);
        let sb: Superblock = rt.block_on(read_superblock(&*disk)).unwrap().unwrap();
        let checkpoint = rt.block_on(read_checkpoint(&*disk, &sb)).unwrap().unwrap();
        let slots = sb.checkpoint_places(checkpoint.number % 2);
        let all = everything();
        let mut rng = Rng::new(seed);
        for round in 0..150 {
            let origin = if round % 3 == 0 { &crashed } else { &disk };
            let bad = change(origin, |bytes| {
                // Where something is: the first segments.
                for _ in 0..rng.range(1, 200) {
                    let at = 65_536 + rng.below(1 << 20) as usize;
                    bytes[at] = rng.next_u64() as u8;
                }
                if round % 2 == 0 {
                    for &slot in &slots {
                        let slot = slot as usize;
                        let at = slot + 16 + rng.below(700) as usize;
                        bytes[at] ^= 1 << rng.below(8);
                        let crc = crc32c::crc32c(&bytes[slot + 16..slot + 4096]);
                        bytes[slot + 8..slot + 12].copy_from_slice(&crc.to_le_bytes());
                    }
                }
            });
            for _ in 0..6 {
                let what = &all[rng.below(all.len() as u64) as usize];
                let what = Request { unrecovered: rng.chance(0.5), ..what.clone() };
                let _ = try_dump(&bad, &what);
            }
        }
    });
}
