//! The format, from outside: written records are read back, and a trace that was cut off is whole
//! up to its last frame.

use crate::common::{header, read_all, records, trace};
use twin_disk::Bytes;
use twin_fs::{Data, Op, RenameMode, Request, XattrMode};
use twin_rt::{Rng, SECS};
use twin_trace::{
    Ending, Outcome, Place, Problem, Reader, Record, Source, TraceError, Traits, Writer,
};

fn open(bytes: &[u8]) -> Reader<&[u8]> {
    Reader::new(bytes).unwrap()
}

/// Puts in what version 1 had not: every third write becomes a write from write-back, every third one an
/// append, and each rename with a whiteout must find its new name free.
fn with_later_operations(records: &mut [Record]) {
    let mut nth = 0;
    for record in records {
        let Record::Request { request, .. } = record else { continue };
        if let Op::Rename { mode: mode @ RenameMode::Whiteout, .. } = &mut request.op {
            *mode = RenameMode::WhiteoutNoReplace;
        }
        if let Op::Write { ino, off, data } = &request.op {
            let (ino, off, data) = (*ino, *off, data.clone());
            nth += 1;
            match nth % 3 {
                0 => request.op = Op::WriteBack { ino, off, data },
                1 => request.op = Op::Append { ino, off, data },
                _ => {}
            }
        }
    }
}

#[test]
fn every_kind_of_record_comes_back_as_it_was() {
    for seed in 0..20 {
        let contents = seed % 2 == 0;
        let mut expected = records(&mut Rng::new(seed), 2000, contents);
        with_later_operations(&mut expected);
        let bytes = trace(&expected, contents, 300);
        let mut reader = open(&bytes);
        assert_eq!(*reader.header(), header(contents), "seed {seed}");
        let got = read_all(&mut reader).unwrap();
        assert_eq!(got.len(), expected.len(), "seed {seed}");
        for (i, (got, expected)) in got.iter().zip(&expected).enumerate() {
            assert_eq!(got, expected, "seed {seed}, record {i}");
        }
        assert_eq!(reader.ending(), Some(Ending::Closed));
    }
}

/// A trace of version 1 that was written when the version was made. It must be readable for ever,
/// to the same records; `crate::common::records` may change only together with a new file.
#[test]
fn a_trace_of_version_1_is_still_read() {
    let expected = records(&mut Rng::new(99), 400, true);
    let mut reader = open(include_bytes!("data/version-1.trace"));
    let got = read_all(&mut reader).unwrap();
    assert_eq!(got.len(), expected.len());
    for (i, (got, expected)) in got.iter().zip(&expected).enumerate() {
        assert_eq!(got, expected, "record {i}");
    }
    assert_eq!((reader.ending(), reader.header()), (Some(Ending::Closed), &header(true)));
}

#[test]
fn contents_are_dropped_unless_asked_for() {
    let op = Op::Write { ino: 5, off: 3, data: Data::Bytes(Bytes::copy_of(b"secret")) };
    let kept = Request::root(1, op);
    let dropped = Op::Write { ino: 5, off: 3, data: Data::Synthetic(6) };
    for (contents, expected) in [(true, kept.op.clone()), (false, dropped)] {
        let record = Record::Request { at_ns: 0, request: kept.clone() };
        let bytes = trace(&[record], contents, 1);
        assert_eq!(bytes.windows(6).any(|w| w == b"secret"), contents);
        let got = read_all(&mut open(&bytes)).unwrap();
        let request = Request { op: expected, ..kept.clone() };
        assert_eq!(got, [Record::Request { at_ns: 0, request }]);
    }
}

#[test]
fn attributes_that_decide_what_operations_do_are_kept_without_contents() {
    let names: [(&[u8], bool); 5] = [
        (b"user.comment", false),
        (b"user.twinfs.type", true),
        (b"system.posix_acl_access", true),
        (b"system.posix_acl_default", true),
        (b"system.twinfs.quota", true),
    ];
    for (name, kept) in names {
        let value = b"secret".as_slice().into();
        let op = Op::SetXattr { ino: 5, name: name.into(), value, mode: XattrMode::Any };
        let record = Record::Request { at_ns: 0, request: Request::root(1, op) };
        let bytes = trace(std::slice::from_ref(&record), false, 1);
        assert_eq!(bytes.windows(6).any(|w| w == b"secret"), kept, "{name:?}");
        assert_eq!(read_all(&mut open(&bytes)).unwrap() == [record], kept, "{name:?}");
    }
}

#[test]
fn a_trace_cut_anywhere_is_whole_up_to_its_last_frame() {
    let expected = records(&mut Rng::new(3), 200, false);
    let whole = trace(&expected, false, 50);
    let mut whole_frames = Vec::new();
    for len in 0..whole.len() {
        let mut reader = match Reader::new(&whole[..len]) {
            Ok(reader) => reader,
            Err(TraceError { problem: Problem::NotATrace | Problem::HeaderCut, .. }) => continue,
            Err(error) => panic!("cut at {len}: {error}"),
        };
        let got = read_all(&mut reader).unwrap();
        assert_eq!(got, expected[..got.len()], "cut at {len}");
        let Some(Ending::Cut { offset, lost_bytes }) = reader.ending() else {
            panic!("cut at {len}: {:?}", reader.ending());
        };
        assert_eq!(offset + lost_bytes, len as u64);
        if lost_bytes == 0 {
            whole_frames.push(got.len());
        }
    }
    assert_eq!(whole_frames, [0, 50, 100, 150, 200]);
}

#[test]
fn a_tail_of_zeros_or_rubbish_is_a_cut_too() {
    let expected = records(&mut Rng::new(4), 100, false);
    let whole = trace(&expected, false, 50);
    let last = whole.windows(4).enumerate().filter(|(_, w)| w == b"TWfr").nth(1).unwrap().0;
    for byte in [0, 0xa5] {
        for keep in [0, 20, 52, 100] {
            let mut torn = whole[..last + keep].to_vec();
            torn.resize(last + 200_000, byte);
            let mut reader = open(&torn);
            assert_eq!(read_all(&mut reader).unwrap(), expected[..50]);
            let lost_bytes = (torn.len() - last) as u64;
            assert_eq!(reader.ending(), Some(Ending::Cut { offset: last as u64, lost_bytes }));
        }
    }
}

#[test]
fn damage_before_the_last_frame_is_an_error_with_its_place() {
    let expected = records(&mut Rng::new(5), 100, false);
    let whole = trace(&expected, false, 25);
    let starts: Vec<_> =
        whole.windows(4).enumerate().filter(|(_, w)| w == b"TWfr").map(|(at, _)| at).collect();
    for (number, &start) in starts[..4].iter().enumerate() {
        for at in [start + 9, start + 60] {
            let mut damaged = whole.clone();
            damaged[at] ^= 1;
            let mut reader = open(&damaged);
            let error = read_all(&mut reader).unwrap_err();
            let frame = Some(number as u32);
            let place = Place::Byte { offset: start as u64, frame, record: None };
            assert_eq!(error.place, place);
            assert!(matches!(error.problem, Problem::Checksum(_)), "{error}");
            assert!(reader.next_record().unwrap().is_none());
        }
    }
}

#[test]
fn a_missing_frame_is_noticed() {
    let whole = trace(&records(&mut Rng::new(6), 100, false), false, 25);
    let starts: Vec<_> =
        whole.windows(4).enumerate().filter(|(_, w)| w == b"TWfr").map(|(at, _)| at).collect();
    let spliced = [&whole[..starts[1]], &whole[starts[2]..]].concat();
    let error = read_all(&mut open(&spliced)).unwrap_err();
    assert!(matches!(error.problem, Problem::Sequence { expected: 1, found: 2 }), "{error}");
}

#[test]
fn what_is_no_trace_is_refused_with_words() {
    let message = |bytes: &[u8]| Reader::new(bytes).err().unwrap().to_string();
    assert_eq!(message(b""), "trace, in the header: this is not a twinfs trace");
    assert_eq!(message(&[0; 1000]), "trace, in the header: this is not a twinfs trace");
    let good = trace(&[], false, 1);
    let mut newer = good.clone();
    newer[8] = 9;
    assert!(message(&newer).contains("version 9"), "{}", message(&newer));
    let mut damaged = good.clone();
    damaged[41] ^= 4;
    assert!(message(&damaged).contains("checksum of the header"), "{}", message(&damaged));
}

#[test]
fn a_frame_is_written_after_a_second_if_it_is_worth_it() {
    let mut writer = Writer::new(Vec::new(), &header(false)).unwrap();
    let request = Request::root(1, Op::Sync);
    for _ in 0..255 {
        writer.request(0, &request).unwrap();
    }
    let before = writer.written_bytes();
    writer.request(2 * SECS, &request).unwrap();
    assert_eq!(writer.written_bytes(), before);
    writer.reply(2 * SECS, 1, &Outcome::Done).unwrap();
    assert!(writer.written_bytes() > before);
}

#[test]
fn times_that_go_back_stand_still() {
    let mut writer = Writer::new(Vec::new(), &header(false)).unwrap();
    writer.request(10, &Request::root(1, Op::Sync)).unwrap();
    writer.reply(5, 1, &Outcome::Done).unwrap();
    let bytes = writer.finish().unwrap();
    let got = read_all(&mut open(&bytes)).unwrap();
    assert_eq!(got[1], Record::Reply { at_ns: 10, id: 1, outcome: Outcome::Done });
}

#[test]
fn nodes_can_be_read_alone() {
    for seed in 0..5 {
        let all = records(&mut Rng::new(seed), 1000, false);
        let bytes = trace(&all, false, 7);
        let mut reader = open(&bytes);
        let mut nodes = Vec::new();
        while let Some(node) = reader.next_node().unwrap() {
            nodes.push(Record::Node(node));
        }
        let expected: Vec<_> =
            all.into_iter().filter(|record| matches!(record, Record::Node(_))).collect();
        assert_eq!(nodes, expected, "seed {seed}");
    }
}

#[test]
fn many_clients_do_not_overfill_a_frame() {
    let mut writer = Writer::new(Vec::new(), &header(false)).unwrap();
    for client in 0..20_000 {
        let request = Request { client, ..Request::root(1, Op::Sync) };
        writer.request(0, &request).unwrap();
    }
    let bytes = writer.finish().unwrap();
    let got = read_all(&mut open(&bytes)).unwrap();
    let clients = got.iter().map(|record| match record {
        Record::Request { request, .. } => request.client,
        other => panic!("{other:?}"),
    });
    assert!(clients.eq(0..20_000));
}

#[test]
fn a_record_that_no_frame_can_hold_is_refused() {
    let header = twin_trace::Header {
        traits: Traits { contents: true, ..Traits::default() },
        ..header(true)
    };
    let mut writer = Writer::new(Vec::new(), &header).unwrap();
    let big = Data::Bytes(Bytes::copy_of(&vec![1; 9 << 20]));
    let error = writer.request(0, &Request::root(1, Op::Write { ino: 3, off: 0, data: big }));
    assert!(matches!(error.unwrap_err().problem, Problem::TooBig(_)));
    writer.request(0, &Request::root(1, Op::Sync)).unwrap();
    let bytes = writer.finish().unwrap();
    assert_eq!(read_all(&mut open(&bytes)).unwrap().len(), 1);
}

#[test]
#[ignore = "writes the file that `a_trace_of_version_1_is_still_read` reads"]
fn write_the_trace_of_this_version() {
    let bytes = trace(&records(&mut Rng::new(99), 400, true), true, 100);
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/version-1.trace");
    std::fs::write(path, bytes).unwrap();
}
