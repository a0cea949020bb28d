use twin_fs::{Timestamp, mode};

use super::*;
use crate::record::{Attributes, Header, StateId};

fn state(id: u64) -> StateId {
    StateId { volume: [3; 16], id, time_ns: 9, name: format!("s{id}") }
}

fn header(base: Option<u64>) -> Record {
    Record::Header(Header { state: state(7), base: base.map(state) })
}

fn attributes(path: &[u8], xattrs: &[&[u8]]) -> Record {
    let time = Timestamp { secs: -5, nanos: 999_999_999 };
    Record::Attributes(Attributes {
        path: path.to_vec(),
        mode: mode::REGULAR | 0o4755,
        uid: 1,
        gid: u32::MAX,
        atime: time,
        mtime: Timestamp { secs: i64::MAX, nanos: 0 },
        xattrs: xattrs.iter().map(|name| name.to_vec()).collect(),
    })
}

/// A record of each kind.
fn records() -> Vec<Record> {
    let path = |path: &[u8]| path.to_vec();
    vec![
        header(Some(5)),
        Record::Remove(path(b"old")),
        Record::Directory(path(b"d")),
        Record::File { path: path(b"d/\xff\n"), size: 10_000 },
        Record::Data { off: 4096, data: vec![7; 300] },
        attributes(b"d/\xff\n", &[b"user.a"]),
        Record::Xattr { name: path(b"user.a"), value: vec![0, 255] },
        Record::Update { path: path(b"e"), size: 9000 },
        Record::Hole { off: 0, len: 8192 },
        Record::Symlink { path: path(b"s"), target: path(b"../../x") },
        Record::Node { path: path(b"n"), mode: mode::CHAR | 0o600, rdev: u64::MAX },
        Record::Link { path: path(b"d/l"), to: path(b"e") },
    ]
}

fn stream(records: &[Record]) -> Vec<u8> {
    let mut writer = Writer::new();
    let mut bytes: Vec<u8> = records.iter().flat_map(|r| writer.write(r).unwrap()).collect();
    bytes.extend(writer.end().unwrap());
    bytes
}

/// Reads a stream in pieces of this many bytes.
fn read(bytes: &[u8], piece: usize) -> Result<Vec<Record>, (Vec<Record>, StreamError)> {
    let (mut reader, mut records) = (Reader::new(), Vec::new());
    for piece in bytes.chunks(piece) {
        reader.push(piece);
        loop {
            match reader.next_record() {
                Ok(Some(record)) => records.push(record),
                Ok(None) => break,
                Err(error) => return Err((records, error)),
            }
        }
    }
    match reader.finish() {
        Ok(()) => Ok(records),
        Err(error) => Err((records, error)),
    }
}

#[test]
fn a_stream_in_pieces_of_any_size_gives_the_records_that_were_written() {
    let bytes = stream(&records());
    for piece in [1, 7, 64, bytes.len()] {
        let read = read(&bytes, piece).unwrap();
        assert_eq!(read[..read.len() - 1], records());
        let totals = Totals { records: 12, data_bytes: 300 };
        assert_eq!(read.last(), Some(&Record::End(totals)));
    }
}

#[test]
fn every_cut_is_seen_and_gives_whole_records_only() {
    let bytes = stream(&records());
    for len in 0..bytes.len() {
        let (read, error) = read(&bytes[..len], 64).unwrap_err();
        assert_eq!(read, records()[..read.len()]);
        assert_eq!(error.at, len as u64, "{error}");
    }
}

#[test]
fn every_flipped_bit_is_seen_before_its_record_is_given() {
    let bytes = stream(&records());
    for bit in 0..bytes.len() * 8 {
        let mut damaged = bytes.clone();
        damaged[bit / 8] ^= 1 << (bit % 8);
        let (read, error) = read(&damaged, 64).unwrap_err();
        assert_eq!(read, records()[..read.len()], "bit {bit}");
        assert!(error.at <= bit as u64 / 8, "bit {bit}: {error}");
    }
}

#[test]
fn frames_that_are_missing_doubled_or_swapped_are_seen() {
    let mut writer = Writer::new();
    let mut frames: Vec<Vec<u8>> = records().iter().map(|r| writer.write(r).unwrap()).collect();
    frames.push(writer.end().unwrap());
    for at in 1..frames.len() - 1 {
        for change in 0..3 {
            let mut changed = frames.clone();
            match change {
                0 => drop(changed.remove(at)),
                1 => changed.insert(at, frames[at].clone()),
                _ => changed.swap(at, at + 1),
            }
            let (given, _) = read(&changed.concat(), 64).unwrap_err();
            assert_eq!(given, records()[..given.len()]);
        }
    }
}

#[test]
fn what_follows_the_end_a_foreign_stream_and_a_newer_one_are_refused() {
    let mut bytes = stream(&records());
    let len = bytes.len() as u64;
    bytes.extend([0; 40]);
    let (_, error) = read(&bytes, 64).unwrap_err();
    assert_eq!((error.at, error.what.as_str()), (len, "something follows its end"));
    let (_, error) = read(b"#!/bin/sh\n", 64).unwrap_err();
    assert_eq!(error.at, 0);
    let mut newer = [&MAGIC[..], &2u32.to_le_bytes()].concat();
    newer.extend(crc32c::crc32c(&newer).to_le_bytes());
    let (_, error) = read(&newer, 64).unwrap_err();
    assert_eq!(error.at, 8);
    assert!(error.what.contains("version 2"), "{error}");
}

/// A stream with right checksums around whatever records.
fn unchecked(records: &[Record]) -> Vec<u8> {
    let mut writer = Writer::new();
    let mut out = Vec::new();
    writer.put(&mut out, &[&MAGIC[..], &VERSION.to_le_bytes()].concat());
    for record in records {
        let payload = record.encode();
        let head = [u32::from(record.kind()), payload.len() as u32].map(u32::to_le_bytes);
        writer.put(&mut out, &head.concat());
        writer.put(&mut out, &payload);
    }
    out
}

#[test]
fn a_hostile_stream_with_right_checksums_gives_no_record_that_may_not_be_there() {
    let path = |path: &[u8]| path.to_vec();
    let file = || Record::File { path: path(b"f"), size: 100 };
    let whole: Vec<Vec<Record>> =
        [&b".."[..], b"a/../../b", b"/etc", b"a//b", b"a/", b".", b"", b"a\0"]
            .iter()
            .map(|bad| vec![Record::Directory(path(bad))])
            .chain([
                vec![Record::Directory(vec![b'a'; 256])],
                vec![Record::Link { path: path(b"l"), to: path(b"../x") }],
                vec![Record::Remove(path(b"a"))],
                vec![Record::Update { path: path(b"a"), size: 0 }],
                vec![header(None)],
                vec![Record::Data { off: 0, data: vec![1] }],
                vec![file(), Record::Data { off: 90, data: vec![1; 11] }],
                vec![file(), Record::Data { off: u64::MAX, data: vec![1; 11] }],
                vec![file(), Record::Data { off: 0, data: vec![] }],
                vec![file(), Record::Hole { off: 0, len: 50 }],
                vec![Record::Xattr { name: path(b"user.a"), value: vec![] }],
                vec![attributes(b"f", &[b""])],
                vec![Record::Node { path: path(b"n"), mode: mode::REGULAR, rdev: 0 }],
                vec![Record::Symlink { path: path(b"s"), target: vec![] }],
                vec![Record::End(Totals { records: 2, data_bytes: 0 })],
            ])
            .collect();
    for bad in whole {
        let good = bad.len() - 1;
        let all = [&[header(None)], &bad[..]].concat();
        let (given, error) = read(&unchecked(&all), 64).unwrap_err();
        assert_eq!(given, all[..=good], "{bad:?}: {error}");
    }
    let (given, _) = read(&unchecked(&[file()]), 64).unwrap_err();
    assert_eq!(given, []);
}
