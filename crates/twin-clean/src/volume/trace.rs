//! The writes of a block trace, in the form that a bare volume takes.
//!
//! A volume has as many blocks as the trace writes distinct ones. They keep their order, device by
//! device, without the gaps between them. A write that covers a part of a block writes the block; a
//! trim deletes only blocks that it covers whole.

use super::{BLOCKS_MAX, GeometryError};

/// Bytes of a block, as in SepBIT's experiments.
pub const BLOCK_BYTES: u64 = 4096;

/// A request of a trace: consecutive blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// The first block, in the numbering of the volume.
    pub first_block: u32,
    /// The number of blocks.
    pub blocks: u32,
    /// Whether the blocks are deleted rather than written.
    pub is_trim: bool,
}

/// The writes and trims of a trace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Trace {
    requests: Vec<Request>,
    blocks: u32,
    writes: u64,
}

impl Trace {
    /// The requests in order.
    pub fn requests(&self) -> &[Request] {
        &self.requests
    }

    /// Number of distinct blocks that are written.
    pub fn blocks(&self) -> u32 {
        self.blocks
    }

    /// Number of blocks written, repetitions included.
    pub fn writes(&self) -> u64 {
        self.writes
    }
}

/// Collects the requests of a trace.
#[derive(Debug, Default)]
pub struct Builder {
    /// Device, first block on it, end, trim.
    requests: Vec<(u64, u64, u64, bool)>,
}

impl Builder {
    /// Adds a write of a byte range.
    pub fn write(&mut self, device: u64, offset_bytes: u64, bytes: u64) {
        let end = offset_bytes.saturating_add(bytes).div_ceil(BLOCK_BYTES);
        self.push(device, offset_bytes / BLOCK_BYTES, end, false);
    }

    /// Adds a trim of a byte range.
    pub fn trim(&mut self, device: u64, offset_bytes: u64, bytes: u64) {
        let end = offset_bytes.saturating_add(bytes) / BLOCK_BYTES;
        self.push(device, offset_bytes.div_ceil(BLOCK_BYTES), end, true);
    }

    fn push(&mut self, device: u64, first: u64, end: u64, is_trim: bool) {
        if first < end {
            self.requests.push((device, first, end, is_trim));
        }
    }

    /// Completes the trace.
    ///
    /// # Errors
    /// If it writes nothing, or more blocks than a volume can have.
    pub fn finish(self) -> Result<Trace, GeometryError> {
        let written = self.requests.iter().filter(|request| !request.3);
        let mut runs: Vec<(u64, u64, u64)> =
            written.map(|&(d, from, to, _)| (d, from, to)).collect();
        runs.sort_unstable();
        // Runs of written blocks, without overlap, each with the number of its first block.
        let mut merged: Vec<(u64, u64, u64, u64)> = Vec::new();
        let mut blocks = 0u64;
        for (device, from, to) in runs {
            match merged.last_mut() {
                Some(last) if last.0 == device && from <= last.2 => {
                    blocks += to.saturating_sub(last.2);
                    last.2 = last.2.max(to);
                }
                _ => {
                    merged.push((device, from, to, blocks));
                    blocks += to - from;
                }
            }
        }
        if blocks == 0 {
            return Err(GeometryError("the trace writes nothing".into()));
        }
        if blocks > u64::from(BLOCKS_MAX) {
            return Err(GeometryError(format!(
                "the trace writes {blocks} different blocks: too many"
            )));
        }
        let mut trace = Trace { requests: Vec::new(), blocks: blocks as u32, writes: 0 };
        for (device, from, to, is_trim) in self.requests {
            // A trim may extend over gaps.
            let start = merged.partition_point(|run| (run.0, run.2) <= (device, from));
            let runs = merged[start..].iter().take_while(|run| run.0 == device && run.1 < to);
            for run in runs {
                let (from, to) = (from.max(run.1), to.min(run.2));
                let (first_block, blocks) = ((run.3 + from - run.1) as u32, (to - from) as u32);
                trace.requests.push(Request { first_block, blocks, is_trim });
                trace.writes += if is_trim { 0 } else { u64::from(blocks) };
            }
        }
        Ok(trace)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gaps_go_and_order_stays() {
        let mut builder = Builder::default();
        builder.write(7, 0, 4096);
        builder.write(3, 1 << 40, 8192);
        builder.write(3, 0, 1);
        builder.trim(3, 0, (1 << 40) + 4096);
        builder.trim(3, 1, 4096);
        let trace = builder.finish().unwrap();
        let found: Vec<_> =
            trace.requests().iter().map(|r| (r.first_block, r.blocks, r.is_trim)).collect();
        let trims = [(0, 1, true), (1, 1, true)];
        assert_eq!(
            found,
            [[(3, 1, false), (1, 2, false), (0, 1, false)].as_slice(), &trims].concat()
        );
        assert_eq!((trace.blocks(), trace.writes()), (4, 4));
    }

    #[test]
    fn a_trace_without_writes_is_refused() {
        assert!(Builder::default().finish().is_err());
    }
}
