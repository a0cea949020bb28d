//! Small recordings, and what they become on the next day.

use twin_fs::Data;
use twin_rt::SECS;
use twin_rt::Time;
use twin_trace::{ErrorCode, Kind, Reader, Traits};

use super::*;
use crate::map::{FileKind, FileMap, NameOf};

/// What existed before, and operations with their answers, a second apart.
#[derive(Default)]
struct Day {
    nodes: Vec<Node>,
    ops: Vec<(Op, Outcome)>,
}

fn name(text: &str) -> Name {
    text.as_bytes().into()
}

impl Day {
    fn had(mut self, dir: Ino, text: &str, ino: Ino, size: u64) -> Day {
        let attr = Some(NodeAttr { nlink: 1, size, allocated: size, ..NodeAttr::default() });
        self.nodes.push(Node { dir, name: name(text), ino, mode: mode::REGULAR | 0o644, attr });
        self
    }

    fn had_dir(mut self, dir: Ino, text: &str, ino: Ino) -> Day {
        let attr = Some(NodeAttr::default());
        self.nodes.push(Node { dir, name: name(text), ino, mode: mode::DIRECTORY | 0o755, attr });
        self
    }

    fn op(mut self, op: Op, outcome: Outcome) -> Day {
        self.ops.push((op, outcome));
        self
    }

    fn make(self, dir: Ino, text: &str, ino: Ino, size: u64) -> Day {
        let op = Op::Create { dir, name: name(text), mode: 0o644, exclusive: true };
        self.op(op, Outcome::Entry(ino)).write(ino, 0, size)
    }

    fn write(self, ino: Ino, off: u64, len: u64) -> Day {
        self.op(Op::Write { ino, off, data: Data::Synthetic(len) }, Outcome::Written(len))
    }

    fn remove(self, dir: Ino, text: &str) -> Day {
        self.op(Op::Unlink { dir, name: name(text) }, Outcome::Done)
    }

    fn mv(self, dir: Ino, from: &str, to: &str) -> Day {
        let mode = RenameMode::Replace;
        let op = Op::Rename { dir, name: name(from), to_dir: dir, to_name: name(to), mode };
        self.op(op, Outcome::Done)
    }

    fn trace(&self) -> Vec<u8> {
        let traits = Traits { timed: true, nodes_first: true, ..Traits::default() };
        let header = Header {
            kind: Kind::Operations,
            start: Time(0),
            seed: 1,
            traits,
            text: "a day".into(),
        };
        let mut writer = Writer::new(Vec::new(), &header).unwrap();
        self.nodes.iter().for_each(|node| writer.node(node).unwrap());
        for (nth, (op, outcome)) in self.ops.iter().enumerate() {
            let at_ns = nth as u64 * SECS;
            let id = writer.request(at_ns, &Request::root(0, op.clone())).unwrap();
            writer.reply(at_ns, id, outcome).unwrap();
        }
        writer.finish().unwrap()
    }

    /// The operations of the next day, in words, and the report about it.
    fn next(&self, map: &VolumeMap) -> (Vec<String>, Told) {
        self.next_of(map, Window { last_ns: None, requests: None })
    }

    fn next_of(&self, map: &VolumeMap, window: Window) -> (Vec<String>, Told) {
        let trace = self.trace();
        let open = || Reader::new(&trace[..]);
        let next = again::<_, TraceError>(open, window, map, 1).unwrap();
        let mut reader = Reader::new(&next.trace[..]).unwrap();
        let mut words = Vec::new();
        let mut answered = 0;
        while let Some(record) = reader.next_record().unwrap() {
            match record {
                Record::Request { request, .. } => words.extend(word(&request.op)),
                Record::Reply { .. } => answered += 1,
                Record::Node(_) => {}
            }
        }
        assert_eq!(answered, next.told.requests, "each request is answered");
        (words, next.told)
    }
}

fn word(op: &Op) -> Option<String> {
    let text = |name: &Name| String::from_utf8_lossy(name).into_owned();
    Some(match op {
        Op::Create { name, .. } => format!("+{}", text(name)),
        Op::Unlink { name, .. } => format!("-{}", text(name)),
        Op::RemoveDir { name, .. } => format!("-{}/", text(name)),
        Op::Rename { name, to_name, .. } => format!("{}>{}", text(name), text(to_name)),
        Op::Lookup { name, .. } => format!("?{}", text(name)),
        Op::Write { off, data, .. } | Op::WriteBack { off, data, .. } => {
            format!("{off}+{}", data.len())
        }
        Op::SetAttr { set, .. } => format!("={}", set.size?),
        _ => return None,
    })
}

/// A map of a volume with these files: directory, inode, name, size and age in days. Names that end with
/// a slash are directories.
fn map(files: &[(u64, u64, &str, u64, i64)]) -> VolumeMap {
    let mut map = VolumeMap { taken_s: 0, ..VolumeMap::default() };
    for (dir, ino, text, size, days) in files {
        let (text, kind) = match text.strip_suffix('/') {
            Some(text) => (text, FileKind::Directory),
            None => (*text, FileKind::File),
        };
        let mtime_s = 1_000_000_000 - days * 86_400;
        map.files.push(FileMap { ino: *ino, kind, size: *size, mtime_s, runs: Vec::new() });
        map.names.push(NameOf { dir: *dir, ino: *ino, name: text.into() });
    }
    map
}

#[test]
fn what_was_made_is_made_beside_it_and_what_went_again_comes_again() {
    let day = Day::default().make(2, "tmp", 10, 1).remove(2, "tmp").make(2, "mail", 11, 7);
    let (words, told) = day.next(&map(&[(2, 50, "mail", 7, 0)]));
    assert_eq!(words, ["+tmp", "0+1", "-tmp", "+mail~2", "0+7"]);
    assert_eq!((told.other_names, told.successors, told.left_out), (1, 0, 0));
    assert_eq!(told.span_ns, 4 * SECS);
    // The names of a third day count on.
    let day = Day::default().make(2, "mail~2", 10, 7);
    let (words, _) = day.next(&map(&[(2, 50, "mail", 7, 1), (2, 51, "mail~2", 7, 0)]));
    assert_eq!(words, ["+mail~3", "0+7"]);
}

#[test]
fn what_is_replaced_or_rotated_keeps_its_name() {
    let day = Day::default()
        .had(2, "doc", 10, 5)
        .had(2, "log", 11, 5)
        .had(2, "log.1", 12, 5)
        .make(2, "doc.new", 20, 6)
        .mv(2, "doc.new", "doc")
        .mv(2, "log", "log.1")
        .make(2, "log", 21, 3);
    let now = [(2, 50, "doc", 6, 0), (2, 51, "log", 3, 0), (2, 52, "log.1", 5, 0)];
    let (words, told) = day.next(&map(&now));
    assert_eq!(words, ["+doc.new", "0+6", "doc.new>doc", "log>log.1", "+log", "0+3"]);
    assert_eq!((told.other_names, told.successors, told.left_out), (0, 0, 0));
}

#[test]
fn what_went_has_the_oldest_as_its_successor_if_no_young_file_goes() {
    let day = Day::default().had(2, "a1", 10, 5).make(2, "a4", 20, 5).remove(2, "a1");
    let now = [(2, 50, "a4", 5, 0), (2, 51, "a3", 5, 8), (2, 52, "a2", 5, 9)];
    let (words, told) = day.next(&map(&now));
    assert_eq!(words, ["+a4~2", "0+5", "-a2"]);
    assert_eq!((told.successors, told.left_out), (1, 0));
    // A name that was never looked up, too.
    let day = Day::default().make(2, "a4", 20, 5).remove(2, "a1");
    assert_eq!(day.next(&map(&now)).0, ["+a4~2", "0+5", "-a2"]);
    // What the day has written to is not given up.
    let day =
        Day::default().had(2, "a1", 10, 5).had(2, "a2", 11, 5).write(11, 0, 5).remove(2, "a1");
    assert_eq!(day.next(&map(&now)).0, ["0+5", "-a3"]);
}

#[test]
fn what_went_has_what_the_day_left_as_its_successor_if_files_die_young() {
    let day = Day::default()
        .had(2, "y", 10, 5)
        .remove(2, "y")
        .make(2, "a", 20, 5)
        .make(2, "b", 21, 5)
        .remove(2, "a")
        .make(2, "c", 22, 5);
    let now = [(2, 50, "static", 5, 900), (2, 51, "b", 5, 0), (2, 52, "c", 5, 0)];
    let (words, _) = day.next(&map(&now));
    assert_eq!(words, ["-b", "+a", "0+5", "+b", "0+5", "-a", "+c~2", "0+5"]);
    // In another directory by size.
    let day = Day::default()
        .had_dir(2, "d", 3)
        .had(3, "y", 10, 90)
        .make(2, "b", 21, 80)
        .make(2, "c", 22, 5)
        .remove(3, "y");
    let now = [(2, 50, "d/", 0, 9), (2, 51, "b", 80, 0), (2, 52, "c", 5, 0)];
    let (words, told) = day.next(&map(&now));
    assert_eq!(words, ["+b~2", "0+80", "+c~2", "0+5", "-b"]);
    assert_eq!(told.successors, 1);
}

#[test]
fn what_has_nothing_to_fall_on_is_left_out_and_told() {
    let missing = Op::Lookup { dir: 2, name: name("x") };
    let day = Day::default()
        .had(2, "a1", 10, 5)
        .write(10, 0, 5)
        .remove(2, "a1")
        .op(missing, Outcome::Failed(ErrorCode::NotFound))
        .op(Op::Unlink { dir: 2, name: name("y") }, Outcome::Failed(ErrorCode::NotFound));
    let (words, told) = day.next(&map(&[]));
    assert_eq!(words, ["?x"]);
    assert_eq!((told.left_out, told.requests), (2, 1));
}

#[test]
fn what_grew_grows_on_from_its_end_until_it_is_rewritten() {
    let shorter = |size| Op::SetAttr {
        ino: 10,
        set: twin_fs::SetAttr { size: Some(size), ..Default::default() },
    };
    let page = Op::WriteBack { ino: 10, off: 8192, data: Data::Synthetic(1000) };
    let day = Day::default()
        .had(2, "log", 10, 9000)
        .write(10, 9000, 100)
        .write(10, 500, 20)
        .op(page, Outcome::Written(1000))
        .op(shorter(0), Outcome::Attr)
        .write(10, 0, 30);
    let (words, _) = day.next(&map(&[(2, 50, "log", 30_000, 0)]));
    // A page that was whole at its beginning stays so: 21,000 bytes have been added to 9,000.
    assert_eq!(words, ["30000+100", "500+20", "28672+1520", "=0", "0+30"]);
    // Who leaves a hole does not add.
    let day = Day::default().had(2, "sparse", 10, 10).write(10, 1 << 40, 5);
    let (words, _) = day.next(&map(&[(2, 50, "sparse", (1 << 40) + 5, 0)]));
    assert_eq!(words, [format!("{}+5", 1u64 << 40)]);
}

#[test]
fn a_directory_that_goes_is_emptied_first() {
    let day = Day::default()
        .had_dir(2, "v1", 10)
        .had(10, "x", 11, 5)
        .op(Op::MakeDir { dir: 2, name: name("v3"), mode: 0o755 }, Outcome::Entry(20))
        .make(20, "x", 21, 5)
        .make(20, "y", 22, 5)
        .remove(10, "x")
        .op(Op::RemoveDir { dir: 2, name: name("v1") }, Outcome::Done);
    let now = [
        (2, 50, "v3/", 0, 0),
        (50, 51, "x", 5, 0),
        (50, 52, "y", 5, 0),
        (2, 60, "v2/", 0, 5),
        (60, 61, "x", 5, 5),
        (60, 62, "z", 5, 5),
    ];
    let (words, told) = day.next(&map(&now));
    assert_eq!(words, ["+x", "0+5", "+y", "0+5", "-x", "-z", "-v2/"]);
    assert_eq!((told.emptied, told.left_out), (1, 0));
}

#[test]
fn only_the_window_is_repeated() {
    let day = Day::default()
        .make(2, "a", 10, 5)
        .write(10, 5, 5)
        .make(2, "b", 11, 1)
        .write(10, 10, 10)
        .make(2, "c", 12, 1);
    let now = map(&[(2, 50, "a", 20, 0), (2, 51, "b", 1, 0), (2, 52, "c", 1, 0)]);
    let window = Window { last_ns: Some(2 * SECS), requests: None };
    let (words, _) = day.next_of(&now, window);
    assert_eq!(words, ["20+10", "+c~2", "0+1"]);
    let window = Window { last_ns: None, requests: Some(3) };
    let (words, _) = day.next_of(&now, window);
    assert_eq!(words, ["+a~2", "0+5", "5+5"]);
}
