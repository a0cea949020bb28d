//! Readers of foreign traces: on small texts, and on the shared traces where these are available
//! (in `../shared` beside the repository, or in the directory that TWINFS_SHARED names).

use std::fs::File;
use std::path::PathBuf;

use crate::common::read_all;
use crate::common::tiny::{BLOCK, Tiny};
use twin_fs::Op;
use twin_rt::{ClockOnly, Rng, Rt, SECS};
use twin_trace::replay::{Options, Replayer, Report};
use twin_trace::{Outcome, Place, Reader, Record, Source, TraceError, Verb, Writer, readers};

const HEAD: &str = "commit,author_time,commit_time,op,file,dir,depth,size_bytes,ext\n";

fn open(format: &str, text: &str) -> Result<Box<dyn Source>, TraceError> {
    let input = std::io::Cursor::new(text.as_bytes().to_vec());
    readers::open(format, input).map_err(|error| match error {
        readers::OpenError::Trace(error) => error,
        readers::OpenError::Name(error) => panic!("{error}"),
    })
}

fn all(format: &str, text: &str) -> Result<Vec<Record>, TraceError> {
    read_all(&mut open(format, text)?)
}

fn verbs(records: &[Record]) -> Vec<Verb> {
    let requests = records.iter().filter_map(|record| match record {
        Record::Request { request, .. } => Some(Verb::of(&request.op)),
        _ => None,
    });
    requests.collect()
}

fn replay(source: &mut impl Source) -> (Tiny, Report) {
    let rt = Rt::new(ClockOnly::default(), 1);
    let fs = Tiny::new(&rt, 300);
    let options = Options { verify: Some(BLOCK as u32), ..Options::default() };
    let mut replayer = Replayer::new(&rt, &fs, options);
    let report = rt.block_on(replayer.run(source)).unwrap().unwrap();
    drop(replayer);
    (fs, report)
}

#[test]
fn a_check_in_is_a_file_written_at_its_time() {
    let text =
        format!("{HEAD}1,9,1000,A,7,3,1,3000000,c\n2,9,1060,M,7,3,1,10,c\n3,9,1050,D,7,3,1,,c\n");
    let records = all("rewrites", &text).unwrap();
    use Verb::*;
    let expected = [
        MakeDir, Lookup, Create, Write, Write, Write, Release, Lookup, Open, Write, Release,
        Lookup, Unlink, Forget,
    ];
    assert_eq!(verbs(&records), expected);
    let times: Vec<u64> = records
        .iter()
        .filter_map(|record| match record {
            Record::Reply { at_ns, .. } => Some(*at_ns / SECS),
            _ => None,
        })
        .collect();
    assert_eq!(times, [0, 0, 0, 0, 0, 0, 0, 60, 60, 60, 60, 60, 60]);
    let (fs, report) = replay(&mut open("rewrites", &text).unwrap());
    assert_eq!((report.diverged_ops(), report.skipped, fs.orphans()), (0, 0, 0));
    assert_eq!((report.written_bytes, fs.tree().len()), (3_000_010, 1));
}

#[test]
fn a_checkout_makes_a_modified_file_anew() {
    let text = format!("{HEAD}1,9,1000,A,7,3,1,10,c\n2,9,1060,M,7,3,1,20,c\n");
    let records = all("checkouts", &text).unwrap();
    use Verb::*;
    let expected =
        [MakeDir, Lookup, Create, Write, Release, Lookup, Unlink, Forget, Create, Write, Release];
    assert_eq!(verbs(&records), expected);
    let (fs, report) = replay(&mut open("checkouts", &text).unwrap());
    assert_eq!((report.diverged_ops(), fs.orphans()), (0, 0));
    assert_eq!(fs.tree()[1].0, "/d3/f7.c");
    assert_eq!(fs.tree()[1].4, 20);
}

#[test]
fn a_wrong_line_is_named_by_its_number() {
    let line = |format: &str, text: &str| match all(format, text) {
        Err(TraceError { place: Place::Line(number), problem }) => (number, problem.to_string()),
        other => panic!("{other:?}"),
    };
    let good = "1,9,1000,A,7,3,1,10,c\n";
    let (number, why) = line("rewrites", &format!("{HEAD}{good}{good}2,9,x,M,7,3,1,10,c\n"));
    assert_eq!((number, &*why), (4, "commit_time should be a number, not \"x\""));
    assert_eq!(line("rewrites", "a,b\n").0, 1);
    assert_eq!(line("rewrites", "").0, 1);
    assert_eq!(line("rewrites", &format!("{HEAD}1,9,1000,X,7,3,1,10,c\n")).0, 2);
    assert_eq!(line("rewrites", &format!("{HEAD}1,9,1000,A,7,3,1\n")).0, 2);
    let good = "Mkdir \"\\a\" NT_STATUS_OK\n";
    let (number, why) = line("netbench", &format!("{good}{good}Close 17 NT_STATUS_OK\n"));
    assert_eq!((number, &*why), (3, "handle 17 is not open"));
    assert_eq!(line("netbench", &format!("{good}Frob 1 NT_STATUS_OK\n")).0, 2);
    assert_eq!(line("netbench", "Unlink \"\\a\n").0, 1);
    assert_eq!(line("netbench", "Mkdir \"\\a\" FINE\n").0, 1);
    assert_eq!(line("netbench", &format!("Mkdir \"{}\" NT_STATUS_OK", "x".repeat(70_000))).0, 1);
    let error = readers::open("nothing", std::io::empty()).err().unwrap().to_string();
    assert!(error.contains("netbench, strace, path-operations, rewrites, checkouts"), "{error}");
}

const OFFICE: &str = r#"Mkdir "\clients" NT_STATUS_OK
NTCreateX "\clients\~a" 0x1 0x2 5 NT_STATUS_OK
Close 5 NT_STATUS_OK
NTCreateX "\clients\~a\X Y.DOC" 0x40 0x1 0 NT_STATUS_OBJECT_NAME_NOT_FOUND
NTCreateX "\clients\~a\X Y.DOC" 0x40 0x2 6 NT_STATUS_OK
WriteX 6 65534 1 1 NT_STATUS_OK
WriteX 6 0 4096 4096 NT_STATUS_OK
QUERY_FILE_INFORMATION 6 258 NT_STATUS_OK
SET_FILE_INFORMATION 6 1004 NT_STATUS_OK
LockX 6 2147483538 1 NT_STATUS_OK
UnlockX 6 2147483538 1 NT_STATUS_OK
Flush 6 NT_STATUS_OK
ReadX 6 65530 100 5 NT_STATUS_OK
Rename "\clients\~a\X Y.DOC" "\clients\~a\Z.DOC" NT_STATUS_OK
QUERY_PATH_INFORMATION "\clients\~a\Z.DOC" 1004 NT_STATUS_OK
Close 6 NT_STATUS_OK
QUERY_FS_INFORMATION 1 NT_STATUS_OK
FIND_FIRST "\clients\~a\*" 260 1366 1 NT_STATUS_OK
NTCreateX "\clients\~a\Z.DOC" 0x40 0x5 7 NT_STATUS_OK
Unlink "\clients\~a\Z.DOC" 0x6 NT_STATUS_OK
Close 7 NT_STATUS_OK
Deltree "\clients" NT_STATUS_OK
"#;

#[test]
fn every_operation_of_netbench_has_its_counterpart() {
    let records = all("netbench", OFFICE).unwrap();
    use Verb::*;
    let expected = [
        Lookup, MakeDir, Lookup, MakeDir, Open, Release, Lookup, Lookup, Create, Write, Write,
        GetAttr, SetAttr, Fsync, Read, Lookup, Lookup, Rename, Lookup, Release, StatFs, ReadDir,
        Lookup, Open, Lookup, Unlink, Release, Forget, Lookup, RemoveDir, Forget, RemoveDir,
        Forget,
    ];
    assert_eq!(verbs(&records), expected);
    let read = records.iter().find_map(|record| match record {
        Record::Reply { outcome: Outcome::Data(len), .. } => Some(*len),
        _ => None,
    });
    assert_eq!(read, Some(5));
    let (fs, report) = replay(&mut open("netbench", OFFICE).unwrap());
    assert_eq!((report.diverged_ops(), report.skipped), (0, 0));
    assert_eq!((report.lengths_differ, fs.orphans(), fs.tree().len()), (0, 0, 0));
    let quoted = Op::Create { dir: 301, name: (*b"X Y.DOC").into(), mode: 0o644, exclusive: true };
    assert!(fs.seen.borrow().contains(&quoted), "a name in quotes may have a space");
}

#[test]
fn mutated_lines_are_refused_or_read() {
    let checkins =
        format!("{HEAD}1,9,1000,A,7,3,1,10,c\n2,9,1060,M,7,3,1,20,\n3,9,1061,D,7,3,1,,c\n");
    let mut refused = 0;
    for seed in 0..10_000 {
        let mut rng = Rng::new(seed);
        let (format, text) = match seed % 3 {
            0 => ("netbench", OFFICE),
            1 => ("rewrites", &*checkins),
            _ => ("checkouts", &*checkins),
        };
        let mut bytes = text.as_bytes().to_vec();
        for _ in 0..rng.range(1, 4) {
            let at = rng.below(bytes.len() as u64) as usize;
            match rng.below(3) {
                0 => bytes[at] = *rng.pick(b"0123456789,\" \\\nAMDx\xff"),
                1 => drop(bytes.remove(at)),
                _ => bytes.insert(at, *rng.pick(b"0123456789,\" \\\n")),
            }
        }
        let source = readers::open(format, std::io::Cursor::new(bytes));
        let records = source.map(|mut source| read_all(&mut source));
        refused += u64::from(!matches!(records, Ok(Ok(_))));
    }
    assert!(refused > 3000 && refused < 10_000, "{refused}");
}

/// A shared trace, or `None`, with a reason printed.
fn shared(path: &str) -> Option<File> {
    let root = std::env::var_os("TWINFS_SHARED").map_or_else(
        || PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared")),
        PathBuf::from,
    );
    let path = root.join("traces").join(path);
    match File::open(&path) {
        Ok(file) => Some(file),
        Err(error) => {
            println!("skipped: {}: {error}", path.display());
            None
        }
    }
}

/// Reads, writes as a trace, reads that, replays that: returns the report and the bytes of the
/// trace.
fn through_all(format: &str, input: File) -> (Report, Tiny, u64, usize) {
    let mut source = readers::open(format, input).unwrap();
    let mut writer = Writer::new(Vec::new(), &source.header().clone()).unwrap();
    let mut requests = 0;
    while let Some(record) = source.next_record().unwrap() {
        requests += u64::from(matches!(record, Record::Request { .. }));
        writer.record(&record).unwrap();
    }
    let bytes = writer.finish().unwrap();
    let (fs, report) = replay(&mut Reader::new(&bytes[..]).unwrap());
    let per_op = bytes.len() as f64 / requests as f64;
    println!("{format}: {requests} operations, {} bytes, {per_op:.2} each", bytes.len());
    (report, fs, requests, bytes.len())
}

fn check(report: &Report) {
    assert_eq!((report.diverged_ops(), report.skipped), (0, 0), "{:?}", report.examples);
    assert_eq!((report.lengths_differ, report.inodes_differ), (0, 0));
    let verdict = report.verdict.as_ref().unwrap();
    assert_eq!((verdict.wrong, verdict.unjudged_bytes), (0, 0), "{verdict:?}");
}

#[test]
fn the_netbench_trace_replays() {
    let Some(input) = shared("dbench-netbench/client.txt.zst") else { return };
    let (report, fs, requests, _) = through_all("netbench", input);
    check(&report);
    assert!(requests > 458_344, "{requests}");
    assert_eq!(report.verb(Verb::Rename).done, 3_355);
    assert_eq!(report.verb(Verb::Read).done, 124_199);
    assert_eq!(report.verb(Verb::Write).done, 39_502);
    // The one directory that the trace leaves behind, and no removed file that is still held.
    assert_eq!((fs.tree().len(), fs.orphans()), (1, 0));
}

#[test]
fn the_histories_replay() {
    for (path, files, bytes) in [
        ("sprite-kernel-checkins-1987-1993/sprite_kernel.csv.zst", 0, 237_799_553),
        ("tcpdump-history-1999-2026/tcpdump.csv.zst", 1_942, 561_897_053),
    ] {
        for format in ["rewrites", "checkouts"] {
            let Some(input) = shared(path) else { return };
            let (report, fs, ..) = through_all(format, input);
            check(&report);
            assert_eq!(report.written_bytes, bytes, "{path}");
            let live = fs.tree().iter().filter(|item| item.0.matches('/').count() == 2).count();
            assert!(files == 0 || live == files, "{path}: {live} files at the end");
            assert_eq!(fs.orphans(), 0);
        }
    }
}
