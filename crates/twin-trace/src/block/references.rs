//! `references` and `arc`: reference strings of the literature on caches: numbers of blocks, and nothing
//! else. All accesses are reads, and happen at once.
//!
//! - `references`: a number a line, as in the LIRS authors' distribution and libCacheSim's txt.
//! - `arc`: the ARC authors' strings (Megiddo and Modha, FAST 2003): first block, number of blocks, a
//!   field that is ignored, number of the request.
//!
//! The blocks have no size; they count as 4 KiB.

use twin_settings::RegistryEntry;

use super::{BlockOp, BlockRequest, BlockSource, Format, Parsed, PerLine, fields, lines};
use crate::error::TraceError;
use crate::readers::Input;
use crate::reading::Reading;

pub(super) const BLOCK_BYTES: u64 = 4096;
const ASSUMED: &str = "the numbers are those of blocks, which are read and have 4096 bytes";

pub(super) const REFERENCES: RegistryEntry<Format> = RegistryEntry::new(
    "references",
    "a reference string: a block number a line (LIRS, libCacheSim's txt); all are reads",
    Format { is_like: |start| are_like(start, 1), open: |input| open(input, parse_one) },
);

pub(super) const ARC: RegistryEntry<Format> = RegistryEntry::new(
    "arc-lis",
    "reference strings of ARC's authors: first block, blocks, ignored, request; all are reads",
    Format { is_like: |start| are_like(start, 4), open: |input| open(input, parse_run) },
);

/// Checks that each of the first lines has `numbers` numbers.
fn are_like(start: &[u8], numbers: usize) -> bool {
    let is_number = |word: &str| word.parse::<u64>().is_ok();
    let is_like = |line: &str| {
        line.split_whitespace().count() == numbers && line.split_whitespace().all(is_number)
    };
    let mut first = lines(start).take(20).peekable();
    first.peek().is_some() && first.all(is_like)
}

struct References(Box<dyn BlockSource>);

fn open(
    input: Input,
    parse: fn(&str) -> Result<Parsed, String>,
) -> Result<Box<dyn BlockSource>, TraceError> {
    Ok(Box::new(References(PerLine::start(input, move |line, reading| {
        reading.assume(ASSUMED);
        parse(line)
    }))))
}

impl BlockSource for References {
    fn next_request(&mut self) -> Result<Option<BlockRequest>, TraceError> {
        self.0.next_request()
    }

    fn reading(&self) -> Reading {
        self.0.reading()
    }

    fn is_timed(&self) -> bool {
        false
    }

    fn unit_bytes(&self) -> Option<u64> {
        Some(BLOCK_BYTES)
    }
}

fn request(first: u64, blocks: u64) -> Result<Parsed, String> {
    let bytes = |number: u64| {
        number.checked_mul(BLOCK_BYTES).ok_or_else(|| format!("{number} is too large"))
    };
    let (offset_bytes, bytes) = (bytes(first)?, bytes(blocks)?);
    Ok(Parsed::Request(BlockRequest {
        at_ns: 0,
        device: 0,
        op: BlockOp::Read,
        offset_bytes,
        bytes,
    }))
}

fn parse_one(line: &str) -> Result<Parsed, String> {
    request(fields::blank(line).number("the block")?, 1)
}

fn parse_run(line: &str) -> Result<Parsed, String> {
    let mut fields = fields::blank(line);
    let (first, blocks) = (fields.number("the block")?, fields.number("the number of blocks")?);
    fields.skip(&["a field that is ignored", "the request"])?;
    request(first, blocks)
}
