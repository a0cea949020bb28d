//! An oracle for runs with synthetic data: whether reads return the last written data.
//!
//! For each file it stores which request wrote which bytes, and checks the stamps (or bytes) of
//! every read against that. It judges only certain cases: a range that two operations changed at
//! the same time is unknown until it is written again, and a read during a change of the same file
//! is not judged.

use std::collections::BTreeMap;

use twin_disk::{Block, Stamp};
use twin_fs::{Data, Fallocate, Ino, Op};
use twin_rt::FixedMap;

/// Version of bytes that were never written: zeros.
const HOLE: u64 = 0;
/// Version of bytes with unknown content.
const UNKNOWN: u64 = u64::MAX;

/// A read that returned something else than the last written data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WrongRead {
    /// The number of the request in the trace.
    pub number: u64,
    /// The inode on the volume.
    pub ino: Ino,
    /// First wrong byte of the file.
    pub off: u64,
    /// The expected content, as text.
    pub expected: String,
    /// The content that was read.
    pub found: String,
}

/// The verdict of the oracle.
#[derive(Clone, Debug, Default)]
pub struct Verdict {
    /// Bytes that were read and are right.
    pub right_bytes: u64,
    /// Bytes that were read and could not be judged.
    pub unjudged_bytes: u64,
    /// Reads that were wrong.
    pub wrong: u64,
    /// The first wrong reads.
    pub examples: Vec<WrongRead>,
}

/// How many wrong reads are kept.
const EXAMPLES: usize = 10;

#[derive(Default)]
struct File {
    size: u64,
    /// Set if a change of the length may or may not have happened.
    size_unknown: bool,
    /// The written ranges by first byte: the end of the range, and the request that wrote it.
    extents: BTreeMap<u64, (u64, u64)>,
    /// Number of changes begun so far, and how many of them are in flight.
    begun: u64,
    changing: u32,
}

impl File {
    /// Removes a range from the extents.
    fn carve(&mut self, from: u64, to: u64) {
        if let Some((&start, &(end, version))) = self.extents.range(..from).next_back()
            && end > from
        {
            self.extents.insert(start, (from, version));
            if end > to {
                self.extents.insert(to, (end, version));
            }
        }
        while let Some((&start, &(end, version))) = self.extents.range(from..to).next() {
            self.extents.remove(&start);
            if end > to {
                self.extents.insert(to, (end, version));
            }
        }
    }

    fn put(&mut self, from: u64, to: u64, version: u64) {
        if to > from {
            self.carve(from, to);
            if version != HOLE {
                self.extents.insert(from, (to, version));
            }
        }
    }

    fn set_size(&mut self, size: u64) {
        self.carve(size, u64::MAX);
        (self.size, self.size_unknown) = (size, false);
    }

    /// The pieces of a range with their versions, holes included.
    fn pieces(&self, from: u64, to: u64) -> Vec<(u64, u64, u64)> {
        let before = self.extents.range(..=from).next_back();
        let start = before.map_or(from, |(&start, _)| start);
        let (mut pieces, mut at) = (Vec::new(), from);
        for (&start, &(end, version)) in self.extents.range(start..to) {
            if end <= at {
                continue;
            }
            if start > at {
                pieces.push((at, start, HOLE));
                at = start;
            }
            pieces.push((at, end.min(to), version));
            at = end.min(to);
        }
        if at < to {
            pieces.push((at, to, HOLE));
        }
        pieces
    }
}

/// The check or update at the end of an operation.
#[derive(Clone, Copy, Debug, Default)]
pub(super) enum Ticket {
    /// There is nothing to check or update.
    #[default]
    None,
    /// A read of a file that no operation was changing.
    Read { ino: Ino, off: u64, len: u64, begun: u64 },
    /// A change; `alone` if no other operation was changing the file.
    Change { ino: Ino, change: Change, alone: bool, begun: u64 },
}

/// The effect of an operation on the bytes of a file.
#[derive(Clone, Copy, Debug)]
pub(super) enum Change {
    /// These bytes now have this version.
    Put { off: u64, len: u64, version: u64, extends: bool },
    /// This many bytes behind the end have this version.
    Add { len: u64, version: u64 },
    /// The file has this length.
    Size(u64),
}

/// The expected content of all files.
pub(super) struct Oracle {
    files: FixedMap<Ino, File>,
    block_bytes: u64,
    pub(super) verdict: Verdict,
}

impl Oracle {
    /// An oracle for a volume with this block size in bytes; 0 if it is unknown: data that are
    /// returned as bytes cannot be judged then.
    pub(super) fn new(block_bytes: u32) -> Oracle {
        let block_bytes = u64::from(block_bytes);
        Oracle { files: FixedMap::default(), block_bytes, verdict: Verdict::default() }
    }

    /// A regular file of this length was created, or found when it was to be created.
    pub(super) fn created(&mut self, ino: Ino, size: u64) {
        match size {
            0 => drop(self.files.insert(ino, File::default())),
            _ if self.files.contains_key(&ino) => {}
            _ => {
                let mut file = File { size, ..File::default() };
                file.put(0, size, UNKNOWN);
                self.files.insert(ino, file);
            }
        }
    }

    /// An operation is about to be issued to the volume.
    pub(super) fn begin(&mut self, id: u64, op: &Op) -> Ticket {
        if let Op::Read { ino, off, len } = *op {
            let Some(file) = self.files.get(&ino) else { return Ticket::None };
            let (len, begun) = (u64::from(len), file.begun);
            return match file.changing {
                0 => Ticket::Read { ino, off, len, begun },
                _ => Ticket::Read { ino, off, len, begun: UNKNOWN },
            };
        }
        let Some((ino, change)) = change(id, op) else { return Ticket::None };
        let Some(file) = self.files.get_mut(&ino) else { return Ticket::None };
        let alone = file.changing == 0;
        file.changing += 1;
        file.begun += 1;
        Ticket::Change { ino, change, alone, begun: file.begun }
    }

    /// A change has ended, with success if `done` is set.
    pub(super) fn changed(&mut self, ticket: Ticket, done: bool) {
        let Ticket::Change { ino, change, alone, begun } = ticket else { return };
        let Some(file) = self.files.get_mut(&ino) else { return };
        file.changing = file.changing.saturating_sub(1);
        let certain = alone && file.begun == begun && done;
        let change = match change {
            // If the end is not known, all bytes before the known end may have been meant.
            Change::Add { len, .. } if !certain || file.size_unknown => {
                let end = file.size.saturating_add(len);
                file.size_unknown |= !done;
                Change::Put { off: 0, len: end, version: UNKNOWN, extends: true }
            }
            Change::Add { len, version } => {
                Change::Put { off: file.size, len, version, extends: true }
            }
            change => change,
        };
        match change {
            Change::Add { .. } => unreachable!("it was given its place"),
            Change::Put { off, len, version, extends } => {
                let end = off.saturating_add(len);
                let end = if extends { end } else { end.min(file.size) };
                file.put(off, end, if certain { version } else { UNKNOWN });
                file.size_unknown |= !done && end > file.size;
                if done {
                    file.size = file.size.max(end);
                }
            }
            Change::Size(size) if certain => file.set_size(size),
            Change::Size(size) => {
                file.size_unknown = true;
                let size = size.max(file.size);
                file.put(0, size, UNKNOWN);
            }
        }
    }

    /// A read has ended with these blocks.
    pub(super) fn read(&mut self, ticket: Ticket, number: u64, blocks: &[Block]) {
        let got: u64 = blocks.iter().map(|block| block.len() as u64).sum();
        let Ticket::Read { ino, off, len, begun } = ticket else {
            self.verdict.unjudged_bytes += got;
            return;
        };
        let Some(file) = self.files.get(&ino).filter(|file| file.begun == begun) else {
            self.verdict.unjudged_bytes += got;
            return;
        };
        let expected = len.min(file.size.saturating_sub(off));
        if got != expected && !file.size_unknown {
            let (expected, found) = (format!("{expected} bytes"), format!("{got} bytes"));
            return self.wrong(WrongRead { number, ino, off, expected, found });
        }
        let mut pos = off;
        let (mut right, mut unjudged) = (0, 0);
        for block in blocks {
            for (from, to, version) in file.pieces(pos, pos + block.len() as u64) {
                let piece = block.slice((from - pos) as usize, (to - from) as usize);
                match judge(ino, from, version, &piece, self.block_bytes) {
                    Some(true) => right += to - from,
                    None => unjudged += to - from,
                    Some(false) => {
                        let expected = match version {
                            HOLE => "zeros".to_owned(),
                            _ => format!("data of request {version}"),
                        };
                        let found = describe(&piece);
                        let off = from;
                        return self.wrong(WrongRead { number, ino, off, expected, found });
                    }
                }
            }
            pos += block.len() as u64;
        }
        self.verdict.right_bytes += right;
        self.verdict.unjudged_bytes += unjudged;
    }

    fn wrong(&mut self, read: WrongRead) {
        self.verdict.wrong += 1;
        if self.verdict.examples.len() < EXAMPLES {
            self.verdict.examples.push(read);
        }
    }
}

fn describe(piece: &Block) -> String {
    match piece {
        Block::Zero(_) => "zeros".to_owned(),
        Block::Bytes(_) => "other bytes".to_owned(),
        Block::Stamp(s) => {
            format!("block {} of inode {} as of request {}", s.lbn, s.ino, s.version)
        }
    }
}

/// Whether a piece of data, read at `off`, is of this version; `None` if that is unknown.
fn judge(ino: Ino, off: u64, version: u64, piece: &Block, block_bytes: u64) -> Option<bool> {
    match (piece, version) {
        (_, UNKNOWN) => None,
        (Block::Zero(_), version) => Some(version == HOLE),
        (Block::Stamp(_), HOLE) => Some(false),
        (Block::Stamp(s), version) => {
            let placed = block_bytes == 0 || s.lbn * block_bytes + u64::from(s.off) == off;
            Some(s.ino == ino && s.version == version && placed)
        }
        (Block::Bytes(bytes), HOLE) => Some(bytes.iter().all(|&byte| byte == 0)),
        (Block::Bytes(_), _) if block_bytes == 0 => None,
        (Block::Bytes(bytes), version) => {
            let (mut at, mut rest) = (off, &bytes[..]);
            while !rest.is_empty() {
                let (lbn, within) = (at / block_bytes, at % block_bytes);
                let len = (rest.len() as u64).min(block_bytes - within);
                let (off, len32) = (within as u32, len as u32);
                let mut expected = vec![0; len as usize];
                Stamp { ino, lbn, version, off, len: len32 }.expand(&mut expected);
                if rest[..len as usize] != expected[..] {
                    return Some(false);
                }
                (at, rest) = (at + len, &rest[len as usize..]);
            }
            Some(true)
        }
    }
}

fn change(id: u64, op: &Op) -> Option<(Ino, Change)> {
    Some(match op {
        Op::Write { ino, off, data } | Op::WriteBack { ino, off, data } => {
            let version = if matches!(data, Data::Synthetic(_)) { id } else { UNKNOWN };
            (*ino, Change::Put { off: *off, len: data.len(), version, extends: true })
        }
        Op::Append { ino, data, .. } => {
            let version = if matches!(data, Data::Synthetic(_)) { id } else { UNKNOWN };
            (*ino, Change::Add { len: data.len(), version })
        }
        Op::SetAttr { ino, set } => (*ino, Change::Size(set.size?)),
        Op::Open { ino, truncate: true, .. } => (*ino, Change::Size(0)),
        Op::Fallocate { ino, off, len, mode } => {
            let (version, extends) = match mode {
                Fallocate::PunchHole => (HOLE, false),
                Fallocate::ZeroRange { keep_size } => (HOLE, !keep_size),
                // Reserves space and changes no byte, but may change the length.
                Fallocate::Allocate { keep_size: true } => return None,
                Fallocate::Allocate { keep_size: false } => (UNKNOWN, true),
            };
            (*ino, Change::Put { off: *off, len: *len, version, extends })
        }
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use twin_rt::Rng;

    const INO: Ino = 5;

    fn oracle() -> Oracle {
        let mut oracle = Oracle::new(4096);
        oracle.created(INO, 0);
        oracle
    }

    fn write(oracle: &mut Oracle, id: u64, off: u64, len: u64) {
        let op = Op::Write { ino: INO, off, data: Data::Synthetic(len) };
        let ticket = oracle.begin(id, &op);
        oracle.changed(ticket, true);
    }

    fn read(oracle: &mut Oracle, off: u64, blocks: &[Block]) {
        let len = blocks.iter().map(|block| block.len() as u32).sum();
        let ticket = oracle.begin(99, &Op::Read { ino: INO, off, len });
        oracle.read(ticket, 1, blocks);
    }

    fn stamp(version: u64, lbn: u64, off: u32, len: u32) -> Block {
        Block::Stamp(Stamp { ino: INO, lbn, version, off, len })
    }

    #[test]
    fn the_last_version_is_right_and_an_older_one_is_wrong() {
        let mut oracle = oracle();
        write(&mut oracle, 1, 0, 8192);
        write(&mut oracle, 2, 4096, 4096);
        read(&mut oracle, 0, &[stamp(1, 0, 0, 4096), stamp(2, 1, 0, 4096)]);
        assert_eq!((oracle.verdict.right_bytes, oracle.verdict.wrong), (8192, 0));
        read(&mut oracle, 4096, &[stamp(1, 1, 0, 4096)]);
        read(&mut oracle, 0, &[stamp(1, 1, 0, 4096)]);
        read(&mut oracle, 0, &[Block::Zero(4096)]);
        read(&mut oracle, 0, &[]);
        assert_eq!(oracle.verdict.wrong, 3);
    }

    #[test]
    fn a_torn_block_is_judged_by_its_bytes() {
        let mut oracle = oracle();
        write(&mut oracle, 1, 0, 4096);
        write(&mut oracle, 2, 100, 50);
        let mut torn = stamp(1, 0, 0, 4096);
        let patch = stamp(2, 0, 100, 50).to_bytes();
        torn.bytes_mut()[100..150].copy_from_slice(&patch);
        read(&mut oracle, 0, std::slice::from_ref(&torn));
        assert_eq!((oracle.verdict.right_bytes, oracle.verdict.wrong), (4096, 0));
        torn.bytes_mut()[120] ^= 1;
        read(&mut oracle, 0, &[torn]);
        assert_eq!(oracle.verdict.wrong, 1);
        assert_eq!(oracle.verdict.examples[0].off, 100);
    }

    #[test]
    fn holes_are_zeros_and_lengths_count() {
        let mut oracle = oracle();
        write(&mut oracle, 1, 8192, 10);
        read(&mut oracle, 4096, &[Block::Zero(4096)]);
        assert_eq!(oracle.verdict.right_bytes, 4096);
        let set = twin_fs::SetAttr { size: Some(100), ..Default::default() };
        let ticket = oracle.begin(2, &Op::SetAttr { ino: INO, set });
        oracle.changed(ticket, true);
        let ticket = oracle.begin(3, &Op::Read { ino: INO, off: 50, len: 4096 });
        oracle.read(ticket, 1, &[Block::Zero(50)]);
        assert_eq!((oracle.verdict.right_bytes, oracle.verdict.wrong), (4146, 0));
    }

    #[test]
    fn what_is_changed_at_the_same_time_is_not_judged() {
        let mut oracle = oracle();
        write(&mut oracle, 1, 0, 4096);
        let op = Op::Write { ino: INO, off: 0, data: Data::Synthetic(4096) };
        let a = oracle.begin(2, &op);
        let b = oracle.begin(3, &op);
        let during = oracle.begin(4, &Op::Read { ino: INO, off: 0, len: 4096 });
        oracle.changed(a, true);
        oracle.changed(b, true);
        oracle.read(during, 1, &[stamp(9, 0, 0, 4096)]);
        read(&mut oracle, 0, &[stamp(9, 0, 0, 4096)]);
        assert_eq!((oracle.verdict.unjudged_bytes, oracle.verdict.wrong), (8192, 0));
        write(&mut oracle, 5, 0, 4096);
        read(&mut oracle, 0, &[stamp(9, 0, 0, 4096)]);
        assert_eq!(oracle.verdict.wrong, 1);
    }

    #[test]
    fn extents_agree_with_a_table_of_bytes() {
        for seed in 0..50 {
            let mut rng = Rng::new(seed);
            let (mut file, mut bytes) = (File::default(), [HOLE; 200]);
            for version in 1..100 {
                let (from, len) = (rng.below(150), rng.below(50));
                let version = if rng.chance(0.3) { HOLE } else { version };
                file.put(from, from + len, version);
                bytes[from as usize..(from + len) as usize].fill(version);
                let (from, len) = (rng.below(100), rng.below(100));
                let pieces = file.pieces(from, from + len);
                let flat: Vec<u64> = pieces
                    .iter()
                    .flat_map(|&(from, to, version)| (from..to).map(move |_| version))
                    .collect();
                let expected = &bytes[from as usize..(from + len) as usize];
                assert_eq!(flat, expected, "seed {seed}");
            }
        }
    }
}
