//! Random records of every kind, for tests of the format.
#![allow(dead_code, unreachable_pub)] // Each test binary uses a part of it.

pub mod replayed;
pub mod script;
pub mod tiny;

use twin_disk::Bytes;
use twin_fs::{
    Cred, Data, Fallocate, Name, Op, RenameMode, Request, SeekFor, SetAttr, SetTime, Timestamp,
    XattrMode, mode,
};
use twin_rt::{Rng, Time};
use twin_trace::{
    DirOutcome, ErrorCode, Header, Kind, Node, NodeAttr, Outcome, Record, Source, Traits, Verb,
    Writer,
};

pub fn header(contents: bool) -> Header {
    let traits = Traits { contents, timed: true, ..Traits::default() };
    let (start, text) = (Time(1_700_000_000_000_000_001), "a trace for a test".to_owned());
    Header { kind: Kind::Operations, start, seed: 7, traits, text }
}

/// The number of verbs in version 1. Fixed, so that the file in `data` keeps its meaning.
const VERBS: usize = 28;
const ERRORS: usize = 22;

/// A random number, more often a small one.
pub fn any(rng: &mut Rng) -> u64 {
    let bits = rng.below(65) as u32;
    if bits == 0 { 0 } else { rng.next_u64() >> (64 - bits) }
}

pub fn any32(rng: &mut Rng) -> u32 {
    any(rng) as u32
}

pub fn name(rng: &mut Rng) -> Name {
    let len = if rng.chance(0.02) { rng.below(2000) } else { rng.below(12) };
    (0..len).map(|_| rng.next_u64() as u8).collect()
}

fn ino(rng: &mut Rng) -> u64 {
    if rng.chance(0.9) { rng.range(2, 50) } else { any(rng) }
}

fn set_time(rng: &mut Rng) -> Option<SetTime> {
    match rng.below(3) {
        0 => None,
        1 => Some(SetTime::Now),
        _ => Some(SetTime::At(timestamp(rng))),
    }
}

fn timestamp(rng: &mut Rng) -> Timestamp {
    Timestamp { secs: any(rng) as i64, nanos: rng.below(1_000_000_000) as u32 }
}

fn set_attr(rng: &mut Rng) -> SetAttr {
    let small = |rng: &mut Rng| rng.chance(0.5).then(|| any32(rng));
    SetAttr {
        mode: small(rng),
        uid: small(rng),
        gid: small(rng),
        size: rng.chance(0.5).then(|| any(rng)),
        atime: set_time(rng),
        mtime: set_time(rng),
        ctime: rng.chance(0.5).then(|| timestamp(rng)),
    }
}

fn data(rng: &mut Rng, contents: bool) -> Data {
    if contents && rng.chance(0.5) {
        let bytes: Vec<u8> = (0..rng.below(3000)).map(|_| rng.next_u64() as u8).collect();
        return Data::Bytes(Bytes::copy_of(&bytes));
    }
    Data::Synthetic(any(rng) >> 32)
}

fn value(rng: &mut Rng, contents: bool) -> Box<[u8]> {
    let byte = if contents { rng.next_u64() as u8 } else { 0 };
    vec![byte; rng.below(300) as usize].into()
}

pub fn op(rng: &mut Rng, contents: bool) -> Op {
    let verb = *rng.pick(&Verb::ALL[..VERBS]);
    let (ino, dir, off) = (ino(rng), ino(rng), any(rng));
    let (name, other, mode) = (name(rng), name(rng), any32(rng));
    let (a, b, c) = (rng.chance(0.5), rng.chance(0.5), rng.chance(0.5));
    match verb {
        Verb::Lookup => Op::Lookup { dir, name },
        Verb::Forget => Op::Forget { ino, count: any(rng) },
        Verb::GetAttr => Op::GetAttr { ino },
        Verb::SetAttr => Op::SetAttr { ino, set: set_attr(rng) },
        Verb::ReadLink => Op::ReadLink { ino },
        Verb::MakeNode => Op::MakeNode { dir, name, mode, rdev: any(rng) },
        Verb::MakeDir => Op::MakeDir { dir, name, mode },
        Verb::Symlink => Op::Symlink { dir, name, target: other },
        Verb::Create => Op::Create { dir, name, mode, exclusive: a },
        Verb::Unlink => Op::Unlink { dir, name },
        Verb::RemoveDir => Op::RemoveDir { dir, name },
        Verb::Rename => {
            let modes = [
                RenameMode::Replace,
                RenameMode::NoReplace,
                RenameMode::Exchange,
                RenameMode::Whiteout,
            ];
            Op::Rename { dir, name, to_dir: ino, to_name: other, mode: *rng.pick(&modes) }
        }
        Verb::Link => Op::Link { ino, dir, name },
        Verb::Open => Op::Open { ino, read: a, write: b, truncate: c },
        Verb::Release => Op::Release { ino },
        Verb::Read => Op::Read { ino, off, len: any32(rng) },
        Verb::Write => Op::Write { ino, off, data: data(rng, contents) },
        Verb::Fsync => Op::Fsync { ino, data_only: a },
        Verb::ReadDir => {
            let cookie = if a { 0 } else { off };
            Op::ReadDir { dir, cookie, max_bytes: any32(rng), plus: b }
        }
        Verb::StatFs => Op::StatFs,
        Verb::Access => Op::Access { ino, mask: any32(rng) },
        Verb::SetXattr => {
            let mode = *rng.pick(&[XattrMode::Any, XattrMode::Create, XattrMode::Replace]);
            Op::SetXattr { ino, name, value: value(rng, contents), mode }
        }
        Verb::GetXattr => Op::GetXattr { ino, name },
        Verb::ListXattr => Op::ListXattr { ino },
        Verb::RemoveXattr => Op::RemoveXattr { ino, name },
        Verb::Fallocate => {
            let mode = match rng.below(3) {
                0 => Fallocate::Allocate { keep_size: a },
                1 => Fallocate::ZeroRange { keep_size: a },
                _ => Fallocate::PunchHole,
            };
            Op::Fallocate { ino, off, len: any(rng), mode }
        }
        Verb::Seek => Op::Seek { ino, off, what: if a { SeekFor::Data } else { SeekFor::Hole } },
        Verb::Sync => Op::Sync,
    }
}

pub fn cred(rng: &mut Rng) -> Cred {
    let groups = (0..rng.below(3)).map(|_| any32(rng)).collect();
    Cred { uid: rng.below(3) as u32, gid: any32(rng), groups, checked: rng.chance(0.5) }
}

fn outcome(rng: &mut Rng) -> Outcome {
    match rng.below(9) {
        0 => Outcome::Failed(*rng.pick(&ErrorCode::ALL[..ERRORS])),
        1 => Outcome::Done,
        2 => Outcome::Entry(ino(rng)),
        3 => Outcome::Attr,
        4 => Outcome::Data(any(rng)),
        5 => Outcome::Bytes(any(rng)),
        6 => Outcome::Written(any(rng)),
        7 => {
            let referenced = (0..rng.below(5)).map(|_| ino(rng)).collect();
            Outcome::Dir(DirOutcome { entries: any32(rng), next: any(rng), referenced })
        }
        _ => Outcome::Offset(any(rng)),
    }
}

fn node(rng: &mut Rng) -> Node {
    let size = any(rng);
    let allocated = if rng.chance(0.5) { size } else { any(rng) };
    let attr = NodeAttr {
        nlink: any32(rng),
        uid: any32(rng),
        gid: any32(rng),
        rdev: any(rng),
        size,
        allocated,
    };
    let attr = rng.chance(0.7).then_some(attr);
    Node { dir: ino(rng), name: name(rng), ino: ino(rng), mode: mode::REGULAR | 0o644, attr }
}

/// `count` random records, ordered by time.
pub fn records(rng: &mut Rng, count: u64, contents: bool) -> Vec<Record> {
    let (mut at_ns, mut requests) = (0, 0);
    let mut creds: Vec<Cred> = (0..4).map(|_| cred(rng)).collect();
    (0..count)
        .map(|_| {
            at_ns += any(rng) >> 40;
            match rng.below(10) {
                0 => Record::Node(node(rng)),
                1..=4 if requests > 0 => {
                    let id = requests - rng.below(requests.min(20));
                    Record::Reply { at_ns, id, outcome: outcome(rng) }
                }
                _ => {
                    if rng.chance(0.01) {
                        let new = cred(rng);
                        creds.push(new);
                    }
                    requests += 1;
                    let client = if rng.chance(0.9) { rng.below(5) as u32 } else { any32(rng) };
                    let cred = rng.pick(&creds).clone();
                    let request = Request { id: requests, client, cred, op: op(rng, contents) };
                    Record::Request { at_ns, request }
                }
            }
        })
        .collect()
}

/// A closed trace of these records, in frames of `per_frame` records.
pub fn trace(records: &[Record], contents: bool, per_frame: usize) -> Vec<u8> {
    let mut writer = Writer::new(Vec::new(), &header(contents)).unwrap();
    for chunk in records.chunks(per_frame) {
        chunk.iter().for_each(|record| writer.record(record).unwrap());
        writer.flush().unwrap();
    }
    writer.finish().unwrap()
}

/// Reads a source to its end.
pub fn read_all(source: &mut impl Source) -> Result<Vec<Record>, twin_trace::TraceError> {
    let mut records = Vec::new();
    while let Some(record) = source.next_record()? {
        records.push(record);
    }
    Ok(records)
}
