//! Tables as programs write them: no row is dropped without a word, and what is assumed is said.

use super::super::{BlockOp, BlockRequest, open_any};
use crate::reading::Reading;

fn read(text: &str) -> (Vec<BlockRequest>, Reading) {
    let (format, mut source) = open_any(std::io::Cursor::new(text.to_owned())).unwrap();
    assert_eq!(format.name, "csv", "{text}");
    let mut requests = Vec::new();
    while let Some(request) = source.next_request().unwrap() {
        requests.push(request);
    }
    (requests, source.reading())
}

fn ops(text: &str) -> Vec<BlockOp> {
    read(text).0.iter().map(|request| request.op).collect()
}

const R: BlockOp = BlockOp::Read;
const W: BlockOp = BlockOp::Write;

/// Handles of NFS have 64 bits; three files of them were one.
#[test]
fn devices_have_64_bits_or_names() {
    let devices = |text: &str| read(text).0.iter().map(|r| r.device).collect::<Vec<_>>();
    let text = "op,fh,offset\nread,1,0\nread,4294967297,0\nread,18446744073709551615,0\n";
    assert_eq!(devices(text), [1, 4_294_967_297, u64::MAX]);
    let text = "op,dev,offset\nread,sda,0\nread,sdb,0\nread,sda,0\n";
    assert_eq!(devices(text), [0, 1, 0]);
    assert!(read(text).1.notes()[0].contains("numbered by their first rows"));
}

/// Rows with blktrace's words, and quoted ones, were dropped in silence.
#[test]
fn operations_are_known_as_blktrace_and_people_write_them() {
    assert_eq!(ops("op,lbn\nW,8\nWS,16\nRA,24\nRSM,24\nWFS,1\n\"read\",1\n"), [W, W, R, R, W, R]);
    assert_eq!(ops("op,lbn\nDS,8\nDiscard,8\nFlush,\nfdatasync,\n").len(), 4);
    let (requests, reading) = read("op,lbn\n0,8\n1,16\n");
    assert_eq!(requests.iter().map(|r| r.op).collect::<Vec<_>>(), [R, W]);
    assert!(reading.notes()[0].contains("0 is a read and 1 a write"));
    assert_eq!(ops("is_write,lbn\n0,8\n1,16\ntrue,16\n"), [R, W, W]);
    assert_eq!(ops("is_read,lbn\n0,8\n1,16\nFalse,16\n"), [W, R, W]);
}

#[test]
fn rows_that_are_not_used_are_counted_with_their_reason_and_first_line() {
    let text = "op,fh,offset,bytes\nread,1,0,512\ngetattr,1,,\nread,1,,512\ngetattr,2,,\n,1,0,512\n\
                write,1,0,0\n";
    let (requests, reading) = read(text);
    assert_eq!(requests.len(), 1);
    assert_eq!(reading.used(), 1);
    let left_out: Vec<_> =
        reading.left_out().iter().map(|left| (left.why.as_str(), left.count, left.first)).collect();
    assert_eq!(
        left_out,
        [
            ("with the operation getattr", 2, 3),
            ("without a place or object", 1, 4),
            ("without an operation", 1, 6),
            ("of 0 bytes, which transfer nothing", 1, 7),
        ]
    );
}

#[test]
fn quotes_line_ends_marks_and_other_separators_are_no_obstacle() {
    let expected = read("time,op,size,lbn\n0,W,512,8\n1,R,512,16\n").0;
    assert_eq!(expected.len(), 2);
    for text in [
        "\"time\",\"op\",\"size\",\"lbn\"\r\n0,\"W\",\"512\",8\r\n\"1\",\"R\",512,16\r\n",
        "\u{feff}Time,Op,Size,LBN\n0,W,512,8\n1,R,512,16",
        "time;op;size;lbn\n0;W;512;8\n1;R;512;16\n",
        "time\top\tsize\tlbn\n0\tW\t512\t8\n1\tR\t512\t16\n",
        "note,time,op,size,lbn\n\"a, \"\"b\"\"\",0,W,512,8\n,1,R,512,16\n",
        " time , op , size , lbn \n 0 , W , 512 , 8 \n 1 , R , 512 , 16 \n",
        "time,op,size,lbn\n0.0,W,5.12e2,8.0\n1e0,R,512.0,1.6e+01\n",
        "time,op,size,lbn\n-1,W,512,8\n0,R,512,16\n",
    ] {
        assert_eq!(read(text).0, expected, "{text}");
    }
    let mut source = open_any(&b"op,lbn\nW,\"8\n"[..]).unwrap().1;
    assert!(source.next_request().unwrap_err().to_string().contains("a quote is not closed"));
}

/// Times of Windows, and others that are no seconds, were clipped at 2^64 nanoseconds: all happened at
/// once.
#[test]
fn a_time_without_a_unit_has_the_one_that_makes_it_a_date() {
    let second = |name: &str, a: &str, b: &str| {
        let (requests, reading) = read(&format!("{name},op,lbn\n{a},W,8\n{b},R,16\n"));
        let at: Vec<u64> = requests.iter().map(|request| request.at_ns).collect();
        assert_eq!(at, [0, 1_000_000_000], "{name} {a}");
        reading.notes().concat()
    };
    let windows = second("Timestamp", "128166372003061629", "128166372013061629");
    assert!(windows.contains("units of 100 ns since 1601"), "{windows}");
    assert!(second("time", "1577808000000046", "1577808001000046").contains("microseconds"));
    assert!(second("time", "1577808000123", "1577808001123").contains("milliseconds"));
    assert!(second("ts", "1577808000000000000", "1577808001000000000").contains("nanoseconds"));
    assert!(second("time", "1577808000.5", "1577808001.5").contains("in seconds"));
    assert!(second("time", "17", "18").contains("in seconds"));
    for (name, a, b) in [
        ("t_us", "5", "1000005"),
        ("time_ms", "20000000000000", "20000000001000"),
        ("t_ns", "7", "1000000007"),
    ] {
        assert_eq!(second(name, a, b).find("times are"), None, "{name}");
    }
    let mut source = open_any(&b"time_s,op,lbn\n0,W,8\n99999999999,R,8\n"[..]).unwrap().1;
    source.next_request().unwrap();
    assert!(source.next_request().unwrap_err().to_string().contains("too far away"));
}

#[test]
fn what_no_column_names_is_assumed_aloud() {
    let (requests, reading) = read("lbn,disk\n8,0\n");
    assert_eq!((requests[0].op, requests[0].bytes), (R, 4096));
    let note = reading.notes().concat();
    for what in ["all requests read", "4096 bytes", "all happens at once"] {
        assert!(note.contains(what), "{note}");
    }
}
