//! Exchanges made by hand, and random ones, whose traces are replayed on the model file system.

use std::cell::RefCell;

use twin_fs::{FileSystem, Reply, mode};
use twin_model::{ModelFs, Settings};
use twin_rt::{ClockOnly, Rng, Rt};
use twin_trace::replay::{self, Pace, Population, Replayer, Report};
use twin_trace::{Reader, Verb, Writer};

use super::*;
use crate::nfs::{self, Answer, Attr, Call, Handle, Listed};
use crate::rpc::Caller;

/// The model as a file system.
struct Model {
    rt: Rt,
    model: RefCell<ModelFs>,
}

impl FileSystem for Model {
    async fn execute(&self, request: Request) -> twin_fs::Result<Reply> {
        self.model.borrow_mut().apply(self.rt.now(), &request)
    }
}

fn replayed(header: &Header, records: &[Record]) -> Report {
    let mut writer = Writer::new(Vec::new(), header).unwrap();
    records.iter().for_each(|record| writer.record(record).unwrap());
    let bytes = writer.finish().unwrap();
    let population = Population::collect(&mut Reader::new(&bytes[..]).unwrap()).unwrap();
    assert_eq!(population.dropped(), 0);
    let rt = Rt::new(ClockOnly::default(), 1);
    let model = RefCell::new(ModelFs::new(Settings::default(), rt.now()));
    let fs = Model { rt: rt.clone(), model };
    let options = replay::Options { pace: Pace::Asap, ..replay::Options::default() };
    let mut replayer = Replayer::new(&rt, &fs, options);
    rt.block_on(async {
        replayer.populate(&population).await.unwrap();
        replayer.run(&mut Reader::new(&bytes[..]).unwrap()).await.unwrap()
    })
    .unwrap()
}

/// Every operation on an inode comes while the trace has a reference to it, or has it open.
fn must_hold(records: &[Record], what: &str) {
    let mut held: FixedMap<Ino, u64> = [(twin_fs::ROOT_INO, 1)].into_iter().collect();
    let mut entries: FixedMap<u64, Ino> = FixedMap::default();
    for record in records {
        if let Record::Reply { id, outcome: Outcome::Entry(ino), .. } = record {
            entries.insert(*id, *ino);
        }
    }
    for record in records {
        let Record::Request { request, .. } = record else { continue };
        if let Some(&ino) = entries.get(&request.id) {
            *held.entry(ino).or_default() += 1;
        }
        let (ino, count) = match &request.op {
            Op::Forget { ino, count } => (*ino, *count),
            Op::GetAttr { ino } | Op::SetAttr { ino, .. } | Op::Open { ino, .. } => (*ino, 0),
            Op::Read { ino, .. } | Op::Write { ino, .. } | Op::Release { ino } => (*ino, 0),
            _ => continue,
        };
        let refs = held.entry(ino).or_default();
        assert!(*refs >= count.max(1), "{what}: {:?} of {refs} references", request.op);
        *refs -= count;
    }
}

/// Replays a trace, which must go as it says.
fn must_replay(header: &Header, records: &[Record], what: &str) -> Report {
    must_hold(records, what);
    let report = replayed(header, records);
    let examples = &report.examples;
    assert_eq!((report.diverged_ops(), report.skipped), (0, 0), "{what}: {examples:?}");
    assert_eq!((report.lengths_differ, report.inodes_differ), (0, 0), "{what}");
    report
}

fn handle(n: u64) -> Handle {
    n.to_be_bytes().into()
}

fn attr(kind: u32, size: u64) -> Option<Attr> {
    Some(Attr { mode: kind | 0o644, nlink: 1, size, used: size, ..Attr::default() })
}

/// An exchange at this second that takes a millisecond.
fn exchange(at_s: u64, call: Call, answer: Answer) -> Exchange {
    let asked_ns = (1000 + at_s) * twin_rt::SECS;
    Exchange {
        asked_ns,
        answered_ns: asked_ns + twin_rt::MILLIS,
        client: "192.0.2.1:700".parse().unwrap(),
        server: "192.0.2.2:2049".parse().unwrap(),
        caller: Caller::default(),
        call,
        answer,
    }
}

fn lookup(dir: u64, name: &[u8]) -> Call {
    Call::Lookup { dir: handle(dir), name: name.into() }
}

fn found(file: u64, kind: u32, size: u64) -> Answer {
    Answer { handle: Some(handle(file)), attr: attr(kind, size), ..Answer::default() }
}

fn read(file: u64, off: u64, len: u32) -> Call {
    Call::Read { file: handle(file), off, len }
}

fn verbs(records: &[Record]) -> Vec<&'static str> {
    let verb = |record: &Record| match record {
        Record::Node(_) => Some("node"),
        Record::Request { request, .. } => Some(Verb::of(&request.op).name()),
        Record::Reply { .. } => None,
    };
    records.iter().filter_map(verb).collect()
}

#[test]
fn a_file_is_known_by_a_name_that_comes_later_and_is_opened_and_closed() {
    let data = Answer { attr: attr(mode::REGULAR, 5000), count: Some(4096), ..Answer::default() };
    let exchanges = [
        exchange(0, read(7, 0, 4096), data.clone()),
        exchange(1, lookup(1, b"file"), found(7, mode::REGULAR, 5000)),
        exchange(2, read(7, 4096, 4096), Answer { count: Some(904), ..data.clone() }),
        exchange(100, read(7, 0, 4096), data),
    ];
    let (header, records, counts) = trace(&exchanges, &Options::default());
    let expected = [
        "node", "lookup", "node", "lookup", "open", "read", "lookup", "read", "release", "open",
        "read", "release",
    ];
    assert_eq!(verbs(&records), expected);
    let report = must_replay(&header, &records, "by name");
    assert_eq!(report.read_bytes, 4096 + 904 + 4096);
    assert_eq!((counts.nodes, counts.nameless, counts.opens, counts.lookups), (2, 1, 2, 2));
    let named = records.iter().any(|r| matches!(r, Record::Node(node) if &*node.name == b"file"));
    assert!(named);
}

/// Closes came a minute after their last use, and so after a capture of a third of a second: the trace of
/// it took a minute.
#[test]
fn a_trace_lasts_no_longer_than_its_capture() {
    let data = Answer { attr: attr(mode::REGULAR, 5000), count: Some(4096), ..Answer::default() };
    let exchanges = [exchange(0, read(7, 0, 4096), data.clone()), exchange(1, read(8, 0, 1), data)];
    let (header, records, _) = trace(&exchanges, &Options::default());
    assert!(verbs(&records).ends_with(&["read", "release", "release"]));
    let last = records.iter().map(|record| match record {
        Record::Request { at_ns, .. } | Record::Reply { at_ns, .. } => *at_ns,
        Record::Node(_) => 0,
    });
    assert_eq!(last.max(), Some(twin_rt::SECS + twin_rt::MILLIS));
    must_replay(&header, &records, "the end");
}

#[test]
fn durable_writes_and_commits_become_fsyncs() {
    let create = Call::Create {
        dir: handle(1),
        name: b"new"[..].into(),
        mode: mode::REGULAR | 0o644,
        exclusive: false,
        size: Some(0),
        target: Box::default(),
    };
    let write = |stable| Call::Write { file: handle(7), off: 0, len: 1000, stable };
    let done = Answer { count: Some(1000), ..Answer::default() };
    let commit = Call::Commit { file: handle(7) };
    let remove = Call::Remove { dir: handle(1), name: b"new"[..].into(), is_dir: false };
    let exchanges = [
        exchange(0, create, found(7, mode::REGULAR, 0)),
        exchange(1, write(false), done.clone()),
        exchange(2, commit, Answer::default()),
        exchange(3, write(true), done),
        exchange(4, remove, Answer::default()),
    ];
    let (header, records, counts) = trace(&exchanges, &Options::default());
    let expected = [
        "node", "lookup", "create", "write", "fsync", "write", "fsync", "unlink", "release",
        "forget",
    ];
    assert_eq!(verbs(&records), expected);
    must_replay(&header, &records, "writes");
    assert_eq!((counts.fsyncs, counts.opens), (1, 0));
}

#[test]
fn what_contradicts_the_rest_becomes_a_getattr() {
    let missing = Answer { status: nfs::NOT_FOUND, ..Answer::default() };
    let exchanges = [
        exchange(0, lookup(1, b"a"), found(7, mode::REGULAR, 1)),
        exchange(1, lookup(1, b"a"), missing),
        exchange(2, lookup(1, b"a"), found(8, mode::REGULAR, 1)),
    ];
    let (header, records, counts) = trace(&exchanges, &Options::default());
    assert_eq!(counts.contradictions, 2);
    must_replay(&header, &records, "contradictions");
}

#[test]
fn anonymous_traces_have_no_names_of_the_capture() {
    let listed = Listed { name: b"secret-2"[..].into(), attr: None, handle: None };
    let list = Call::ReadDir { dir: handle(1), cookie: 0, bytes: 4096, plus: false };
    let exchanges = [
        exchange(0, lookup(1, b"secret-1"), found(7, mode::REGULAR, 1)),
        exchange(1, list, Answer { entries: vec![listed], ..Answer::default() }),
        exchange(2, lookup(1, b"secret-2"), found(8, mode::REGULAR, 1)),
    ];
    let options = Options { anonymous: true, ..Options::default() };
    let (header, records, counts) = trace(&exchanges, &options);
    assert!(!format!("{records:?}").contains(&format!("{:?}", b"secret")[1..20]));
    assert_eq!(counts.contradictions, 0);
    must_replay(&header, &records, "anonymous");
}

/// A random call, about few files and names.
fn any_call(rng: &mut Rng) -> Call {
    let file = handle(rng.below(12));
    let dir = handle(rng.below(4));
    let name: Box<[u8]> = match rng.below(20) {
        0 => b".."[..].into(),
        1 => b"a/b"[..].into(),
        2 => Box::default(),
        n => [b'a' + (n % 6) as u8].into(),
    };
    let mode = [mode::REGULAR, mode::DIRECTORY, mode::SYMLINK, mode::FIFO][rng.below(4) as usize];
    match rng.below(15) {
        0 => Call::GetAttr { file },
        1 => {
            let size = rng.chance(0.5).then(|| rng.below(10_000));
            Call::SetAttr { file, mode: rng.chance(0.3).then_some(0o600), size }
        }
        2 | 3 => Call::Lookup { dir, name },
        4 => Call::Access { file },
        5 => Call::ReadLink { file },
        6 => Call::Read { file, off: rng.below(9000), len: rng.below(9000) as u32 },
        7 | 8 => {
            let (off, len) = (rng.below(9000), 1 + rng.below(9000) as u32);
            Call::Write { file, off, len, stable: rng.chance(0.3) }
        }
        9 | 10 => {
            let (exclusive, size) = (rng.chance(0.2), rng.chance(0.5).then(|| rng.below(3) * 100));
            let target = if mode == mode::SYMLINK { name.clone() } else { Box::default() };
            Call::Create { dir, name, mode: mode | 0o644, exclusive, size, target }
        }
        11 => Call::Remove { dir, name, is_dir: rng.chance(0.4) },
        12 => {
            let to_name = [b'a' + rng.below(6) as u8].into();
            Call::Rename { dir, name, to_dir: handle(rng.below(4)), to_name }
        }
        13 => Call::Link { file, dir, name },
        _ => Call::ReadDir { dir, cookie: rng.below(2), bytes: 4096, plus: rng.chance(0.5) },
    }
}

/// A random answer, which need not fit any call.
fn any_answer(rng: &mut Rng) -> Answer {
    let kind = [mode::REGULAR, mode::DIRECTORY, mode::SYMLINK][rng.below(3) as usize];
    let listed = |rng: &mut Rng| Listed {
        name: [b'a' + rng.below(6) as u8].into(),
        attr: if rng.chance(0.5) { attr(kind, rng.below(5000)) } else { None },
        handle: rng.chance(0.5).then(|| handle(rng.below(12))),
    };
    Answer {
        status: [0, 0, 0, 0, 2, 13, 17, 66][rng.below(8) as usize],
        handle: rng.chance(0.8).then(|| handle(rng.below(12))),
        attr: if rng.chance(0.7) { attr(kind, rng.below(5000)) } else { None },
        size_before: rng.chance(0.3).then(|| rng.below(5000)),
        count: rng.chance(0.8).then(|| rng.below(9000) as u32),
        entries: (0..rng.below(4)).map(|_| listed(rng)).collect(),
    }
}

#[test]
fn any_exchanges_make_a_trace_that_replays_as_it_says() {
    for seed in 0..300 {
        let mut rng = Rng::new(seed);
        let mut at_s = 0;
        let exchanges: Vec<_> = (0..120)
            .map(|_| {
                at_s += if rng.chance(0.05) { rng.below(100) } else { 1 };
                let call = any_call(&mut rng);
                let mut one = exchange(at_s, call, any_answer(&mut rng));
                one.client.set_ip([192, 0, 2, rng.below(3) as u8].into());
                one
            })
            .collect();
        let options = Options { anonymous: seed % 2 == 1, ..Options::default() };
        let (header, records, counts) = trace(&exchanges, &options);
        assert!(counts.asked > 0);
        must_replay(&header, &records, &format!("seed {seed}"));
    }
}
