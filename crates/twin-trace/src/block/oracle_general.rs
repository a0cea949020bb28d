//! `oracle-general`: libCacheSim's binary oracleGeneral.
//!
//! Records of 24 bytes, little-endian, without padding: clock time in seconds (u32), object (u64),
//! size in bytes (u32), time of the next access (i64, skipped). The format does not distinguish
//! reads and writes: every access counts as a write of one block of 4 KiB, with objects numbered in
//! the order of their first access.

use std::io::Read;

use twin_rt::{FixedMap, SECS};
use twin_settings::RegistryEntry;

use super::{BlockOp, BlockRequest, BlockSource, Format, Object};
use crate::error::{Place, Problem, TraceError};
use crate::readers::Input;
use crate::reading::Reading;

const RECORD_BYTES: usize = 24;
const BLOCK_BYTES: u64 = 4096;
const ASSUMED: &str = "the format does not tell reads from writes: a cache takes all for reads, a disk or file \
                       system for writes of a block of 4096 bytes";

pub(super) const FORMAT: RegistryEntry<Format> = RegistryEntry::new(
    "oracle-general",
    "libCacheSim's oracleGeneral (binary); every access counts as a write of a block",
    Format {
        is_like: |start| {
            // Next access: later than this record, or never.
            let mut records = start.chunks_exact(RECORD_BYTES).enumerate();
            let is_plausible = |(at, record): (usize, &[u8])| {
                let next = i64::from_le_bytes(record[16..24].try_into().unwrap_or_default());
                next == -1 || next == i64::MAX || (next > at as i64 && next < 1 << 40)
            };
            start.len() >= RECORD_BYTES && records.all(is_plausible)
        },
        open: |input| {
            let (blocks, mut reading) = (FixedMap::default(), Reading::of("record"));
            reading.assume(ASSUMED);
            Ok(Box::new(OracleGeneral { input, record: 0, blocks, object: None, reading }))
        },
    },
);

struct OracleGeneral {
    input: Input,
    record: u64,
    blocks: FixedMap<u64, u64>,
    object: Option<Object>,
    reading: Reading,
}

impl BlockSource for OracleGeneral {
    fn next_request(&mut self) -> Result<Option<BlockRequest>, TraceError> {
        self.record += 1;
        let place = Place::Line(self.record);
        let io = |error| TraceError { place, problem: Problem::Io(error) };
        let mut bytes = Vec::with_capacity(RECORD_BYTES);
        let got = (&mut self.input).take(RECORD_BYTES as u64).read_to_end(&mut bytes);
        match got.map_err(io)? {
            0 => return Ok(None),
            RECORD_BYTES => {}
            got => {
                let why = format!("the record ends after {got} of {RECORD_BYTES} bytes");
                return Err(TraceError::line(self.record, why));
            }
        }
        let number = |from: usize| {
            let bytes = &bytes[from..from + 8];
            u64::from_le_bytes(bytes.try_into().unwrap_or_default())
        };
        let at_ns = (number(0) & 0xffff_ffff) * SECS;
        let next = self.blocks.len() as u64;
        let block = *self.blocks.entry(number(4)).or_insert(next);
        let (op, offset_bytes) = (BlockOp::Write, block * BLOCK_BYTES);
        self.object = Some(Object { number: block, bytes: number(8) >> 32 });
        self.reading.use_one();
        Ok(Some(BlockRequest { at_ns, device: 0, op, offset_bytes, bytes: BLOCK_BYTES }))
    }

    fn object(&self) -> Option<Object> {
        self.object
    }

    fn reading(&self) -> Reading {
        self.reading.clone()
    }

    fn unit_bytes(&self) -> Option<u64> {
        Some(BLOCK_BYTES)
    }
}
