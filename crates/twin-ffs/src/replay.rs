//! Replay: what the journal's records say after a crash.
//!
//! Contract: [`read_journal`] only reads; [`Replay::write`] puts the result into place, which may
//! be done any number of times. Records count from the header's first one on, in order, up to the
//! first that is not whole.

use std::collections::BTreeMap;

use twin_disk::{Block, BlockDevice, Class, Io, Origin, gather};
use twin_fs::{FsError, Ino, Result};
use twin_rt::join_all;

use crate::format::{EntryKind, JOURNAL_HEADERS, JournalHeader, Record, Superblock};
use crate::journal::Live;
use crate::settings::Sabotage;
use crate::writes::{Run, join_runs};

/// What a journal says.
pub(crate) struct Replay {
    /// Blocks, by address in fragments.
    pub(crate) blocks: BTreeMap<u64, Block>,
    /// Inodes in need of work.
    pub(crate) orphans: Vec<Ino>,
    /// The last record; of length 0 if there is none.
    pub(crate) last: Live,
    /// Places that the last record has blocks for.
    pub(crate) mentioned: Vec<u64>,
    /// The number of the header found.
    pub(crate) header: u64,
    /// Records, and their bytes.
    pub(crate) records: u64,
    /// See `records`.
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
        let size = u64::from(self.sb.shape.block_size);
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
    let size = u64::from(sb.shape.block_size);
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
    sabotage: Sabotage,
) -> Result<Replay> {
    let header = read_header(device, sb).await?;
    let mut replay = Replay {
        blocks: BTreeMap::new(),
        orphans: Vec::new(),
        last: Live {
            number: header.first_record.wrapping_sub(1),
            at: header.tail % ring_blocks(sb),
            len: 0,
        },
        mentioned: Vec::new(),
        header: header.number,
        records: 0,
        bytes: 0,
    };
    read_records(device, sb, &header, sabotage, &mut |live, record, found| {
        replay.apply(record, found, sabotage);
        replay.last = live;
        replay.records += 1;
        replay.bytes += live.len * u64::from(sb.shape.block_size);
    })
    .await?;
    Ok(replay)
}

/// Blocks of the ring that records are in.
fn ring_blocks(sb: &Superblock) -> u64 {
    sb.journal_bytes / u64::from(sb.shape.block_size) - JOURNAL_HEADERS
}

/// Tells `visit` of each record that counts, in order, with its place and its blocks.
///
/// # Errors
/// If the device fails.
pub(crate) async fn read_records(
    device: &dyn BlockDevice,
    sb: &Superblock,
    header: &JournalHeader,
    sabotage: Sabotage,
    visit: &mut dyn FnMut(Live, &Record, Vec<Block>),
) -> Result<()> {
    let blocks = ring_blocks(sb);
    let ring = Ring { device, sb, blocks };
    let (mut at, mut number, mut seen) = (header.tail % blocks, header.first_record, 0);
    while let Some((record, found)) =
        read_record(&ring, at, number, blocks - seen, sabotage).await?
    {
        let len = record.list_blocks(sb) + record.block_count() as u64;
        visit(Live { number, at, len }, &record, found);
        at = (at + len) % blocks;
        seen += len;
        number += 1;
    }
    Ok(())
}

/// Reads the record `number`, expected at `at`, with its blocks. `None` if it is not there whole.
async fn read_record(
    ring: &Ring<'_>,
    at: u64,
    number: u64,
    most: u64,
    sabotage: Sabotage,
) -> Result<Option<(Record, Vec<Block>)>> {
    let size = ring.sb.shape.block_size as usize;
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
        if let EntryKind::Block { len, crc } = entry.kind {
            let block = gather(&found, blocks.len() * size, len as usize);
            if block.crc32c() != crc && sabotage != Sabotage::SkipChecksum {
                return Ok(None);
            }
            blocks.push(block);
        }
    }
    Ok(Some((record, blocks)))
}

impl Replay {
    fn apply(&mut self, record: &Record, blocks: Vec<Block>, sabotage: Sabotage) {
        for entry in &record.entries {
            if entry.kind == EntryKind::Revoked && sabotage != Sabotage::SkipRevoked {
                self.blocks.remove(&entry.addr);
            }
        }
        let places = record.entries.iter().filter(|e| matches!(e.kind, EntryKind::Block { .. }));
        self.mentioned = places.map(|e| e.addr).collect();
        self.blocks.extend(self.mentioned.iter().copied().zip(blocks));
        self.orphans = record.orphans().collect();
    }

    /// Puts the blocks into their places, durably.
    pub(crate) async fn write(&self, device: &dyn BlockDevice, sb: &Superblock) -> Result<()> {
        let pieces = self.blocks.iter().map(|(addr, block)| Run {
            at: sb.shape.byte_of(*addr),
            blocks: vec![block.clone()],
            held: Vec::new(),
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
