//! Replay: reads the records of the journal after a crash, and applies them.
//!
//! Contract: [`read_journal`] only reads; [`Replay::write`] writes the result to its places, which
//! may be repeated any number of times. Records are valid from the header's first one on, in order,
//! up to the first incomplete one.

use std::collections::BTreeMap;

use twin_disk::{Block, BlockDevice, Class, Io, Origin, gather};
use twin_fs::{FsError, Ino, Result};
use twin_rt::join_all;

use crate::format::{JOURNAL_HEADERS, JournalHeader, Record, RecordEntryKind, Superblock};
use crate::journal::LiveRecord;
use crate::settings::PlantedFault;
use crate::writes::{Piece, join_runs};

/// The contents of a journal.
pub(crate) struct Replay {
    /// Blocks, by address in fragments.
    pub(crate) blocks: BTreeMap<u64, Block>,
    /// The inodes that need work.
    pub(crate) orphans: Vec<Ino>,
    /// The last record; of length 0 if there is none.
    pub(crate) last: LiveRecord,
    /// The places for which the last record has blocks.
    pub(crate) mentioned: Vec<u64>,
    /// The number of the header found.
    pub(crate) header: u64,
    /// Records, and their bytes.
    pub(crate) records: u64,
    pub(crate) bytes: u64,
}

struct Ring<'a> {
    device: &'a dyn BlockDevice,
    sb: &'a Superblock,
    blocks: u64,
}

impl Ring<'_> {
    /// Reads `count` blocks from `at` on, around the end.
    async fn read(&self, at: u64, count: u64) -> Result<Vec<Block>> {
        let size = u64::from(self.sb.geometry.block_size);
        let most = (u64::from(self.device.info().max_io) / size).max(1);
        let (mut at, mut left) = (at % self.blocks, count);
        let mut out = Vec::new();
        while left > 0 {
            let some = left.min(self.blocks - at).min(most);
            let byte = self.sb.journal_start + (JOURNAL_HEADERS + at) * size;
            let io = Io::read(byte, some * size, Class::Meta, Origin::Recovery);
            out.extend(self.device.submit(io).await?);
            at = (at + some) % self.blocks;
            left -= some;
        }
        Ok(out)
    }
}

/// Reads the newest header of the journal.
pub(crate) async fn read_header(
    device: &dyn BlockDevice,
    sb: &Superblock,
) -> Result<JournalHeader> {
    let size = u64::from(sb.geometry.block_size);
    let mut best: Option<JournalHeader> = None;
    let mut first_error = None;
    for slot in 0..JOURNAL_HEADERS {
        let at = sb.journal_start + slot * size;
        let tried = match device.submit(Io::read(at, size, Class::Meta, Origin::Recovery)).await {
            Ok(blocks) => JournalHeader::decode(sb, &gather(&blocks, 0, 512).to_bytes(), at),
            Err(error) => Err(error.into()),
        };
        match tried {
            Ok(header) if best.is_none_or(|b| header.number > b.number) => best = Some(header),
            Ok(_) => {}
            Err(error) => {
                first_error.get_or_insert(error);
            }
        }
    }
    match (best, first_error) {
        (Some(header), _) => Ok(header),
        (None, error) => Err(error.unwrap_or(FsError::inconsistent("the journal has no header"))),
    }
}

/// Reads what the journal says.
///
/// # Errors
/// If it has no readable header, or the device fails.
pub(crate) async fn read_journal(
    device: &dyn BlockDevice,
    sb: &Superblock,
    planted: PlantedFault,
) -> Result<Replay> {
    let header = read_header(device, sb).await?;
    let mut replay = Replay {
        blocks: BTreeMap::new(),
        orphans: Vec::new(),
        last: LiveRecord {
            number: header.first_record.wrapping_sub(1),
            at: header.tail % ring_blocks(sb),
            len: 0,
        },
        mentioned: Vec::new(),
        header: header.number,
        records: 0,
        bytes: 0,
    };
    read_records(device, sb, &header, planted, &mut |live, record, found| {
        replay.apply(record, found, planted);
        replay.last = live;
        replay.records += 1;
        replay.bytes += live.len * u64::from(sb.geometry.block_size);
    })
    .await?;
    Ok(replay)
}

/// Blocks of the ring that records are in.
fn ring_blocks(sb: &Superblock) -> u64 {
    sb.journal_bytes / u64::from(sb.geometry.block_size) - JOURNAL_HEADERS
}

/// Calls `visit` with each valid record, in order, with its place and its blocks.
pub(crate) async fn read_records(
    device: &dyn BlockDevice,
    sb: &Superblock,
    header: &JournalHeader,
    planted: PlantedFault,
    visit: &mut dyn FnMut(LiveRecord, &Record, Vec<Block>),
) -> Result<()> {
    let blocks = ring_blocks(sb);
    let ring = Ring { device, sb, blocks };
    let (mut at, mut number, mut seen) = (header.tail % blocks, header.first_record, 0);
    while let Some((record, found)) = read_record(&ring, at, number, blocks - seen, planted).await?
    {
        let len = record.list_blocks(sb) + record.block_count() as u64;
        visit(LiveRecord { number, at, len }, &record, found);
        at = (at + len) % blocks;
        seen += len;
        number += 1;
    }
    Ok(())
}

/// True if a record lies on the device as it was written.
pub(crate) async fn is_record(
    device: &dyn BlockDevice,
    sb: &Superblock,
    live: &LiveRecord,
) -> Result<bool> {
    let blocks = ring_blocks(sb);
    let ring = Ring { device, sb, blocks };
    let found = read_record(&ring, live.at, live.number, live.len, PlantedFault::None).await?;
    let len = |record: &Record| record.list_blocks(sb) + record.block_count() as u64;
    Ok(found.is_some_and(|(record, _)| len(&record) == live.len))
}

/// Reads the record `number`, expected at `at`, with its blocks. `None` if it is missing or
/// incomplete.
async fn read_record(
    ring: &Ring<'_>,
    at: u64,
    number: u64,
    most: u64,
    planted: PlantedFault,
) -> Result<Option<(Record, Vec<Block>)>> {
    let size = ring.sb.geometry.block_size as usize;
    if most == 0 {
        return Ok(None);
    }
    let first = ring.read(at, 1).await?;
    let Some(list) = Record::peek(ring.sb, &gather(&first, 0, size).to_bytes(), number) else {
        return Ok(None);
    };
    if list > most {
        return Ok(None);
    }
    let raw = ring.read(at, list).await?;
    let raw = gather(&raw, 0, list as usize * size).to_bytes();
    let Some(record) = Record::decode(ring.sb, &raw) else { return Ok(None) };
    let count = record.block_count() as u64;
    if record.number != number || list + count > most {
        return Ok(None);
    }
    let found = ring.read(at + list, count).await?;
    let mut blocks = Vec::with_capacity(count as usize);
    for entry in &record.entries {
        if let RecordEntryKind::Block { len, crc } = entry.kind {
            let block = gather(&found, blocks.len() * size, len as usize);
            if block.crc32c() != crc && !planted.is(PlantedFault::SkipChecksum) {
                return Ok(None);
            }
            blocks.push(block);
        }
    }
    Ok(Some((record, blocks)))
}

impl Replay {
    fn apply(&mut self, record: &Record, blocks: Vec<Block>, planted: PlantedFault) {
        for entry in &record.entries {
            if entry.kind == RecordEntryKind::Revoked && !planted.is(PlantedFault::SkipRevoked) {
                self.blocks.remove(&entry.addr);
            }
        }
        let places =
            record.entries.iter().filter(|e| matches!(e.kind, RecordEntryKind::Block { .. }));
        self.mentioned = places.map(|e| e.addr).collect();
        self.blocks.extend(self.mentioned.iter().copied().zip(blocks));
        self.orphans = record.orphans().collect();
    }

    /// Writes the blocks to their places, and flushes.
    pub(crate) async fn write(&self, device: &dyn BlockDevice, sb: &Superblock) -> Result<()> {
        let pieces = self.blocks.iter().map(|(addr, block)| Piece {
            at: sb.geometry.byte_of(*addr),
            block: block.clone(),
            frames: None,
            class: Class::Meta,
            ino: 0,
        });
        let runs = join_runs(pieces.collect(), device.info().max_io.into());
        let writes = runs
            .into_iter()
            .map(|run| device.submit(Io::write(run.at, run.blocks, run.class, Origin::Recovery)));
        for result in join_all(writes.collect::<Vec<_>>()).await {
            result?;
        }
        device.submit(Io::flush(Origin::Recovery)).await?;
        Ok(())
    }
}
