//! The dump of FFS volumes, sound and damaged: what is there is shown, what is not is told, and nothing
//! makes it panic or run on.

use std::rc::Rc;

use twin_disk::{BlockDevice, Bytes, MemDisk};
use twin_ffs::dump::{STRUCTURES, dump};
use twin_ffs::{Ffs, FfsSettings, MkfsOptions};
use twin_fs::dump::{Column, DumpError, Fields, Problem, Request, Sink, Value};
use twin_fs::{Cpu, Data, Op, ROOT_INO, Reply, Settings, VolumeOf};
use twin_rt::{ClockOnly, Rng, Rt};

const SIZE: u64 = 24 << 20;

/// What a dump gave: structures, and tables with their rows.
#[derive(Default)]
struct DumpOutput {
    structures: Vec<(String, Fields)>,
    tables: Vec<(String, Vec<Fields>)>,
    columns: Vec<&'static str>,
    problems: Vec<Problem>,
}

impl Sink for DumpOutput {
    fn fields(&mut self, name: &str, _about: &str, fields: Fields) {
        self.structures.push((name.into(), fields));
    }
    fn begin(&mut self, name: &str, _about: &str, columns: &[Column]) {
        self.columns = columns.iter().map(|column| column.name).collect();
        self.tables.push((name.into(), Vec::new()));
    }
    fn row(&mut self, row: Vec<Value>) {
        assert_eq!(row.len(), self.columns.len());
        let row = self.columns.iter().copied().zip(row).collect();
        self.tables.last_mut().unwrap().1.push(row);
    }
    fn end(&mut self) {
        self.columns.clear();
    }
    fn problem(&mut self, problem: Problem) {
        self.problems.push(problem);
    }
}

fn value<'a>(fields: &'a Fields, name: &str) -> &'a Value {
    &fields.iter().find(|(n, _)| *n == name).unwrap_or_else(|| panic!("no {name}")).1
}

impl DumpOutput {
    fn field(&self, structure: &str, name: &str) -> &Value {
        let found = self.structures.iter().find(|(n, _)| n == structure);
        value(&found.unwrap_or_else(|| panic!("no {structure}")).1, name)
    }

    fn rows(&self, table: &str) -> &[Fields] {
        let found = self.tables.iter().find(|(n, _)| n == table);
        &found.unwrap_or_else(|| panic!("no {table}")).1
    }
}

fn number(value: &Value) -> u64 {
    match value {
        Value::Number(number) => *number,
        other => panic!("{other:?} is no number"),
    }
}

/// What is asked for as on the command line.
fn ask(text: &str) -> Request {
    let (structure, which) = match text.split_once(' ') {
        Some((structure, which)) => (structure, Some(which)),
        None => (text, None),
    };
    Request::parse(STRUCTURES, structure, which).unwrap()
}

fn try_dump(disk: &Rc<MemDisk>, request: &Request) -> Result<DumpOutput, DumpError> {
    let (rt, mut kept) = (Rt::new(ClockOnly::default(), 1), DumpOutput::default());
    rt.block_on(dump(Rc::clone(disk) as _, request, &mut kept)).unwrap()?;
    Ok(kept)
}

fn sound(disk: &Rc<MemDisk>, text: &str) -> DumpOutput {
    let kept = try_dump(disk, &ask(text)).unwrap();
    assert_eq!(kept.problems, [], "{text}");
    kept
}

/// A volume in use with a directory of 300 names and a file with holes, synced.
fn world(options: &MkfsOptions) -> (Rt, Rc<MemDisk>, VolumeOf<Ffs>) {
    let (rt, disk) = (Rt::new(ClockOnly::default(), 1), Rc::new(MemDisk::new(SIZE)));
    rt.block_on(Ffs::mkfs(&rt, Rc::clone(&disk) as _, options)).unwrap().unwrap();
    let device: Rc<dyn BlockDevice> = Rc::clone(&disk) as _;
    let opening = Ffs::open(&rt, device, Cpu::none(), Settings::default(), FfsSettings::default());
    let (volume, _) = rt.block_on(opening).unwrap().unwrap();
    let ask = |op| {
        let request = twin_fs::Request::root(0, op);
        rt.block_on(volume.execute(request)).unwrap().unwrap()
    };
    let create = |dir, name: String| {
        let name = name.into_bytes().into();
        match ask(Op::Create { dir, name, mode: 0o644, exclusive: true }) {
            Reply::Entry(entry) => entry.attr.ino,
            other => panic!("{other:?}"),
        }
    };
    let big = create(ROOT_INO, "big".into());
    for (off, len) in [(0, 300_000), (3_000_000, 5000)] {
        let data = Data::Bytes(Bytes::copy_of(&vec![7; len]));
        ask(Op::Write { ino: big, off, data });
    }
    let made = ask(Op::MakeDir { dir: ROOT_INO, name: (*b"dir").into(), mode: 0o755 });
    let Reply::Entry(dir) = made else { panic!("{made:?}") };
    for i in 0..300 {
        create(dir.attr.ino, format!("a name that fills the directory {i}"));
    }
    ask(Op::Sync);
    (rt, disk, volume)
}

fn closed(options: &MkfsOptions) -> Rc<MemDisk> {
    let (rt, disk, volume) = world(options);
    rt.block_on(volume.close()).unwrap().unwrap();
    disk
}

fn profiles() -> [MkfsOptions; 2] {
    [MkfsOptions::classic([7; 16]), MkfsOptions::modern([7; 16])]
}

fn everything() -> Vec<Request> {
    let mut all: Vec<Request> =
        ["overview", "superblock", "groups", "groups 0", "groups 1", "journal", "inodes"]
            .map(ask)
            .into();
    for structure in ["inode", "dir", "file-map"] {
        all.extend(["2", "3", "/big", "/dir"].map(|file| ask(&format!("{structure} {file}"))));
    }
    all
}

#[test]
fn a_sound_volume_shows_what_was_put_in() {
    for options in profiles() {
        let disk = closed(&options);
        assert_eq!(sound(&disk, "dir /dir").rows("entries").len(), 302);
        assert_eq!(sound(&disk, "inode /big").field("inode", "size"), &Value::Number(3_005_000));
        let free = sound(&disk, "overview");
        let used =
            number(free.field("state", "inodes")) - number(free.field("state", "free_inodes"));
        // Numbers 0 and 1 are taken and never used.
        assert_eq!(sound(&disk, "inodes").rows("inodes").len() as u64, used - 2);
        assert_eq!(free.field("state", "closed"), &Value::Flag(true));
    }
}

#[test]
fn the_map_of_a_file_covers_it_with_its_holes() {
    for options in profiles() {
        let disk = closed(&options);
        let map = sound(&disk, "file-map /big");
        let mut next = 0;
        for row in map.rows("map") {
            let Value::Signed(lbn) = *value(row, "lbn") else { panic!() };
            if lbn >= 0 {
                assert_eq!(lbn, next);
                next += number(value(row, "blocks")) as i64;
            }
        }
        assert_eq!(next as u64, 3_005_000_u64.div_ceil(options.block_size.into()));
    }
}

#[test]
fn the_runs_of_free_fragments_add_up_to_the_counts_of_their_group() {
    for options in profiles() {
        let disk = closed(&options);
        let groups = sound(&disk, "groups");
        for (nth, row) in groups.rows("groups").iter().enumerate() {
            let one = sound(&disk, &format!("groups {nth}"));
            let runs: u64 = one.rows("free").iter().map(|run| number(value(run, "frags"))).sum();
            let per_block = u64::from(options.block_size / options.frag_size);
            let counted =
                number(value(row, "free_blocks")) * per_block + number(value(row, "free_frags"));
            assert_eq!(runs, counted, "group {nth}");
        }
    }
}

/// The last sync is in the journal alone.
#[test]
fn a_volume_in_use_is_shown_with_what_its_journal_says() {
    let (rt, disk, volume) = world(&MkfsOptions::modern([7; 16]));
    let late = Op::Create { dir: ROOT_INO, name: (*b"late").into(), mode: 0o644, exclusive: true };
    for op in [late, Op::Sync] {
        rt.block_on(volume.execute(twin_fs::Request::root(0, op))).unwrap().unwrap();
    }
    assert!(number(sound(&disk, "overview").field("state", "records_to_replay")) > 0);
    assert!(!sound(&disk, "journal").rows("records").is_empty());
    assert_eq!(sound(&disk, "inode /late").field("inode", "size"), &Value::Number(0));
    let before = try_dump(&disk, &Request { unrecovered: true, ..ask("inode /late") }).map(|_| ());
    assert!(matches!(before, Err(DumpError::NoSuch(_))), "it is not in its place: {before:?}");
}

#[test]
fn what_is_not_there_is_told_apart_from_damage() {
    let disk = closed(&MkfsOptions::modern([7; 16]));
    for text in ["inode /none", "inode /big/below", "inode 1099511627776", "dir /big", "groups 99"]
    {
        let answer = try_dump(&disk, &ask(text)).map(|_| ());
        assert!(matches!(answer, Err(DumpError::NoSuch(_))), "{text}: {answer:?}");
    }
    let blank = Rc::new(MemDisk::new(SIZE));
    let answer = try_dump(&blank, &ask("overview")).map(|_| ());
    assert!(matches!(answer, Err(DumpError::Volume(_))), "{answer:?}");
}

#[test]
fn a_volume_without_its_superblock_is_shown_by_a_replica() {
    let disk = closed(&MkfsOptions::modern([7; 16]));
    let mut bytes = disk.to_bytes();
    bytes[..4096].fill(0);
    let kept = try_dump(&Rc::new(MemDisk::from_bytes(bytes)), &ask("dir /dir")).unwrap();
    assert_eq!(kept.rows("entries").len(), 302);
    assert_eq!(kept.problems.len(), 1);
}

#[test]
fn damaged_volumes_never_make_it_panic() {
    let seed = 7;
    println!("seed {seed}");
    for options in profiles() {
        let disk = closed(&options);
        let mut rng = Rng::new(seed);
        for _ in 0..150 {
            let mut bytes = disk.to_bytes();
            for _ in 0..rng.range(1, 200) {
                // Where structures are: the front of the volume and of its first group.
                let at = 4096 + rng.below(3 << 20) as usize;
                bytes[at] = rng.next_u64() as u8;
            }
            let bad = Rc::new(MemDisk::from_bytes(bytes));
            for request in everything() {
                let _ = try_dump(&bad, &request);
            }
        }
    }
}
