//! `blocks`: a block trace of any format of [`crate::block`], as operations on files. Each device
//! becomes one file, named after its number, opened at its first request and never closed. A read
//! of bytes that were never written reads a hole, and a trim punches one. Reads and writes are
//! divided into pieces of at most a MiB.

use twin_fs::{Fallocate, Ino, Op, ROOT_INO};
use twin_rt::{FixedMap, Time};
use twin_settings::RegistryEntry;

use super::tree::Tree;
use super::{Format, Input, OpenError, Opening};
use crate::block::{self, BlockOp, BlockRequest, BlockSource};
use crate::error::TraceError;
use crate::frame::{Header, Traits};
use crate::kind::Kind;
use crate::record::{Outcome, Record};
use crate::stream::Source;

pub(super) const FORMAT: RegistryEntry<Format> = RegistryEntry::new(
    "blocks",
    "a block trace (blkparse, MSR, SPC, fio, Alibaba, Tencent, ...): one file a device",
    Format { is_like: None, open: Opening::Once(open) },
);

const PIECE_BYTES: u64 = 1 << 20;

struct Blocks {
    header: Header,
    source: Box<dyn BlockSource>,
    tree: Tree,
    devices: FixedMap<u32, Ino>,
    start_ns: Option<u64>,
}

fn open(input: Input) -> Result<Box<dyn Source>, TraceError> {
    let (spec, source) = block::open_any(input).map_err(|error| match error {
        OpenError::Trace(error) => error,
        OpenError::Name(error) => TraceError::line(1, error.to_string()),
    })?;
    let traits = Traits { timed: true, nodes_first: true, ..Traits::default() };
    let (text, start, seed) = (format!("block trace ({})", spec.name), Time(0), 0);
    Ok(Box::new(Blocks {
        header: Header { kind: Kind::Operations, start, seed, traits, text },
        source,
        tree: Tree::new(),
        devices: FixedMap::default(),
        start_ns: None,
    }))
}

impl Blocks {
    fn request(&mut self, request: BlockRequest) {
        let start_ns = *self.start_ns.get_or_insert(request.at_ns);
        let at_ns = request.at_ns.saturating_sub(start_ns);
        self.tree.at_ns = self.tree.at_ns.max(at_ns);
        let (tree, device) = (&mut self.tree, request.device);
        let name = format!("device{device}");
        let ino =
            *self.devices.entry(device).or_insert_with(|| tree.create(ROOT_INO, name.as_bytes()));
        let end = request.offset_bytes + request.bytes;
        let mut at = request.offset_bytes;
        if request.op == BlockOp::Trim {
            let (off, len, mode) = (at, request.bytes, Fallocate::PunchHole);
            tree.op(Op::Fallocate { ino, off, len, mode }, Outcome::Done);
            return;
        }
        while at < end {
            let piece = PIECE_BYTES.min(end - at);
            match request.op {
                BlockOp::Read => tree.read(ino, at, piece as u32),
                _ => tree.write(ino, at, piece),
            }
            at += piece;
        }
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
            match self.source.next_request()? {
                Some(request) => self.request(request),
                None => return Ok(None),
            }
        }
    }
}
