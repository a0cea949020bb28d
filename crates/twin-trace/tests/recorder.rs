//! A recording can be replayed: on another volume, with other inode numbers, it leads to the same
//! tree with the same answers.

use std::cell::RefCell;
use std::io::Write;
use std::rc::Rc;

use crate::common::read_all;
use crate::common::tiny::{BLOCK, Tiny};
use twin_fs::{Data, FileSystem, Ino, Name, Op, ROOT_INO, Reply, Request, SetAttr, mode};
use twin_rt::{ClockOnly, MICROS, MILLIS, Rng, Rt, Time};
use twin_trace::replay::{Options, Order, Population, Replayer, Report};
use twin_trace::{ErrorCode, Node, Problem, Reader, Record, Recorder, RecorderOptions, Source};

fn name(rng: &mut Rng) -> Name {
    format!("n{}", rng.below(12)).into_bytes().into()
}

/// A client that makes random requests with the inodes that it got.
struct Wanderer {
    id: u32,
    rng: Rng,
    dirs: Vec<Ino>,
    /// Files with the number of references and opens that it holds.
    files: Vec<(Ino, u64, u64)>,
}

impl Wanderer {
    fn new(seed: u64, id: u32) -> Wanderer {
        let rng = Rng::stream(seed, &format!("client {id}"));
        Wanderer { id, rng, dirs: vec![ROOT_INO], files: Vec::new() }
    }

    fn next(&mut self) -> Op {
        let rng = &mut self.rng;
        let (dir, name, other) = (*rng.pick(&self.dirs), name(rng), name(rng));
        let to_dir = *rng.pick(&self.dirs);
        let off = rng.below(20_000);
        let file = if self.files.is_empty() { None } else { Some(*rng.pick(&self.files)) };
        match (rng.below(20), file) {
            (0, _) => Op::MakeDir { dir, name, mode: 0o755 },
            (1 | 2, _) => Op::Create { dir, name, mode: 0o644, exclusive: rng.chance(0.5) },
            (3, _) => Op::Symlink { dir, name, target: other },
            (4 | 5, _) => Op::Unlink { dir, name },
            (6, _) => Op::RemoveDir { dir, name },
            (7, _) => Op::Rename { dir, name, to_dir, to_name: other, mode: Default::default() },
            (8, _) => Op::ReadDir { dir, cookie: 0, max_bytes: 4096, plus: rng.chance(0.5) },
            (9, Some((ino, ..))) => Op::Link { ino, dir, name },
            (10, Some((ino, ..))) => {
                Op::SetAttr { ino, set: SetAttr { size: Some(off), ..SetAttr::default() } }
            }
            (11 | 12, Some((ino, ..))) => {
                Op::Write { ino, off, data: Data::Synthetic(rng.below(9000)) }
            }
            (13 | 14, Some((ino, ..))) => Op::Read { ino, off, len: rng.below(9000) as u32 },
            (15, Some((ino, ..))) => Op::Open { ino, read: true, write: true, truncate: false },
            (16, Some((ino, _, opens))) if opens > 0 => Op::Release { ino },
            (17, Some((ino, refs, _))) => Op::Forget { ino, count: refs },
            _ => Op::Lookup { dir, name },
        }
    }

    fn learn(&mut self, op: &Op, reply: &Reply) {
        if let Reply::Entry(entry) = reply {
            let ino = entry.attr.ino;
            if entry.attr.is_dir() {
                self.dirs.push(ino);
            } else if entry.attr.kind() == mode::REGULAR {
                let opens = u64::from(matches!(op, Op::Create { .. }));
                match self.files.iter_mut().find(|(known, ..)| *known == ino) {
                    Some(file) => (file.1, file.2) = (file.1 + 1, file.2 + opens),
                    None => self.files.push((ino, 1, opens)),
                }
            }
        }
        match op {
            Op::Open { ino, .. } => self.opens(*ino, 1),
            Op::Release { ino } => self.opens(*ino, -1),
            Op::Forget { ino, .. } => self.files.retain(|(known, ..)| known != ino),
            _ => {}
        }
    }

    fn opens(&mut self, ino: Ino, change: i64) {
        for file in self.files.iter_mut().filter(|(known, ..)| *known == ino) {
            file.2 = file.2.wrapping_add_signed(change);
        }
    }

    async fn wander(mut self, fs: Rc<impl FileSystem>, ids: Rc<RefCell<u64>>, steps: u64) {
        for _ in 0..steps {
            let op = self.next();
            // Like a kernel, it looks up what it makes, removes or renames.
            for (dir, name) in looked_up(&op) {
                self.ask(&*fs, &ids, Op::Lookup { dir, name }).await;
            }
            self.ask(&*fs, &ids, op).await;
        }
    }

    async fn ask(&mut self, fs: &impl FileSystem, ids: &RefCell<u64>, op: Op) {
        *ids.borrow_mut() += 1;
        let id = *ids.borrow();
        let request = Request { client: self.id, ..Request::root(id, op.clone()) };
        if let Ok(reply) = fs.execute(request).await {
            self.learn(&op, &reply);
        }
    }
}

fn looked_up(op: &Op) -> Vec<(Ino, Name)> {
    match op {
        Op::Unlink { dir, name }
        | Op::RemoveDir { dir, name }
        | Op::MakeDir { dir, name, .. }
        | Op::Symlink { dir, name, .. }
        | Op::Create { dir, name, .. }
        | Op::Link { dir, name, .. } => vec![(*dir, name.clone())],
        Op::Rename { dir, name, to_dir, to_name, .. } => {
            vec![(*dir, name.clone()), (*to_dir, to_name.clone())]
        }
        _ => vec![],
    }
}

type Shared = Rc<RefCell<Vec<u8>>>;

/// An output that the test can read.
#[derive(Clone, Default)]
struct Out(Shared);

impl Write for Out {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.borrow_mut().extend_from_slice(bytes);
        Ok(bytes.len())
    }
    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

struct Recording {
    fs: Rc<Recorder<Tiny, Out>>,
    bytes: Vec<u8>,
}

/// Lists everything, with attributes.
async fn walk(fs: &impl FileSystem) {
    let mut dirs = vec![ROOT_INO];
    while let Some(dir) = dirs.pop() {
        let op = Op::ReadDir { dir, cookie: 0, max_bytes: 1 << 20, plus: true };
        let Ok(Reply::Dir(entries)) = fs.execute(Request::root(1, op)).await else {
            panic!("the directory was just listed")
        };
        let is_dir = |entry: &&twin_fs::DirEntry| entry.kind == mode::DIRECTORY;
        dirs.extend(entries.iter().filter(is_dir).map(|entry| entry.ino));
    }
}

/// Random clients run, first unrecorded, then recorded. With `all` the recording begins with a walk
/// over all files.
fn record(seed: u64, clients: u32, births: bool, all: bool) -> Recording {
    let rt = Rt::new(ClockOnly { start: Time(1_000_000) }, seed);
    let tiny = Tiny::new(&rt, 100);
    tiny.births.set(births);
    let tiny = Rc::new(tiny);
    let ids = Rc::new(RefCell::new(0));
    let before = Wanderer::new(seed, 99).wander(Rc::clone(&tiny), Rc::clone(&ids), 400);
    rt.block_on(before).unwrap();
    rt.block_on(rt.sleep(MILLIS)).unwrap();
    // The earlier client releases everything: nothing is held when the recording begins.
    let held: Vec<(Ino, u64, u64)> =
        tiny.inodes.borrow().iter().map(|(ino, i)| (*ino, i.refs, i.opens)).collect();
    rt.block_on(async {
        for (ino, refs, opens) in held {
            for _ in 0..opens {
                tiny.execute(Request::root(0, Op::Release { ino })).await.unwrap();
            }
            tiny.execute(Request::root(0, Op::Forget { ino, count: refs })).await.unwrap();
        }
    })
    .unwrap();
    tiny.seen.borrow_mut().clear();
    tiny.delay_ns.set(50 * MICROS);
    let tiny = Rc::into_inner(tiny).unwrap();
    let fs = Rc::new(Recorder::new(&rt, tiny, Out::default(), described("wandering")).unwrap());
    if all {
        rt.block_on(walk(&*fs)).unwrap();
    }
    let handles: Vec<_> = (0..clients)
        .map(|client| {
            let wanderer = Wanderer::new(seed, client + 1);
            rt.spawn("client", wanderer.wander(Rc::clone(&fs), Rc::clone(&ids), 600))
        })
        .collect();
    rt.block_on(async {
        for handle in handles {
            handle.await;
        }
    })
    .unwrap();
    let out = fs.finish().unwrap().unwrap();
    let bytes = out.0.take();
    Recording { fs, bytes }
}

fn replay(bytes: &[u8], delay_ns: u64, order: Order) -> (Tiny, Report) {
    let rt = Rt::new(ClockOnly::default(), 5);
    let fs = Tiny::new(&rt, 7_000_000);
    let population = Population::collect(&mut Reader::new(bytes).unwrap()).unwrap();
    assert_eq!(population.dropped(), 0);
    let options = Options { order, verify: Some(BLOCK as u32), ..Options::default() };
    let mut replayer = Replayer::new(&rt, &fs, options);
    let report = rt
        .block_on(async {
            replayer.populate(&population).await.unwrap();
            fs.delay_ns.set(delay_ns);
            replayer.run(&mut Reader::new(bytes).unwrap()).await.unwrap()
        })
        .unwrap();
    drop(replayer);
    (fs, report)
}

#[test]
fn a_replayed_recording_gives_the_same_tree_and_the_same_answers() {
    for seed in 0..100 {
        let all = seed % 2 == 0;
        let recording = record(seed, 1 + seed as u32 % 4, true, all);
        let recorded = recording.fs.recorded();
        assert!(recorded.requests > 500, "seed {seed}");
        let ways = [(Order::Trace, 0), (Order::Trace, MILLIS)];
        let of_processes = [0, 10 * MICROS, MILLIS].map(|delay_ns| (Order::Process, delay_ns));
        for (order, delay_ns) in ways.into_iter().chain(of_processes) {
            let (fs, report) = replay(&recording.bytes, delay_ns, order);
            let what = format!(
                "seed {seed}, {order:?}, {delay_ns} ns: {:?} {:?}",
                report.examples, report.divergences
            );
            // A directory may hold a name that the trace never contained, and so not be removed.
            let unheard = |(_, recorded, _): &_| *recorded == Some(ErrorCode::NotEmpty);
            if !all && report.divergences.keys().any(unheard) {
                continue;
            }
            assert_eq!(report.diverged_ops(), 0, "{what}");
            assert_eq!((report.skipped, report.inodes_differ), (0, 0), "{what}");
            assert_eq!(report.lengths_differ, 0, "{what}");
            assert_eq!(report.verdict.as_ref().unwrap().wrong, 0, "{what}");
            let original = recording.fs.inner().tree();
            let replayed = fs.tree();
            if all {
                assert_eq!(replayed, original, "{what}");
                assert_eq!(fs.orphans(), recording.fs.inner().orphans(), "{what}");
            }
            // Files that the trace never contained are missing; files that were only listed have no
            // attributes.
            let names: Vec<_> = original.iter().map(path_and_kind).collect();
            let is_there = |item| names.contains(&path_and_kind(item));
            assert!(replayed.iter().all(is_there), "{what}");
            assert!(replayed.len() > 5, "{what}: {} names", replayed.len());
        }
    }
}

fn path_and_kind(item: &(String, u32, u32, u32, u64)) -> (String, u32) {
    (item.0.clone(), item.1 & mode::TYPE)
}

#[test]
fn numbers_used_again_without_a_mark_do_no_harm() {
    for seed in 0..20 {
        let recording = record(seed, 1, false, true);
        let (fs, report) = replay(&recording.bytes, 0, Order::Trace);
        assert_eq!(report.skipped, 0, "seed {seed}");
        assert_eq!(fs.tree(), recording.fs.inner().tree(), "seed {seed}");
    }
}

/// Executes an operation and returns the reply.
fn described(text: &str) -> RecorderOptions {
    RecorderOptions { text: text.into(), ..RecorderOptions::default() }
}

fn ask(rt: &Rt, fs: &impl FileSystem, op: Op) -> Reply {
    rt.block_on(fs.execute(Request::root(1, op))).unwrap().unwrap()
}

fn lookup(rt: &Rt, fs: &impl FileSystem, text: &str) -> Ino {
    match ask(rt, fs, Op::Lookup { dir: ROOT_INO, name: text.as_bytes().into() }) {
        Reply::Entry(entry) => entry.attr.ino,
        other => panic!("{other:?}"),
    }
}

fn create(rt: &Rt, fs: &impl FileSystem, text: &str) -> Ino {
    let op =
        Op::Create { dir: ROOT_INO, name: text.as_bytes().into(), mode: 0o600, exclusive: true };
    match ask(rt, fs, op) {
        Reply::Entry(entry) => entry.attr.ino,
        other => panic!("{other:?}"),
    }
}

fn nodes(fs: &Recorder<Tiny, Vec<u8>>) -> (Vec<Node>, Vec<Record>) {
    let bytes = fs.finish().unwrap().unwrap();
    let records = read_all(&mut Reader::new(&bytes[..]).unwrap()).unwrap();
    let nodes = records.iter().filter_map(|record| match record {
        Record::Node(node) => Some(node.clone()),
        _ => None,
    });
    (nodes.collect(), records)
}

#[test]
fn every_name_of_what_was_there_is_told_once_and_nothing_else() {
    let rt = Rt::new(ClockOnly::default(), 0);
    let tiny = Tiny::new(&rt, 100);
    let ino = create(&rt, &tiny, "a");
    ask(&rt, &tiny, Op::Write { ino, off: 0, data: Data::Synthetic(9000) });
    ask(&rt, &tiny, Op::Link { ino, dir: ROOT_INO, name: (*b"b").into() });
    let single = create(&rt, &tiny, "single");
    let fs = Recorder::new(&rt, tiny, Vec::new(), described("test")).unwrap();
    for text in ["a", "a", "b", "b", "single"] {
        lookup(&rt, &fs, text);
    }
    ask(&rt, &fs, Op::Link { ino, dir: ROOT_INO, name: (*b"c").into() });
    ask(&rt, &fs, Op::Link { ino: single, dir: ROOT_INO, name: (*b"double").into() });
    create(&rt, &fs, "new");
    for text in ["c", "new", "single", "double", "a"] {
        lookup(&rt, &fs, text);
    }
    let (nodes, _) = nodes(&fs);
    let told: Vec<_> = nodes.iter().map(|node| (&*node.name, node.ino)).collect();
    assert_eq!(told, [(&b"a"[..], 3), (&b"b"[..], 3), (&b"single"[..], 4)]);
    let attr = nodes[0].attr.unwrap();
    assert_eq!((attr.nlink, attr.size, attr.allocated), (2, 9000, 9000));
    assert_eq!(nodes[0].mode, mode::REGULAR | 0o600);
}

/// What the kernel asked for a mount's own helper was counted as an operation of a client.
#[test]
fn what_a_front_end_asks_on_its_own_account_is_not_recorded() {
    let rt = Rt::new(ClockOnly::default(), 0);
    let fs = Recorder::new(&rt, Tiny::new(&rt, 100), Vec::new(), described("test")).unwrap();
    for client in [1, Request::NO_CLIENT] {
        let op = Op::GetAttr { ino: ROOT_INO };
        let request = Request { client, ..Request::root(1, op) };
        assert!(rt.block_on(fs.execute(request)).unwrap().is_ok());
    }
    let (_, records) = nodes(&fs);
    let asked = records.iter().filter(|record| matches!(record, Record::Request { .. }));
    assert_eq!(asked.count(), 1);
}

#[test]
fn a_listing_tells_names_and_a_lookup_completes_them() {
    let rt = Rt::new(ClockOnly::default(), 0);
    let tiny = Tiny::new(&rt, 100);
    create(&rt, &tiny, "a");
    create(&rt, &tiny, "b");
    let fs = Recorder::new(&rt, tiny, Vec::new(), described("test")).unwrap();
    let list = |plus| Op::ReadDir { dir: ROOT_INO, cookie: 0, max_bytes: 4096, plus };
    ask(&rt, &fs, list(false));
    lookup(&rt, &fs, "b");
    create(&rt, &fs, "c");
    ask(&rt, &fs, list(true));
    let (nodes, _) = nodes(&fs);
    let told: Vec<_> =
        nodes.iter().map(|node| (&*node.name, node.ino, node.attr.is_some())).collect();
    let expected =
        [(&b"a"[..], 3, false), (&b"b"[..], 4, false), (&b"b"[..], 4, true), (&b"a"[..], 3, true)];
    assert_eq!(told, expected);
}

#[test]
fn a_file_seen_before_its_maker_was_answered_was_not_there_before() {
    let rt = Rt::new(ClockOnly::default(), 3);
    let tiny = Tiny::new(&rt, 100);
    let fs = Rc::new(Recorder::new(&rt, tiny, Vec::new(), described("test")).unwrap());
    fs.inner().delay_ns.set(MILLIS);
    let make = |i: u64| {
        let name = format!("{i}").into_bytes().into();
        Op::Create { dir: ROOT_INO, name, mode: 0o600, exclusive: true }
    };
    let look = |i: u64| Op::Lookup { dir: ROOT_INO, name: format!("{i}").into_bytes().into() };
    for i in 0..20 {
        for op in [make(i), look(i)] {
            let fs = Rc::clone(&fs);
            rt.spawn("client", async move { fs.execute(Request::root(1, op)).await });
        }
    }
    let rt2 = rt.clone();
    rt.block_on(async move { rt2.sleep(2 * MILLIS).await }).unwrap();
    let (nodes, records) = nodes(&fs);
    assert_eq!((nodes, records.len()), (vec![], 80));
}

#[test]
fn times_are_those_of_the_run_since_its_start() {
    let rt = Rt::new(ClockOnly { start: Time(5_000) }, 3);
    let tiny = Tiny::new(&rt, 100);
    let fs = Recorder::new(&rt, tiny, Vec::new(), described("test")).unwrap();
    let rt2 = rt.clone();
    rt.block_on(async {
        rt2.sleep(700).await;
        fs.execute(Request::root(1, Op::Sync)).await.unwrap();
    })
    .unwrap();
    let bytes = fs.finish().unwrap().unwrap();
    let mut reader = Reader::new(&bytes[..]).unwrap();
    assert_eq!(reader.header().start, Time(5_000));
    assert!(matches!(reader.next_record(), Ok(Some(Record::Request { at_ns: 700, .. }))));
}

/// An output that is full after some bytes.
struct Full(usize);

impl Write for Full {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        if self.0 == 0 {
            return Err(std::io::ErrorKind::StorageFull.into());
        }
        let n = bytes.len().min(self.0);
        self.0 -= n;
        Ok(n)
    }
    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_full_disk_ends_the_recording_and_not_the_work() {
    let rt = Rt::new(ClockOnly::default(), 3);
    let fs = Recorder::new(&rt, Tiny::new(&rt, 100), Full(200), described("test")).unwrap();
    for i in 0..100 {
        create(&rt, &fs, &format!("f{i}"));
        fs.flush();
    }
    assert_eq!(fs.inner().tree().len(), 100);
    let error = fs.finish().err().unwrap();
    assert!(matches!(error.problem, Problem::Io(_)), "{error}");
}
