//! Dumps, differences, histories, and following a volume.

use twin_rt::{ClockOnly, Rt};

use super::*;
use twin_fs::FileSystem;
use twin_fs::XattrMode;

/// A small tree with one of everything.
fn tree() -> Bench {
    let mut b = Bench::stamps();
    let d = b.dir(ROOT, "d");
    let f = b.file(d, "f");
    b.link(f, ROOT, "g");
    b.write(f, 10_000, b"data");
    b.entry(Op::Symlink { dir: d, name: n("l"), target: (*b"f").into() });
    b.entry(Op::MakeNode { dir: d, name: n("p"), mode: mode::FIFO | 0o600, rdev: 0 });
    b.done(Op::SetXattr { ino: d, name: n("user.x"), value: (*b"v").into(), mode: XattrMode::Any });
    b
}

pub(super) fn walk(model: ModelFs) -> (Result<Dump, DumpError>, ModelFs) {
    let rt = Rt::new(ClockOnly::default(), 1);
    let mounted = Mounted::new(rt.clone(), model);
    let dumped = rt.block_on(dump(&mounted, &mut 1)).unwrap();
    let after = mounted.snapshot();
    (dumped, after)
}

#[test]
fn a_walk_gives_the_dump_of_the_model_and_leaves_no_trace() {
    for bytes in [false, true] {
        let mut b = tree();
        if bytes {
            b.model.settings = Rc::new(Settings::default());
            let f = b.lookup(ROOT, "g").unwrap();
            b.write(f, 5, &[3; 300_000]);
            b.write(f, 1 << 40, b"far");
        }
        b.model.crash();
        let (walked, mut after) = walk(b.model.clone());
        assert_eq!(walked.unwrap(), b.model.dump());
        let paths: Vec<_> = b.model.dump().nodes.into_keys().collect();
        let expected: [&[u8]; 6] = [b"/", b"/d", b"/d/f", b"/d/l", b"/d/p", b"/g"];
        assert_eq!(paths.iter().map(|path| &**path).collect::<Vec<_>>(), expected);
        let f = b.lookup(ROOT, "g").unwrap();
        let mut unlink = |dir, name| {
            let op = Op::Unlink { dir, name: n(name) };
            after.apply(Time(0), &Request::root(99, op)).unwrap();
        };
        unlink(ROOT, "g");
        unlink(b.lookup(ROOT, "d").unwrap(), "f");
        assert!(after.inode(f).is_err(), "the walk still holds a reference");
    }
}

#[test]
fn a_dump_knows_which_paths_share_an_inode() {
    let dump = tree().model.dump();
    assert_eq!(dump.nodes[&b"/g"[..]].same_as.as_deref(), Some(&b"/d/f"[..]));
    assert_eq!(dump.nodes[&b"/d/f"[..]].same_as, None);
    assert_eq!(dump.contradiction(), None);
}

#[test]
fn a_wrong_link_count_is_a_contradiction() {
    let mut b = tree();
    let d = b.lookup(ROOT, "d").unwrap();
    b.model.edit(d).attr.nlink = 3;
    assert_eq!(b.model.dump().contradiction().unwrap(), "/d: 3 links counted, 2 found");
}

/// Each change of a tree is named by the first difference.
#[test]
fn differences_are_said_in_words() {
    let base = tree();
    let words = |change: &dyn Fn(&mut Bench, Ino), compare: Compare| {
        let mut b = tree();
        let d = b.lookup(ROOT, "d").unwrap();
        change(&mut b, d);
        diff(&base.model.dump(), &b.model.dump(), ["first", "second"], &compare)
    };
    let no_times = Compare { times: false, ..Compare::default() };
    assert_eq!(words(&|_, _| {}, Compare::default()), None);
    let chmod = |b: &mut Bench, d| {
        let set = SetAttr { mode: Some(0o700), ..SetAttr::default() };
        b.ask(Op::SetAttr { ino: d, set }).unwrap();
    };
    let said = words(&chmod, no_times).unwrap();
    assert_eq!(said, "/d: the mode is \"40777\" in the first, \"40700\" in the second");
    let touch = |b: &mut Bench, d| {
        b.file(d, "x");
        b.done(Op::Unlink { dir: d, name: n("x") });
    };
    assert_eq!(words(&touch, no_times), None);
    assert!(words(&touch, Compare::default()).unwrap().contains("/d: the modification time is"));
    let make = |b: &mut Bench, d| {
        b.file(d, "x");
    };
    let said = words(&make, no_times).unwrap();
    assert_eq!(said, "/d/x: it is in the second, not in the first");
    let write = |b: &mut Bench, d| {
        let f = b.lookup(d, "f").unwrap();
        b.write(f, 0, b"x");
    };
    assert!(words(&write, no_times).unwrap().starts_with("/d/f: the digest of the content is"));
    assert_eq!(words(&write, Compare { content: false, ..no_times }), None);
    let relink = |b: &mut Bench, _| {
        b.done(Op::Unlink { dir: ROOT, name: n("g") });
        b.file(ROOT, "g");
    };
    assert!(words(&relink, no_times).unwrap().contains("/d/f: the number of links is 2"));
}

#[test]
fn a_history_finds_the_newest_state_that_a_tree_is_of() {
    let mut b = Bench::bytes();
    let mut history = History::new(&b.model);
    for i in 0..10 {
        b.file(ROOT, &format!("f{i}"));
        history.push(&b.model);
    }
    let compare = Compare::default();
    assert_eq!(history.newest(), 10);
    assert_eq!(history.find(history.dump(4), 0, &compare), Match::At(4));
    assert_eq!(history.find(&history.state(4).dump(), 4, &compare), Match::At(4));
    let lost = history.find(&history.state(4).dump(), 5, &compare);
    let difference = "/: the modification time is ";
    match lost {
        Match::Nowhere { nearest: 5, difference: said } => {
            assert!(said.starts_with(difference), "{said}");
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_history_finds_the_states_of_one_path() {
    let mut b = Bench::bytes();
    let mut history = History::new(&b.model);
    let f = b.file(ROOT, "f");
    for _ in 0..3 {
        history.push(&b.model);
        b.write(f, 0, b"x");
    }
    let (path, compare) = (&b"/f"[..], Compare { times: false, ..Compare::default() });
    let dump = history.dump(1).clone();
    let node = dump.nodes.get(path);
    assert_eq!(history.find_node(path, node, 0, &compare), Some(1));
    assert_eq!(history.find_node(path, node, 2, &compare), None);
    assert_eq!(history.find_node(path, None, 0, &compare), Some(0));
}

/// Asks a second model, with other inode numbers, and gives its replies to the first.
struct Pair {
    volume: ModelFs,
    model: ModelFs,
    id: u64,
}

impl Pair {
    fn new() -> Pair {
        let volume = Bench::stamps().model;
        let model = volume.clone();
        Pair { volume: ModelFs { next_ino: 1000, ..volume }, model, id: 0 }
    }

    fn ask(&mut self, op: Op) -> (Result<Reply>, Result<Followed, String>) {
        self.id += 1;
        let (now, request) = (Time(self.id * SECS), Request::root(self.id, op));
        let reply = self.volume.apply(now, &request);
        let followed = self.model.follow(now, &request, &reply);
        (reply, followed)
    }

    fn entry(&mut self, op: Op) -> Ino {
        match self.ask(op) {
            (Ok(Reply::Entry(entry)), Ok(Followed::Same)) => entry.attr.ino,
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn a_follower_takes_over_the_numbers_of_new_inodes() {
    let mut pair = Pair::new();
    let create = Op::Create { dir: ROOT, name: n("f"), mode: 0o600, exclusive: true };
    let f = pair.entry(create);
    assert_eq!(f, 1000);
    let write = Op::Write { ino: f, off: 9, data: Data::Synthetic(9000) };
    assert_eq!(pair.ask(write).1, Ok(Followed::Same));
    assert_eq!(pair.ask(Op::Read { ino: f, off: 0, len: 9999 }).1, Ok(Followed::Same));
    let white = Op::Rename {
        dir: ROOT,
        name: n("f"),
        to_dir: ROOT,
        to_name: n("g"),
        mode: RenameMode::Whiteout,
    };
    assert_eq!(pair.ask(white).1, Ok(Followed::Same));
    let list = Op::ReadDir { dir: ROOT, cookie: 0, max_bytes: 9999, plus: true };
    assert_eq!(pair.ask(list).1, Ok(Followed::Same));
    assert_eq!(pair.model.dump(), pair.volume.dump());
}

#[test]
fn a_follower_says_where_replies_part() {
    let mut pair = Pair::new();
    let f = pair.entry(Op::Create { dir: ROOT, name: n("f"), mode: 0o600, exclusive: true });
    pair.ask(Op::Write { ino: f, off: 0, data: Data::Synthetic(5000) }).1.unwrap();
    let wrong = |op: Op, reply: Result<Reply>| {
        let followed = pair.model.clone().follow(Time(9), &Request::root(9, op), &reply);
        followed.expect_err("a wrong reply passed")
    };
    let read = Op::Read { ino: f, off: 0, len: 4096 };
    let stale = Block::Stamp(twin_disk::Stamp { ino: f, lbn: 0, version: 1, off: 0, len: 4096 });
    assert!(wrong(read.clone(), Ok(Reply::Data(vec![stale]))).contains("data at 0: expected"));
    let short = Ok(Reply::Data(vec![Block::Zero(10)]));
    assert!(wrong(read.clone(), short).contains("bytes read: expected 4096, got 10"));
    assert!(wrong(read, Err(FsError::Stale)).contains("got the error"));
    let lookup = Op::Lookup { dir: ROOT, name: n("x") };
    let found = Ok(Reply::Entry(LookupEntry { attr: Attr::default(), generation: 1 }));
    assert!(wrong(lookup, found).contains("expected the error \"no such file"));
    let list = Op::ReadDir { dir: ROOT, cookie: 0, max_bytes: 9999, plus: false };
    assert!(wrong(list.clone(), Ok(Reply::Dir(vec![]))).contains("begin with . and .."));
    let at = |name: &str, ino| twin_fs::DirEntry {
        name: n(name),
        ino,
        kind: mode::DIRECTORY,
        next: 0,
        entry: None,
    };
    let dots = [at(".", ROOT), at("..", ROOT)];
    let with = |more: &[twin_fs::DirEntry]| Ok(Reply::Dir([&dots[..], more].concat()));
    assert!(wrong(list.clone(), with(&[at("x", 5)])).contains("x is listed but does not exist"));
    assert!(wrong(list.clone(), with(&[at("f", f)])).contains("f is inode 1000, kind 100000"));
    assert!(wrong(list, with(&dots[..1])).contains(". is listed twice"));
}

#[test]
fn no_room_leaves_the_model_as_it_was() {
    let mut pair = Pair::new();
    let op = Op::MakeDir { dir: ROOT, name: n("d"), mode: 0 };
    let before = pair.model.dump();
    let followed = pair.model.follow(Time(5), &Request::root(5, op), &Err(FsError::NoSpace));
    assert_eq!((followed, pair.model.dump()), (Ok(Followed::NoRoom), before));
}

#[test]
fn a_mounted_model_has_the_time_of_its_runtime() {
    let rt = Rt::new(ClockOnly::default(), 1);
    let mounted = Mounted::new(rt.clone(), Bench::bytes().model);
    let op = Op::MakeDir { dir: ROOT, name: n("d"), mode: 0o755 };
    let made = rt.clone().block_on(async {
        rt.sleep(7 * SECS).await;
        mounted.execute(Request::root(1, op)).await
    });
    match made {
        Ok(Ok(Reply::Entry(entry))) => assert_eq!(entry.attr.btime.secs, 7),
        other => panic!("{other:?}"),
    }
}
