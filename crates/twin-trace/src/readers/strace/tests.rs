//! Calls become operations on one tree.

use twin_fs::Op;

use super::*;
use crate::record::{Outcome, Verb};

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

/// The verbs of the operations, with what tells them apart.
fn verbs(text: &'static str) -> Vec<Verb> {
    ops(text).iter().map(Verb::of).collect()
}

fn bytes(ops: &[Op]) -> (u64, u64) {
    let mut sums = (0, 0);
    for op in ops {
        match op {
            Op::Read { len, .. } => sums.0 += u64::from(*len),
            Op::Write { data, .. } => sums.1 += data.len(),
            _ => {}
        }
    }
    sums
}

fn existed(text: &'static str) -> Vec<(String, u64)> {
    let nodes = records(text).into_iter().filter_map(|record| match record {
        Record::Node(node) => Some(node),
        _ => None,
    });
    let name = |node: &Node| String::from_utf8_lossy(&node.name).into_owned();
    nodes.map(|node| (name(&node), node.attr.map_or(0, |attr| attr.size))).collect()
}

fn assumed(text: &'static str, what: &str) -> Option<u64> {
    let (_, reading) = all(text);
    let found = reading.assumed().iter().find(|assumed| assumed.what.contains(what));
    found.map(|assumed| assumed.count.unwrap_or(1))
}

#[test]
fn a_file_without_a_name_is_made_under_one_that_is_removed_at_once() {
    let text = "1 1.0 openat(AT_FDCWD</w>, \".\", O_RDWR|O_TMPFILE, 0600) = 3</w/#5>(deleted)\n\
         1 1.1 write(3</w/#5>(deleted), \"x\"..., 500) = 500\n\
         1 1.2 pread64(3</w/#5>(deleted), \"x\"..., 500, 0) = 500\n\
         1 1.3 close(3</w/#5>(deleted)) = 0\n";
    let kept = [Verb::Create, Verb::Unlink, Verb::Write, Verb::Read, Verb::Release];
    let verbs: Vec<Verb> = verbs(text).into_iter().filter(|verb| kept.contains(verb)).collect();
    assert_eq!(verbs, kept);
    assert_eq!(assumed(text, "O_TMPFILE"), Some(1));
}

#[test]
fn a_file_without_a_name_that_is_linked_later_is_renamed() {
    for link in [
        "linkat(AT_FDCWD</w>, \"/proc/self/fd/3\", AT_FDCWD</w>, \"named\", AT_SYMLINK_FOLLOW) = 0\n",
        "linkat(3</w/#5>(deleted), \"\", AT_FDCWD</w>, \"named\", AT_EMPTY_PATH) = 0\n",
    ] {
        let text = format!(
            "openat(AT_FDCWD</w>, \"/w\", O_WRONLY|O_TMPFILE, 0600) = 3</w/#5>(deleted)\n\
             write(3</w/#5>(deleted), \"x\"..., 500) = 500\n{link}\
             close(3) = 0\n\
             openat(AT_FDCWD</w>, \"named\", O_RDONLY) = 3</w/named>\n\
             read(3</w/named>, \"x\"..., 4096) = 500\n"
        );
        let text: &'static str = text.leak();
        let verbs = verbs(text);
        assert!(verbs.contains(&Verb::Rename) && !verbs.contains(&Verb::Unlink), "{verbs:?}");
        assert_eq!((bytes(&ops(text)), existed(text).len()), ((500, 500), 1));
    }
}

#[test]
fn a_file_opened_with_o_creat_existed_if_more_is_told_than_was_written() {
    let open = "1 1.0 openat(AT_FDCWD</w>, \"db\", O_RDWR|O_CREAT, 0644) = 3</w/db>\n";
    for (told, size) in [
        ("1 1.1 fstat(3</w/db>, {st_mode=S_IFREG|0644, st_size=9000, ...}) = 0\n", 9000),
        ("1 1.1 read(3</w/db>, \"x\"..., 100) = 100\n", 100),
        ("1 1.1 lseek(3</w/db>, 0, SEEK_END) = 700\n", 700),
        ("1 1.1 lseek(3</w/db>, -10, SEEK_END) = 690\n", 0),
        (
            "1 1.1 write(3</w/db>, \"x\"..., 50) = 50\n\
             1 1.2 statx(3</w/db>, \"\", AT_EMPTY_PATH, STATX_ALL, {stx_mode=S_IFREG|0644, stx_size=300, ...}) = 0\n",
            300,
        ),
    ] {
        let text: &'static str = format!("{open}{told}").leak();
        let file = existed(text).into_iter().find(|(name, _)| name == "db");
        assert_eq!(file.map_or(0, |(_, size)| size), size, "{told}");
        assert_eq!(assumed(text, "O_CREAT"), (size == 0).then_some(1), "{told}");
    }
}

#[test]
fn what_was_appended_to_a_file_that_existed_was_not_there_before() {
    let text = "1 1.0 openat(AT_FDCWD</w>, \"log\", O_WRONLY|O_CREAT|O_APPEND, 0644) = 3</w/log>\n\
         1 1.1 write(3</w/log>, \"x\"..., 50) = 50\n\
         1 1.2 fstat(3</w/log>, {st_mode=S_IFREG|0644, st_size=1050, ...}) = 0\n";
    assert!(existed(text).contains(&("log".into(), 1000)));
    assert!(ops(text).iter().any(|op| matches!(op, Op::Write { off: 1000, .. })));
}

#[test]
fn a_file_that_the_trace_removed_is_new_when_it_is_made_again() {
    let text = "unlink(\"/w/a\") = 0\n\
         openat(AT_FDCWD, \"/w/a\", O_RDWR|O_CREAT, 0644) = 3\n";
    assert_eq!(assumed(text, "O_CREAT"), None);
    assert!(verbs(text).ends_with(&[Verb::Unlink, Verb::Forget, Verb::Lookup, Verb::Create]));
}

#[test]
fn of_descriptors_that_were_open_before_the_path_is_told() {
    let text = "1 1.0 pwrite64(3</w/db>, \"a\"..., 4096, 0) = 4096\n\
         1 1.1 read(4</w/in>, \"a\"..., 10) = 10\n\
         1 1.2 write(1</dev/pts/0<char 136:0>>, \"a\", 1) = 1\n\
         1 1.3 write(7<pipe:[5]>, \"a\", 1) = 1\n\
         1 1.4 fsync(3</w/db>) = 0\n";
    let (_, reading) = all(text);
    assert_eq!((reading.used(), reading.passed(), reading.left_out_count()), (3, 2, 0));
    assert_eq!(bytes(&ops(text)), (10, 4096));
    assert_eq!(assumed(text, "were open before"), Some(2));
}

#[test]
fn a_descriptor_that_names_another_file_is_for_that_file() {
    let text = "1 1.0 openat(AT_FDCWD</w>, \"a\", O_WRONLY|O_CREAT|O_TRUNC, 0644) = 3</w/a>\n\
         1 1.1 write(3</w/a>, \"a\"..., 10) = 10\n\
         1 1.2 write(3</w/b>, \"a\"..., 20) = 20\n\
         1 1.3 rename(\"/w/b\", \"/w/c\") = 0\n\
         1 1.4 write(3</w/c>, \"a\"..., 30) = 30\n";
    let written: Vec<u64> = ops(text)
        .iter()
        .filter_map(|op| match op {
            Op::Write { ino, .. } => Some(*ino),
            _ => None,
        })
        .collect();
    assert!(written[0] != written[1] && written[1] == written[2], "{written:?}");
    assert_eq!(assumed(text, "other files than the calls tell"), Some(1));
}

#[test]
fn both_names_live_on_when_they_are_exchanged() {
    let text = "openat(AT_FDCWD, \"/a\", O_RDWR|O_CREAT|O_TRUNC, 0644) = 3\n\
         openat(AT_FDCWD, \"/b\", O_RDWR|O_CREAT|O_TRUNC, 0644) = 4\n\
         write(4, \"x\"..., 100) = 100\n\
         renameat2(AT_FDCWD, \"/a\", AT_FDCWD, \"/b\", RENAME_EXCHANGE) = 0\n\
         openat(AT_FDCWD, \"/a\", O_RDONLY) = 5\n\
         read(5, \"x\"..., 4096) = 100\n\
         unlink(\"/b\") = 0\n";
    assert!(existed(text).is_empty());
    assert_eq!(bytes(&ops(text)), (100, 100));
}

#[test]
fn calls_of_one_process_keep_their_order_though_seconds_are_whole() {
    let text = "1 10:00:01 openat(AT_FDCWD</>, \"/a\", O_WRONLY|O_CREAT|O_TRUNC, 0644) = 3 <0.5>\n\
         1 10:00:01 write(3, \"x\", 1) = 1 <0.1>\n\
         1 10:00:02 close(3) = 0 <0.1>\n";
    let mut open = 0i64;
    let mut last = 0;
    for record in records(text) {
        let at = match record {
            Record::Request { at_ns, .. } => {
                open += 1;
                at_ns
            }
            Record::Reply { at_ns, .. } => {
                open -= 1;
                at_ns
            }
            Record::Node(_) => continue,
        };
        assert!(open <= 1 && at >= last);
        last = at;
    }
    assert_eq!(last, 1_100_000_000);
}

#[test]
fn an_fsync_in_halves_overlaps_what_stands_between_them() {
    let text = "1 1.0 openat(AT_FDCWD, \"/a\", O_WRONLY|O_CREAT|O_TRUNC, 0644) = 3\n\
         1 1.1 fsync(3 <unfinished ...>\n\
         2 1.2 mkdir(\"/d\", 0755) = 0\n\
         1 1.3 <... fsync resumed>) = 0 <0.2>\n";
    let order: Vec<(bool, u64)> = records(text)
        .iter()
        .filter_map(|record| match record {
            Record::Request { request, .. } => Some((true, request.id)),
            Record::Reply { id, .. } => Some((false, *id)),
            Record::Node(_) => None,
        })
        .collect();
    let sync = ops(text).iter().position(|op| matches!(op, Op::Fsync { .. })).unwrap() as u64 + 1;
    assert_eq!(order.last(), Some(&(false, sync)), "{order:?}");
    let asked = order.iter().position(|event| *event == (true, sync)).unwrap();
    assert!(order[asked + 1..].contains(&(true, sync + 1)), "{order:?}");
}

#[test]
fn calls_of_32_bits_are_the_same_calls() {
    let ops = ops("openat(AT_FDCWD, \"/f\", O_RDWR|O_CREAT|O_TRUNC|O_LARGEFILE, 0644) = 3\n\
         _llseek(3, 1048576, [1048576], SEEK_SET) = 0\n\
         write(3, \"b\"..., 4096) = 4096\n\
         ftruncate64(3, 4096) = 0\n\
         fcntl64(3, F_DUPFD, 10) = 10\n\
         fstat64(10, {st_mode=S_IFREG|0644, st_size=4096, ...}) = 0\n\
         truncate64(\"/f\", 5) = 0\n\
         stat64(\"/f\", {st_mode=S_IFREG|0644, st_size=5, ...}) = 0\n");
    let place = ops.iter().any(|op| matches!(op, Op::Write { off: 1_048_576, .. }));
    let sizes: Vec<Option<u64>> = ops
        .iter()
        .filter_map(|op| match op {
            Op::SetAttr { set, .. } => Some(set.size),
            _ => None,
        })
        .collect();
    assert!(place && sizes == [Some(4096), Some(5)], "{sizes:?}");
}

#[test]
fn data_that_moves_between_descriptors_is_read_and_written() {
    let text = "openat(AT_FDCWD, \"/a\", O_RDWR|O_CREAT|O_TRUNC, 0644) = 3\n\
         openat(AT_FDCWD, \"/b\", O_RDWR|O_CREAT|O_TRUNC, 0644) = 4\n\
         pwritev2(3, [{iov_base=\"x\"..., iov_len=600}, {iov_base=\"y\"..., iov_len=400}], 2, 0, 0) = 1000\n\
         pipe2([5, 6], O_CLOEXEC) = 0\n\
         splice(3, [0], 6, NULL, 300, 0) = 300\n\
         splice(5, NULL, 4, [100], 300, 0) = 300\n\
         sendfile(4, 3, [0] => [200], 200) = 200\n\
         copy_file_range(3, NULL, 4, NULL, 9223372035781033984, 0) = 1000\n\
         copy_file_range(3, NULL, 4, NULL, 9223372035781033984, 0) = 0\n\
         ioctl(4, FICLONE, 3) = 0\n\
         pwritev2(4, [{iov_base=\"x\"..., iov_len=6}], 1, 0, RWF_APPEND) = 6\n";
    let ops = ops(text);
    // A read at the end counts one byte here.
    assert_eq!(bytes(&ops), (300 + 200 + 1000 + 1, 1000 + 300 + 200 + 1000 + 1000 + 6));
    assert!(matches!(ops.last(), Some(Op::Write { off: 1200, .. })), "{:?}", ops.last());
    let (_, reading) = all(text);
    assert_eq!(reading.left_out_count(), 0, "{:?}", reading.notes());
}

#[test]
fn ranges_are_allocated_zeroed_and_punched() {
    use twin_fs::Fallocate;
    let text = "openat(AT_FDCWD, \"/a\", O_RDWR|O_CREAT|O_TRUNC, 0644) = 3\n\
         fallocate(3, 0, 0, 10000) = 0\n\
         fallocate(3, FALLOC_FL_KEEP_SIZE|FALLOC_FL_PUNCH_HOLE, 0, 100) = 0\n\
         fallocate(3, FALLOC_FL_ZERO_RANGE, 5000, 10000) = 0\n\
         fallocate(3, FALLOC_FL_KEEP_SIZE|FALLOC_FL_ZERO_RANGE, 0, 100) = 0\n\
         fallocate(3, FALLOC_FL_COLLAPSE_RANGE, 0, 4096) = 0\n\
         lseek(3, 0, SEEK_END) = 10904\n";
    let modes: Vec<Fallocate> = ops(text)
        .iter()
        .filter_map(|op| match op {
            Op::Fallocate { mode, .. } => Some(*mode),
            _ => None,
        })
        .collect();
    let expected = [
        Fallocate::Allocate { keep_size: false },
        Fallocate::PunchHole,
        Fallocate::ZeroRange { keep_size: false },
        Fallocate::ZeroRange { keep_size: true },
    ];
    assert_eq!(modes, expected);
    assert_eq!(assumed(text, "lengths of files were changed by what is not"), None);
}

#[test]
fn a_length_that_no_call_explains_is_given_to_the_file_and_told() {
    let text = "openat(AT_FDCWD, \"/a\", O_RDWR|O_CREAT|O_TRUNC, 0644) = 3\n\
         write(3, \"x\"..., 100) = 100\n\
         pread64(3, \"x\"..., 4096, 0) = 300\n";
    let resized = ops(text).iter().any(|op| match op {
        Op::SetAttr { set, .. } => set.size == Some(300),
        _ => false,
    });
    assert!(resized);
    assert_eq!(assumed(text, "lengths of files were changed by what is not"), Some(1));
}

#[test]
fn what_changes_files_and_is_not_understood_is_named() {
    let (_, reading) = all("openat(AT_FDCWD, \"/a\", O_RDWR|O_CREAT|O_TRUNC, 0644) = 3\n\
         io_uring_enter(5, 1, 1, IORING_ENTER_GETEVENTS, NULL, 8) = 1\n\
         mount(\"/dev/sda\", \"/mnt\", \"ext4\", 0, NULL) = 0\n\
         frobnicate(3, 5) = 0\n\
         brk(NULL) = 0x5000\n\
         mmap(NULL, 4096, PROT_READ|PROT_WRITE, MAP_SHARED, 3, 0) = 0x7f00\n\
         5 <... read resumed>\"abc\", 3) = 3\n");
    let notes = reading.notes().join(" ");
    for what in ["io_uring_enter", "mount", "frobnicate", "(read)", "shared and writable"] {
        assert!(notes.contains(what), "{what}: {notes}");
    }
    assert_eq!((reading.used(), reading.left_out_count()), (1, 4));
}

#[test]
fn descriptors_are_closed_when_a_program_is_executed_and_shared_by_threads() {
    let text = "1 1.0 openat(AT_FDCWD</w>, \"a\", O_WRONLY|O_CREAT|O_TRUNC|O_CLOEXEC, 0644) = 3\n\
         1 1.1 clone3({flags=CLONE_VM|CLONE_FS|CLONE_FILES|CLONE_THREAD, exit_signal=0}, 88) = 2\n\
         2 1.2 openat(AT_FDCWD</w>, \"b\", O_WRONLY|O_CREAT|O_TRUNC, 0644) = 4\n\
         1 1.3 write(4, \"x\"..., 10) = 10\n\
         2 1.4 exit(0) = ?\n\
         2 1.4 +++ exited with 0 +++\n\
         1 1.5 write(4, \"x\"..., 10) = 10\n\
         1 1.6 execve(\"/bin/x\", [\"x\"], 0x7ffd /* 5 vars */) = 0\n\
         1 1.7 write(4, \"x\"..., 10) = 10\n\
         1 1.8 write(3, \"x\"..., 10) = 10\n";
    let (_, reading) = all(text);
    assert_eq!((bytes(&ops(text)).1, reading.left_out_count()), (30, 1));
}

#[test]
fn relative_paths_without_a_directory_belong_to_one_that_is_told_of() {
    let text = "open(\"a\", O_WRONLY|O_CREAT|O_TRUNC, 0644) = 3\n\
         mkdir(\"d\", 0755) = 0\n\
         chdir(\"d\") = 0\n\
         rename(\"../a\", \"b\") = 0\n";
    assert_eq!(existed(text).len(), 1);
    assert_eq!(assumed(text, "relative paths"), Some(1));
    assert_eq!(verbs(text).iter().filter(|verb| **verb == Verb::Rename).count(), 1);
    // A later getcwd tells it.
    let told: &'static str = format!("{text}chdir(\"..\") = 0\n").leak();
    let told: &'static str = format!("getcwd(\"/w/x\", 4096) = 5\n{told}").leak();
    assert_eq!(existed(told), [("w".to_owned(), 0), ("x".to_owned(), 0)]);
}

#[test]
fn symbolic_links_are_followed_where_the_text_tells_their_targets() {
    let text = "mkdir(\"/d\", 0755) = 0\n\
         symlink(\"d\", \"/l\") = 0\n\
         openat(AT_FDCWD, \"/l/a\", O_WRONLY|O_CREAT|O_TRUNC, 0644) = 3\n\
         readlink(\"/old\", \"d/a\", 4096) = 3\n\
         openat(AT_FDCWD, \"/old\", O_RDONLY) = 4\n\
         unlink(\"/d/a\") = 0\n\
         rmdir(\"/d\") = 0\n";
    assert_eq!(existed(text), [("old".to_owned(), 3)]);
    let (_, reading) = all(text);
    assert_eq!(
        (reading.left_out_count(), reading.assumed().len()),
        (0, 0),
        "{:?}",
        reading.notes()
    );
}

#[test]
fn the_target_of_a_link_that_is_told_after_it_was_followed_existed_before() {
    let text = "newfstatat(AT_FDCWD, \"/b/p3\", {st_mode=S_IFREG|0755, st_size=600, ...}, 0) = 0\n\
         readlink(\"/b/p3\", \"p3.11\", 4096) = 5\n";
    assert!(!verbs(text).contains(&Verb::Create));
    let there = ["b", "p3", "p3.11"].map(str::to_owned);
    let mut told = existed(text);
    told.sort();
    assert_eq!(told, there.into_iter().zip([0, 5, 600]).collect::<Vec<_>>());
}

#[test]
fn output_of_the_program_between_the_lines_is_told_and_not_refused() {
    let text = "openat(AT_FDCWD, \"/a\", O_RDWR|O_CREAT|O_TRUNC, 0644) = 3\n\
         make: *** No rule\n\
         write(3, \"x\"..., 100) = 100\n\
         write(1, \"hello(\\n\", 7hello(\n\
         ) = 7\n\
         +++ exited with 0 +++\n";
    let (_, reading) = all(text);
    assert_eq!(bytes(&ops(text)).1, 100);
    assert_eq!((reading.used(), reading.left_out_count()), (2, 2), "{:?}", reading.notes());
}

#[test]
fn the_table_of_c_has_no_calls_and_says_so() {
    let text = "% time     seconds  usecs/call     calls    errors syscall\n\
         ------ ----------- ----------- --------- --------- ----------------\n\
         100.00    0.000000           0         2           total\n";
    assert!(is_like(text.as_bytes()));
    let error = open(Again::new(move || Ok(std::io::Cursor::new(text)))).err().unwrap();
    assert!(error.to_string().contains("without -c"), "{error}");
}

#[test]
fn what_strace_itself_wrote_of_a_script_has_the_sums_of_the_script() {
    // echo hello > a; cat a a > b; echo more >> b; mv b c; mkdir d; cat < c > d/e; rm a
    for text in [
        include_str!("fixtures/t.txt"),
        include_str!("fixtures/yy.txt"),
        include_str!("fixtures/stderr.txt"),
    ] {
        let ops = ops(text);
        let written = bytes(&ops).1;
        let count = |verb| ops.iter().filter(|op| Verb::of(op) == verb).count();
        assert_eq!(written, 6 + 12 + 5 + 17);
        let made = [Verb::Create, Verb::MakeDir, Verb::Rename, Verb::Unlink].map(count);
        assert_eq!(made, [3, 1, 1, 1]);
        let (_, reading) = all(text);
        assert_eq!(reading.left_out_count(), 0, "{:?}", reading.notes());
    }
}
