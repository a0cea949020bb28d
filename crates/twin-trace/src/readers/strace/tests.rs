//! Calls become operations on one tree.

use twin_fs::Op;

use super::*;
use crate::record::Outcome;

fn records(text: &'static str) -> Vec<Record> {
    all(text).0
}

/// All records, and what was made of the lines.
fn all(text: &'static str) -> (Vec<Record>, Reading) {
    let mut source = start(text);
    let records = std::iter::from_fn(|| source.next_record().unwrap()).collect();
    (records, source.reading())
}

fn start(text: &'static str) -> Box<dyn Source> {
    open(Again::new(move || Ok(std::io::Cursor::new(text)))).unwrap()
}

fn ops(text: &'static str) -> Vec<Op> {
    let requests = records(text).into_iter().filter_map(|record| match record {
        Record::Request { request, .. } => Some(request.op),
        _ => None,
    });
    requests.collect()
}

#[test]
fn what_was_there_before_has_the_length_that_the_trace_tells() {
    let all = records(
        "7 1.0 openat(AT_FDCWD</w>, \"../in/a\", O_RDONLY) = 3</in/a> <0.5>\n\
         7 2.0 newfstatat(3</in/a>, \"\", {st_mode=S_IFREG|0644, st_size=9000, ...}, AT_EMPTY_PATH) = 0\n\
         7 3.0 read(3</in/a>, \"x\"..., 4096) = 4096\n\
         7 3.0 mmap(NULL, 9, PROT_READ, MAP_PRIVATE, 3</in/a>, 0) = 0x7f00 <9.0>\n\
         7 3.0 read(3</in/a>, \"x\"..., 4096) = 4096\n\
         7 4.0 close(3</in/a>) = 0\n",
    );
    let nodes: Vec<(Vec<u8>, bool, u64)> = all
        .iter()
        .filter_map(|record| match record {
            Record::Node(n) => Some((n.name.to_vec(), n.is_dir(), n.attr.map_or(0, |a| a.size))),
            _ => None,
        })
        .collect();
    assert_eq!(nodes, [(b"in".to_vec(), true, 0), (b"a".to_vec(), false, 9000)]);
    let reads: Vec<(u64, u64)> = all
        .iter()
        .filter_map(|record| match record {
            Record::Request { at_ns, request } => match request.op {
                Op::Read { off, .. } => Some((*at_ns, off)),
                _ => None,
            },
            _ => None,
        })
        .collect();
    assert_eq!(reads, [(2_000_000_000, 0), (2_000_000_000, 4096)]);
    let answer = all.iter().find_map(|record| match record {
        Record::Reply { at_ns, outcome: Outcome::Done, .. } => Some(*at_ns),
        _ => None,
    });
    // The call to open took so long; a call without an operation changes no earlier answer.
    assert_eq!(answer, Some(500_000_000));
}

#[test]
fn a_child_has_the_descriptors_and_the_directory_of_its_parent() {
    let ops = ops("1 1.0 openat(AT_FDCWD</w>, \"log\", O_WRONLY|O_CREAT|O_APPEND, 0644) = 3\n\
         1 1.5 write(3, \"ab\", 2) = 2\n\
         1 2.0 vfork( <unfinished ...>\n\
         2 2.1 write(3, \"cde\", 3) = 3\n\
         2 2.2 mkdir(\"d\", 0755) = 0\n\
         2 2.2 +++ exited with 0 +++\n\
         1 2.3 <... vfork resumed>) = 2\n\
         1 3.0 close(3) = 0\n");
    let written: Vec<u64> = ops
        .iter()
        .filter_map(|op| match op {
            Op::Write { off, .. } => Some(*off),
            _ => None,
        })
        .collect();
    assert_eq!(written, [0, 2]);
    assert!(ops.iter().any(|op| matches!(op, Op::MakeDir { name, .. } if name.as_ref() == b"d")));
    let releases = ops.iter().filter(|op| matches!(op, Op::Release { .. })).count();
    assert_eq!((releases, matches!(ops.last(), Some(Op::Release { .. }))), (1, true));
}

#[test]
fn names_are_renamed_linked_and_removed() {
    let ops = ops("close(9) = -1 EBADF (Bad file descriptor)\n\
         creat(\"/a\", 0644) = 3\n\
         close(3) = 0\n\
         link(\"/a\", \"/b\") = 0\n\
         rename(\"/a\", \"/c\") = 0\n\
         unlink(\"/b\") = 0\n\
         unlink(\"/c\") = 0\n\
         unlink(\"/c\") = -1 ENOENT (No such file or directory)\n");
    let kinds: Vec<&str> = ops
        .iter()
        .filter_map(|op| match op {
            Op::Link { .. } => Some("link"),
            Op::Rename { .. } => Some("rename"),
            Op::Unlink { .. } => Some("unlink"),
            Op::Forget { .. } => Some("forget"),
            _ => None,
        })
        .collect();
    assert_eq!(kinds, ["link", "rename", "unlink", "unlink", "forget"]);
}

#[test]
fn devices_are_passed_by_and_what_is_not_known_is_left_out() {
    let (records, reading) = all("open(\"/proc/self/stat\", O_RDONLY) = 3\n\
         read(3, \"x\", 1) = 1\n\
         write(1, \"x\", 1) = 1\n");
    assert!(records.is_empty());
    assert_eq!((reading.used(), reading.passed(), reading.left_out_count()), (0, 2, 1));
}

#[test]
fn a_line_that_is_none_of_strace_is_an_error_with_its_number() {
    let text = "close(3) = 0\n\nnonsense\n";
    let mut source = start(text);
    let error = std::iter::from_fn(|| Some(source.next_record())).find_map(Result::err).unwrap();
    assert!(error.to_string().contains("line 3"), "{error}");
}

#[test]
fn an_answer_comes_after_the_call_and_before_what_depends_on_it() {
    let all = records(
        "1 1.0 mkdir(\"/d\", 0755) = 0 <0.1>\n\
         1 1.2 wait4(-1, NULL, 0, NULL) = 2 <5.0>\n\
         1 6.3 mkdir(\"/d/e\", 0755) = 0 <0.1>\n",
    );
    let answered = |name: &[u8]| {
        let request = all.iter().find_map(|record| match record {
            Record::Request { request, .. } => match &request.op {
                Op::MakeDir { name: made, .. } if made.as_ref() == name => Some(request.id),
                _ => None,
            },
            _ => None,
        });
        all.iter().find_map(|record| match record {
            Record::Reply { id, at_ns, .. } if Some(*id) == request => Some(*at_ns),
            _ => None,
        })
    };
    assert_eq!((answered(b"d"), answered(b"e")), (Some(100_000_000), Some(5_400_000_000)));
}
