//! `blocks`: a block trace of any format of [`crate::block`], as operations on files.
//!
//! Contract: each device is one file, named after its number, which existed before, is opened at its first
//! request and never closed. A trim punches a hole, a flush is an fsync of its device. Reads and writes
//! are divided into pieces of at most a MiB; they come in the order of the text, and what is earlier than
//! the request before it comes at the same time.
//!
//! A disk has contents everywhere, so what is read before it is written or trimmed existed before: in
//! whole blocks of 4 KiB exactly where it is read. Nodes come at the end, when all of it is known; memory
//! grows with the ranges of blocks that are touched, not with the requests.

use std::collections::BTreeMap;

use twin_fs::{Fallocate, Ino, Op, ROOT_INO, mode};
use twin_rt::{FixedMap, Time};
use twin_settings::RegistryEntry;

use super::tree::Tree;
use super::{Format, Input, OpenError, Opening};
use crate::block::{self, BlockOp, BlockRequest, BlockSource};
use crate::error::TraceError;
use crate::frame::{Header, Traits};
use crate::kind::Kind;
use crate::reading::Reading;
use crate::record::{Node, NodeAttr, Outcome, Record};
use crate::stream::Source;

pub(super) const FORMAT: RegistryEntry<Format> = RegistryEntry::new(
    "blocks",
    "a block trace (blkparse, MSR, SPC, fio, Alibaba, Tencent, ...): one file a device",
    Format { is_like: None, open: Opening::Once(open) },
);

const PIECE_BYTES: u64 = 1 << 20;
/// Size of the blocks in which data from before the trace is created.
const BLOCK_BYTES: u64 = 4096;

/// The facts about one device.
struct Device {
    ino: Ino,
    /// The ranges that were read, written or trimmed so far.
    touched: Ranges,
    /// The ranges that were read before they were written or trimmed.
    before: Ranges,
    /// The end of the furthest read.
    end: u64,
}

struct Blocks {
    header: Header,
    source: Box<dyn BlockSource>,
    tree: Tree,
    devices: FixedMap<u64, usize>,
    known: Vec<Device>,
    start_ns: Option<u64>,
    /// Requests that are earlier than the one before.
    backwards: u64,
    /// The next device, and range of it, whose node is due, once the requests have ended.
    next_node: (usize, Vec<(u64, u64)>),
    has_ended: bool,
}

fn open(input: Input) -> Result<Box<dyn Source>, TraceError> {
    let (spec, source) = block::open_any(input).map_err(|error| match error {
        OpenError::Trace(error) => error,
        OpenError::Name(error) => TraceError::line(1, error.to_string()),
    })?;
    let traits = Traits { timed: source.is_timed(), ..Traits::default() };
    let (text, start, seed) = (format!("block trace ({})", spec.name), Time(0), 0);
    Ok(Box::new(Blocks {
        header: Header { kind: Kind::Operations, start, seed, traits, text },
        source,
        tree: Tree::new(),
        devices: FixedMap::default(),
        known: Vec::new(),
        start_ns: None,
        backwards: 0,
        next_node: (0, Vec::new()),
        has_ended: false,
    }))
}

fn name_of(number: u64) -> String {
    format!("device{number}")
}

impl Blocks {
    /// The device of a request, which is opened if it is new.
    fn device(&mut self, number: u64) -> usize {
        let (tree, known) = (&mut self.tree, &mut self.known);
        *self.devices.entry(number).or_insert_with(|| {
            let name = name_of(number);
            let ino = tree.add_existing(ROOT_INO, name.as_bytes(), false);
            tree.lookup(ROOT_INO, name.as_bytes());
            tree.open(ino, true, false);
            let (touched, before) = (Ranges::default(), Ranges::default());
            known.push(Device { ino, touched, before, end: 0 });
            known.len() - 1
        })
    }

    fn request(&mut self, request: BlockRequest) {
        let start_ns = *self.start_ns.get_or_insert(request.at_ns);
        let at_ns = request.at_ns.saturating_sub(start_ns);
        self.backwards += u64::from(at_ns < self.tree.at_ns || request.at_ns < start_ns);
        self.tree.at_ns = self.tree.at_ns.max(at_ns);
        let at = self.device(request.device);
        let (tree, device) = (&mut self.tree, &mut self.known[at]);
        let (ino, off, len) = (device.ino, request.offset_bytes, request.bytes);
        let end = off + len;
        match request.op {
            BlockOp::Sync { data_only } => tree.op(Op::Fsync { ino, data_only }, Outcome::Done),
            BlockOp::Trim => {
                device.touched.add(off, end, &mut |_, _| {});
                let mode = Fallocate::PunchHole;
                tree.op(Op::Fallocate { ino, off, len, mode }, Outcome::Done);
            }
            BlockOp::Write => {
                device.touched.add(off, end, &mut |_, _| {});
                pieces(off, end, |off, len| tree.write(ino, off, u64::from(len)));
            }
            BlockOp::Read => {
                let Device { before, touched, .. } = device;
                touched.add(off, end, &mut |from, to| {
                    let (from, to) =
                        (from / BLOCK_BYTES * BLOCK_BYTES, to.next_multiple_of(BLOCK_BYTES));
                    before.add(from, to, &mut |_, _| {});
                });
                device.end = device.end.max(end.next_multiple_of(BLOCK_BYTES));
                // All that is read was there before or was written.
                pieces(off, end, |off, len| {
                    tree.op(Op::Read { ino, off, len }, Outcome::Data(len.into()));
                });
            }
        }
    }

    /// The next node of a device, or of data in it.
    fn node(&mut self) -> Option<Record> {
        let (next, ranges) = &mut self.next_node;
        if let Some((from, to)) = ranges.pop() {
            return Some(Record::Node(Node::data(self.known[*next - 1].ino, from, to - from)));
        }
        let Device { ino, before, end, .. } = self.known.get(*next)?;
        *next += 1;
        ranges.extend(before.0.iter().rev().map(|(from, to)| (*from, *to)));
        let allocated = ranges.iter().map(|(from, to)| to - from).sum();
        let attr = NodeAttr { nlink: 1, size: *end, allocated, ..NodeAttr::default() };
        let number =
            self.devices.iter().find(|(_, at)| **at + 1 == *next).map(|(number, _)| *number);
        Some(Record::Node(Node {
            dir: ROOT_INO,
            name: name_of(number.unwrap_or_default()).as_bytes().into(),
            ino: *ino,
            mode: mode::REGULAR | 0o644,
            attr: Some(attr),
        }))
    }
}

/// Divides a range into pieces.
fn pieces(off: u64, end: u64, mut piece: impl FnMut(u64, u32)) {
    let mut at = off;
    while at < end {
        let len = PIECE_BYTES.min(end - at);
        piece(at, len as u32);
        at += len;
    }
}

impl Source for Blocks {
    fn header(&self) -> &Header {
        &self.header
    }

    fn next_record(&mut self) -> Result<Option<Record>, TraceError> {
        loop {
            if let Some(record) = self.tree.pop() {
                return Ok(Some(record));
            }
            if self.has_ended {
                return Ok(self.node());
            }
            match self.source.next_request()? {
                Some(request) => self.request(request),
                None => self.has_ended = true,
            }
        }
    }

    fn reading(&self) -> Reading {
        let mut reading = self.source.reading();
        let bytes = self.known.iter().flat_map(|device| &device.before.0).map(|(a, b)| b - a).sum();
        reading.assume_of(bytes, "bytes that are read before they are written were there before");
        reading.assume_of(
            self.backwards,
            "requests that are earlier than the one before them come at the same time",
        );
        reading
    }
}

/// Ranges of bytes that do not touch each other: their ends by their beginnings.
#[derive(Default)]
struct Ranges(BTreeMap<u64, u64>);

impl Ranges {
    /// Adds a range; tells what of it was not there.
    fn add(&mut self, from: u64, to: u64, is_new: &mut dyn FnMut(u64, u64)) {
        let (mut start, mut end, mut at) = (from, to, from);
        // Ranges do not overlap, so those that begin last before `to` are the only ones that meet it.
        let first = self.0.range(..from).next_back().filter(|(_, end)| **end >= from);
        let first = first.map_or(from, |(first, _)| *first);
        while let Some((&a, &b)) = self.0.range(first..=to).next() {
            if a > at {
                is_new(at, a.min(to));
            }
            at = at.max(b);
            (start, end) = (start.min(a), end.max(b));
            self.0.remove(&a);
        }
        if at < to {
            is_new(at, to);
        }
        if start < end {
            self.0.insert(start, end);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Against a bit a byte, with random ranges.
    #[test]
    fn ranges_know_what_was_there() {
        let (mut rng, mut ranges) = (twin_rt::Rng::new(5), Ranges::default());
        let mut there = [false; 300];
        for round in 0..2000 {
            let from = rng.below(300) as usize;
            let to = (from + rng.below(8) as usize).min(300);
            let mut new = Vec::new();
            ranges.add(from as u64, to as u64, &mut |a, b| new.extend(a as usize..b as usize));
            let expected: Vec<usize> = (from..to).filter(|at| !there[*at]).collect();
            assert_eq!(new, expected, "round {round}");
            there[from..to].fill(true);
            let ends: Vec<_> = ranges.0.iter().map(|(a, b)| (*a, *b)).collect();
            assert!(ends.windows(2).all(|pair| pair[0].1 < pair[1].0), "{ends:?}");
            let sum: u64 = ends.iter().map(|(a, b)| b - a).sum();
            assert_eq!(sum, there.iter().filter(|is| **is).count() as u64);
            if round % 300 == 299 {
                (ranges, there) = (Ranges::default(), [false; 300]);
            }
        }
    }

    fn records(text: &str) -> (Vec<Record>, Reading) {
        let mut source =
            crate::readers::open("blocks", std::io::Cursor::new(text.to_owned())).unwrap();
        let mut records = Vec::new();
        while let Some(record) = source.next_record().unwrap() {
            records.push(record);
        }
        (records, source.reading())
    }

    /// Reads of a block trace read holes: "ffs wins, 1.39 times" on 3,000 reads of nothing.
    #[test]
    fn what_is_read_before_it_is_written_was_there_before_where_it_is_read() {
        let text =
            "7,R,0,512,1\n7,W,8192,4096,2\n7,R,8192,8192,3\n7,R,0,4096,4\n7,R,1048576,512,5\n";
        let (records, reading) = records(text);
        let nodes: Vec<&Node> = records
            .iter()
            .filter_map(|record| match record {
                Record::Node(node) => Some(node),
                _ => None,
            })
            .collect();
        assert_eq!((&*nodes[0].name, nodes[0].attr.unwrap().size), (&b"device7"[..], 1_052_672));
        assert_eq!(nodes[0].attr.unwrap().allocated, 3 * 4096);
        let data: Vec<_> = nodes[1..].iter().map(|node| node.as_data().unwrap()).collect();
        assert_eq!(data, [(0, 4096), (12_288, 4096), (1_048_576, 4096)]);
        assert!(reading.notes()[0].contains("12288 bytes"), "{:?}", reading.notes());
        let read: u64 = records
            .iter()
            .map(|record| match record {
                Record::Reply { outcome: Outcome::Data(len), .. } => *len,
                _ => 0,
            })
            .sum();
        assert_eq!(read, 512 + 8192 + 4096 + 512);
    }

    #[test]
    fn syncs_and_trims_are_kept_and_time_does_not_go_back() {
        let text = "fio version 3 iolog\n10 /a write 0 4096\n30 /a datasync 0 0\n20 /a trim 0 4096\n\
                    20 /a trim 0 0\n40 /a sync 0 0\n";
        let (records, reading) = records(text);
        let ops: Vec<String> = records
            .iter()
            .filter_map(|record| match record {
                Record::Request { at_ns, request } => {
                    Some(format!("{} {}", crate::Verb::of(&request.op).name(), at_ns / 1000))
                }
                _ => None,
            })
            .collect();
        assert_eq!(ops, ["lookup 0", "open 0", "write 0", "fsync 20", "fallocate 20", "fsync 30"]);
        let notes = reading.notes().concat();
        assert!(notes.contains("1 of 5 lines left out") && notes.contains("1 requests that are"));
    }
}
