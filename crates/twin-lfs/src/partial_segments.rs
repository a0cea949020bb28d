//! The walk over the partial segments of a segment, in the order in which they were written.
//!
//! Recovery, the cleaner, the checker, the dump and the search for forwarded blocks all find out
//! with it what the log says. They differ in where the bytes come from ([`ReadBytes`]) and in what
//! they make of a summary, and in nothing else.
//!
//! Contract: the walk gives sound summaries whose serial numbers rise. It ends at the first place
//! where there is none: a segment that is filled again begins with higher serial numbers, so what
//! its earlier life left behind a shorter one is not taken for a part of it.

use twin_disk::{Block, BlockDevice, Bytes, Class, Io, Origin, gather};
use twin_fs::Result;

use crate::format::{Summary, Superblock};

/// Where the bytes of the log come from.
pub(crate) trait ReadBytes {
    /// How much is read first to find out how long a summary is.
    const FIRST_BYTES: u32;

    /// The `len` bytes of the volume from byte `at` on, and perhaps some more behind them.
    async fn read_bytes(&self, at: u64, len: u32) -> Result<Bytes>;
}

/// Content of the device that is in memory.
pub(crate) struct Content<'a> {
    /// The first byte on the device.
    pub(crate) start: u64,
    /// As far as the end of the segment.
    pub(crate) blocks: &'a [Block],
}

impl Content<'_> {
    /// A block of it, by its place on the device.
    pub(crate) fn block(&self, at: u64, len: u32) -> Block {
        gather(self.blocks, (at - self.start) as usize, len as usize)
    }
}

impl ReadBytes for Content<'_> {
    const FIRST_BYTES: u32 = 512;

    async fn read_bytes(&self, at: u64, len: u32) -> Result<Bytes> {
        Ok(self.block(at, len).to_bytes())
    }
}

/// A device that is asked for each summary.
pub(crate) struct FromDevice<'a>(pub(crate) &'a dyn BlockDevice);

impl ReadBytes for FromDevice<'_> {
    const FIRST_BYTES: u32 = 4096;

    async fn read_bytes(&self, at: u64, len: u32) -> Result<Bytes> {
        let len = u64::from(len.next_multiple_of(self.0.info().sector));
        let io = Io::read(at, len, Class::Meta, Origin::Recovery);
        let blocks = self.0.submit(io).await?;
        Ok(gather(&blocks, 0, len as usize).to_bytes())
    }
}

/// A partial segment that was found.
pub(crate) struct PartialSegment {
    /// Bytes of the segment before it.
    pub(crate) offset: u32,
    pub(crate) summary: Summary,
}

/// Goes through a segment. See the module.
pub(crate) struct PartialSegments {
    /// First byte of the segment.
    start: u64,
    offset: u32,
    /// The next one has a serial number not below this.
    least_serial: u64,
}

impl PartialSegments {
    /// From the start of a segment.
    pub(crate) fn of(sb: &Superblock, segment: u32) -> PartialSegments {
        PartialSegments::from(sb, segment, 0, 0)
    }

    /// From an offset of a segment, with serial numbers not below `least_serial`.
    pub(crate) fn from(
        sb: &Superblock,
        segment: u32,
        offset: u32,
        least_serial: u64,
    ) -> PartialSegments {
        PartialSegments { start: sb.segment_start(segment), offset, least_serial }
    }

    /// Where the next partial segment begins, if there is one.
    pub(crate) fn offset(&self) -> u32 {
        self.offset
    }

    /// The next partial segment.
    pub(crate) async fn next<R: ReadBytes>(
        &mut self,
        sb: &Superblock,
        source: &R,
    ) -> Result<Option<PartialSegment>> {
        let Some(summary) = self.summary(sb, source).await? else { return Ok(None) };
        if summary.header.serial < self.least_serial {
            return Ok(None);
        }
        self.least_serial = summary.header.serial.saturating_add(1);
        let offset = self.offset;
        self.offset += summary.header.total_bytes;
        Ok(Some(PartialSegment { offset, summary }))
    }

    async fn summary<R: ReadBytes>(&self, sb: &Superblock, source: &R) -> Result<Option<Summary>> {
        let left = sb.segment_size.saturating_sub(self.offset);
        if left == 0 {
            return Ok(None);
        }
        let at = self.start + u64::from(self.offset);
        // The header says how long the summary is; everything else is not looked at before the
        // checksum of the whole summary was.
        let first = source.read_bytes(at, R::FIRST_BYTES.min(left)).await?;
        let Some(len) = Summary::len_of(&first) else { return Ok(None) };
        let raw = match len.min(left as usize) {
            len if len <= first.len() => first,
            len => source.read_bytes(at, len as u32).await?,
        };
        Ok(Summary::decode(sb, &raw, left))
    }
}
