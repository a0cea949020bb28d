//! File content: bytes, stamps, holes, sizes, set-id bits and times.

use twin_disk::Stamp;

use super::*;
use twin_fs::{Fallocate, SeekFor};

fn stamp(ino: Ino, lbn: u64, version: u64) -> Block {
    Block::Stamp(Stamp { ino, lbn, version, off: 0, len: 4096 })
}

fn synthetic(ino: Ino, off: u64, len: u64) -> Op {
    Op::Write { ino, off, data: Data::Synthetic(len) }
}

fn seek(b: &mut Bench, ino: Ino, off: u64, what: SeekFor) -> Option<u64> {
    match b.ask(Op::Seek { ino, off, what }) {
        Ok(Reply::Offset(at)) => Some(at),
        Err(FsError::NoSuchOffset) => None,
        other => panic!("{other:?}"),
    }
}

#[test]
fn what_was_written_is_read_and_gaps_are_zeros() {
    let mut b = Bench::bytes();
    let f = b.file(ROOT, "f");
    b.write(f, 5000, b"hello");
    let attr = b.attr(f);
    assert_eq!((attr.size, attr.blocks), (5005, 8));
    assert_eq!(b.read(f, 4998, 100), b"\0\0hello");
    assert_eq!(b.pieces(f, 0, 4096), [Block::Zero(4096)]);
    assert_eq!(b.read(f, 5005, 10), b"");
    assert_eq!(b.read(f, u64::MAX, 10), b"");
}

#[test]
fn writing_sets_times_and_ends_set_id() {
    let mut b = Bench::bytes();
    let f = b.file(ROOT, "f");
    let made = b.now();
    let set_id = SetAttr { mode: Some(0o6777), ..SetAttr::default() };
    b.ask(Op::SetAttr { ino: f, set: set_id }).unwrap();
    b.write(f, 0, b"by root");
    let at = b.now();
    let attr = b.attr(f);
    assert_eq!((attr.mode & 0o7777, attr.mtime, attr.ctime, attr.atime), (0o6777, at, at, made));
    b.cred = Cred::user(5, 6);
    b.write(f, 0, b"");
    assert_eq!(b.attr(f).mtime, at);
    assert_eq!(b.attr(f).mode & 0o7777, 0o6777);
    b.write(f, 0, b"x");
    assert_eq!(b.attr(f).mode & 0o7777, 0o777);
}

#[test]
fn cutting_and_extending_shows_zeros() {
    let mut b = Bench::bytes();
    let f = b.file(ROOT, "f");
    b.write(f, 0, &[7; 10_000]);
    b.resize(f, 4100);
    b.resize(f, 4106);
    assert_eq!(b.read(f, 4096, 100), [7, 7, 7, 7, 0, 0, 0, 0, 0, 0]);
    assert_eq!(b.attr(f).blocks, 16);
    b.resize(f, 0);
    assert_eq!(b.attr(f).blocks, 0);
}

#[test]
fn only_regular_files_have_content() {
    let mut b = Bench::bytes();
    let d = b.dir(ROOT, "d");
    let fifo = Op::MakeNode { dir: ROOT, name: n("p"), mode: mode::FIFO, rdev: 0 };
    let p = b.entry(fifo);
    b.fails(Op::Read { ino: d, off: 0, len: 1 }, FsError::IsDirectory);
    b.fails(synthetic(d, 0, 1), FsError::IsDirectory);
    b.invalid(Op::Read { ino: p, off: 0, len: 1 });
    let cut = SetAttr { size: Some(0), ..SetAttr::default() };
    b.fails(Op::SetAttr { ino: d, set: cut }, FsError::IsDirectory);
    b.fails(Op::Open { ino: d, read: true, write: true, truncate: false }, FsError::IsDirectory);
    b.done(Op::Open { ino: p, read: true, write: true, truncate: true });
}

#[test]
fn files_have_a_longest_length() {
    let mut b = Bench::new(Settings { file_size_max: 10_000, ..Settings::default() });
    let f = b.file(ROOT, "f");
    b.fails(synthetic(f, 9_999, 2), FsError::FileTooBig);
    b.fails(synthetic(f, u64::MAX, 2), FsError::FileTooBig);
    let set = SetAttr { size: Some(10_001), ..SetAttr::default() };
    b.fails(Op::SetAttr { ino: f, set }, FsError::FileTooBig);
    let promise = Fallocate::Allocate { keep_size: true };
    b.fails(Op::Fallocate { ino: f, off: 9_999, len: 2, mode: promise }, FsError::FileTooBig);
    assert_eq!(b.ask(synthetic(f, 9_999, 1)), Ok(Reply::Written(1)));
}

#[test]
fn synthetic_bytes_are_those_of_their_stamps() {
    let mut b = Bench::bytes();
    let f = b.file(ROOT, "f");
    b.ask(synthetic(f, 4000, 200)).unwrap();
    let (first, second) = (stamp(f, 0, b.id()).to_bytes(), stamp(f, 1, b.id()).to_bytes());
    let expected = [&first[4000..], &second[..104]].concat();
    assert_eq!(b.read(f, 4000, 200), expected);
}

#[test]
fn a_stamp_covers_its_block_whatever_part_was_written() {
    let mut b = Bench::stamps();
    let f = b.file(ROOT, "f");
    b.ask(synthetic(f, 4000, 200)).unwrap();
    let first = b.id();
    assert_eq!(b.attr(f).size, 4200);
    assert_eq!(b.pieces(f, 0, 9999), [stamp(f, 0, first), stamp(f, 1, first).slice(0, 104)]);
    b.write(f, 4300, b"bytes become a stamp too");
    let second = b.id();
    assert_eq!(b.pieces(f, 4096, 10), [stamp(f, 1, second).slice(0, 10)]);
    assert_eq!(b.pieces(f, 4000, 96), [stamp(f, 0, first).slice(4000, 96)]);
}

#[test]
fn a_cut_within_a_block_changes_its_stamp_and_extending_does_not() {
    let mut b = Bench::stamps();
    let f = b.file(ROOT, "f");
    b.ask(synthetic(f, 0, 12_288)).unwrap();
    let written = b.id();
    b.resize(f, 8_192);
    assert_eq!(b.pieces(f, 0, 9999), [stamp(f, 0, written), stamp(f, 1, written)]);
    b.resize(f, 5_000);
    let cut = b.id();
    assert_eq!(b.pieces(f, 4096, 9999), [stamp(f, 1, cut).slice(0, 904)]);
    b.resize(f, 9_000);
    assert_eq!(b.pieces(f, 4096, 9999), [stamp(f, 1, cut), Block::Zero(808)]);
    b.resize(f, 9_000);
    assert_eq!(b.pieces(f, 4096, 4096), [stamp(f, 1, cut)]);
}

#[test]
fn punching_makes_holes_of_whole_blocks_and_changes_parts() {
    for mut b in [Bench::bytes(), Bench::stamps()] {
        let f = b.file(ROOT, "f");
        b.ask(synthetic(f, 0, 20_000)).unwrap();
        let written = b.id();
        let punch = |off, len| Op::Fallocate { ino: f, off, len, mode: Fallocate::PunchHole };
        b.done(punch(4_000, 8_288));
        let punched = b.id();
        assert_eq!((b.attr(f).size, b.attr(f).blocks), (20_000, 24));
        let pieces = b.pieces(f, 0, 20_000);
        assert_eq!(pieces[1..3], [Block::Zero(4096), Block::Zero(4096)]);
        match b.model.settings().data {
            DataMode::Stamps => {
                assert_eq!(pieces[0], stamp(f, 0, punched));
                assert_eq!(pieces[3], stamp(f, 3, written));
            }
            DataMode::Bytes => {
                let old = stamp(f, 0, written).to_bytes();
                assert_eq!(pieces[0].to_bytes()[..4000], old[..4000]);
                assert_eq!(pieces[0].to_bytes()[4000..], [0; 96]);
            }
        }
        // Up to the end of the file is as good as the whole block.
        b.done(punch(16_384, 3_616));
        assert_eq!((b.attr(f).size, b.attr(f).blocks), (20_000, 16));
        // Behind the end there is nothing to change.
        b.done(punch(30_000, 99_999));
        assert_eq!((b.attr(f).size, b.attr(f).blocks), (20_000, 16));
        b.invalid(punch(0, 0));
    }
}

#[test]
fn an_append_goes_behind_the_end_whatever_its_client_expected() {
    let mut b = Bench::bytes();
    let f = b.file(ROOT, "f");
    for (off, text) in [(0, "one"), (0, "two"), (99, "six")] {
        let data = Data::Bytes(Bytes::copy_of(text.as_bytes()));
        assert_eq!(b.ask(Op::Append { ino: f, off, data }), Ok(Reply::Written(3)));
    }
    assert_eq!((b.attr(f).size, b.read(f, 0, 99)), (9, b"onetwosix".to_vec()));
}

#[test]
fn room_beyond_an_end_that_stays_is_refused() {
    let mut b = Bench::bytes();
    let f = b.file(ROOT, "f");
    b.write(f, 0, &[1; 5000]);
    for mode in [Fallocate::Allocate { keep_size: true }, Fallocate::ZeroRange { keep_size: true }]
    {
        let refused = b.ask(Op::Fallocate { ino: f, off: 4_999, len: 2, mode });
        assert!(matches!(refused, Err(FsError::NotSupported(_))), "{refused:?}");
        b.done(Op::Fallocate { ino: f, off: 0, len: 4_000, mode });
    }
}

#[test]
fn what_is_made_zero_keeps_its_room_where_promises_are_data() {
    let mut b = Bench::new(Settings { promised_is_data: true, ..Settings::default() });
    let f = b.file(ROOT, "f");
    b.write(f, 4096, &[1; 4096]);
    assert_eq!(b.attr(f).blocks, 8);
    let mode = Fallocate::ZeroRange { keep_size: false };
    b.done(Op::Fallocate { ino: f, off: 100, len: 12_188, mode });
    assert_eq!((b.attr(f).size, b.attr(f).blocks), (12_288, 24));
    assert_eq!(b.read(f, 0, 20_000), vec![0; 12_288]);
}

#[test]
fn zeroing_may_extend_and_promising_leaves_holes() {
    let mut b = Bench::bytes();
    let f = b.file(ROOT, "f");
    b.write(f, 0, &[1; 5000]);
    let allocate = |off, len, mode| Op::Fallocate { ino: f, off, len, mode };
    b.done(allocate(0, 5_000, Fallocate::Allocate { keep_size: true }));
    assert_eq!(b.attr(f).size, 5000);
    b.done(allocate(4_999, 1, Fallocate::ZeroRange { keep_size: true }));
    assert_eq!((b.attr(f).size, b.read(f, 4_998, 9)), (5000, vec![1, 0]));
    b.done(allocate(4_998, 5_002, Fallocate::ZeroRange { keep_size: false }));
    let at = b.now();
    assert_eq!((b.attr(f).size, b.attr(f).mtime), (10_000, at));
    assert_eq!(b.read(f, 4_997, 4), [1, 0, 0, 0]);
    b.done(allocate(0, 20_000, Fallocate::Allocate { keep_size: false }));
    assert_eq!((b.attr(f).size, b.attr(f).blocks), (20_000, 16));
    assert_eq!(seek(&mut b, f, 9_000, SeekFor::Data), None);
}

#[test]
fn seeking_finds_data_and_holes_block_by_block() {
    let mut b = Bench::bytes();
    let f = b.file(ROOT, "f");
    b.write(f, 10_000, b"x");
    b.resize(f, 1 << 40);
    let data = SeekFor::Data;
    assert_eq!(seek(&mut b, f, 0, data), Some(8192));
    assert_eq!(seek(&mut b, f, 9_000, data), Some(9_000));
    assert_eq!(seek(&mut b, f, 12_288, data), None);
    let hole = SeekFor::Hole;
    assert_eq!(seek(&mut b, f, 5, hole), Some(5));
    assert_eq!(seek(&mut b, f, 9_000, hole), Some(12_288));
    b.resize(f, 10_001);
    assert_eq!(seek(&mut b, f, 9_000, hole), Some(10_001));
    assert_eq!(seek(&mut b, f, 10_001, hole), None);
}

#[test]
fn opening_may_cut() {
    let mut b = Bench::stamps();
    let f = b.file(ROOT, "f");
    b.write(f, 0, b"hello");
    b.done(Op::Open { ino: f, read: false, write: true, truncate: true });
    let at = b.now();
    let attr = b.attr(f);
    assert_eq!((attr.size, attr.blocks, attr.mtime), (0, 0, at));
}
