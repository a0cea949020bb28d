//! Journal records: the blocks of a transaction, in one piece.
//!
//! Contract: the journal is a ring of blocks behind two headers. A record is a list of entries,
//! followed by the blocks that the entries announce. It is valid if the checksums of the list and
//! of every block match and its number is the one that must follow. Therefore one write and one
//! flush commit it, and a torn record is not valid.

use twin_disk::{Block, Buf, Class, Io, Origin};
use twin_fs::dinode::{FieldReader, FieldWriter};
use twin_fs::{FsError, Ino, Result};

use super::Superblock;

const HEADER_MAGIC: u64 = u64::from_le_bytes(*b"ffsjhead");
const RECORD_MAGIC: u64 = u64::from_le_bytes(*b"ffsjrec1");
/// Blocks at the start of the journal that hold its headers, written in turn.
pub const JOURNAL_HEADERS: u64 = 2;
/// Bytes of a record before its entries.
pub const RECORD_FIXED_BYTES: usize = 48;
const ENTRY_BYTES: usize = 16;
/// Above all numbers of headers or records that can ever be written.
const NUMBER_MAX: u64 = 1 << 62;

/// The place where replay starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JournalHeader {
    /// The number of the header. The header with the higher number is valid.
    pub number: u64,
    /// The number of the first record that may be needed.
    pub first_record: u64,
    /// The block of that record within the ring.
    pub tail: u64,
}

impl JournalHeader {
    /// Encodes the header into a sector.
    pub fn encode(&self, sb: &Superblock) -> Vec<u8> {
        let mut raw = vec![0; 512];
        let mut w = FieldWriter { raw: &mut raw, at: 0 };
        w.u64(HEADER_MAGIC);
        w.u32(0);
        w.u32(sb.tag());
        for n in [self.number, self.first_record, self.tail] {
            w.u64(n);
        }
        let crc = crc32c::crc32c(&raw[12..]);
        raw[8..12].copy_from_slice(&crc.to_le_bytes());
        raw
    }

    /// Reads a header found at byte `at`.
    pub fn decode(sb: &Superblock, raw: &[u8], at: u64) -> Result<JournalHeader> {
        let raw = raw.get(..512).ok_or(FsError::corrupt(at, "too short for a header"))?;
        let mut r = FieldReader { raw, at: 0 };
        if r.u64() != HEADER_MAGIC || r.u32() != crc32c::crc32c(&raw[12..]) || r.u32() != sb.tag() {
            return Err(FsError::corrupt(at, "the journal's header is not readable"));
        }
        let header = JournalHeader { number: r.u64(), first_record: r.u64(), tail: r.u64() };
        // Numbers start at one, so a number near the maximum was never written; it must not
        // overflow.
        if header.number > NUMBER_MAX || header.first_record > NUMBER_MAX {
            return Err(FsError::corrupt(at, "the journal's header counts more than there can be"));
        }
        Ok(header)
    }
}

/// The meaning of an entry of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecordEntryKind {
    /// A block follows: `len` bytes for the address, and their CRC-32C.
    Block {
        /// The number of bytes, whole fragments.
        len: u32,
        /// The checksum of these bytes.
        crc: u32,
    },
    /// The address was freed: its contents in earlier records are void.
    Revoked,
    /// The inode with this number, in place of an address, needs work after a crash.
    Orphan,
}

/// An entry of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordEntry {
    /// Address in fragments, or an inode number.
    pub addr: u64,
    /// The meaning of the entry.
    pub kind: RecordEntryKind,
}

/// A transaction without its blocks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// The number of the record: one more than that of the record before.
    pub number: u64,
    /// The entries, in the order of the blocks that follow.
    pub entries: Vec<RecordEntry>,
}

/// The blocks of `block_size` that a record with this many entries takes. `blocks` of the entries
/// announce a block each.
pub fn record_blocks(sb: &Superblock, entries: usize, blocks: usize) -> u64 {
    list_blocks(sb, entries) + blocks as u64
}

fn list_blocks(sb: &Superblock, entries: usize) -> u64 {
    let bytes = RECORD_FIXED_BYTES + entries * ENTRY_BYTES;
    bytes.div_ceil(sb.geometry.block_size as usize) as u64
}

impl Record {
    /// The number of blocks of the list at the start of the record.
    pub fn list_blocks(&self, sb: &Superblock) -> u64 {
        list_blocks(sb, self.entries.len())
    }

    /// The number of blocks that follow the list.
    pub fn block_count(&self) -> usize {
        self.entries.iter().filter(|e| matches!(e.kind, RecordEntryKind::Block { .. })).count()
    }

    /// The inodes that need work after a crash.
    pub fn orphans(&self) -> impl Iterator<Item = Ino> + '_ {
        self.entries.iter().filter(|e| e.kind == RecordEntryKind::Orphan).map(|e| e.addr)
    }

    /// Encodes the list into whole blocks.
    pub fn encode(&self, sb: &Superblock) -> Vec<u8> {
        let len = self.list_blocks(sb) as usize * sb.geometry.block_size as usize;
        let mut raw = vec![0; len];
        let mut w = FieldWriter { raw: &mut raw, at: 0 };
        w.u64(RECORD_MAGIC);
        w.u32(0);
        w.u32(sb.tag());
        w.u64(self.number);
        w.u32(self.entries.len() as u32);
        w.u32(0);
        w.u64(0);
        w.u64(0);
        for entry in &self.entries {
            // Lengths of blocks are multiples of 512, so small values can mark the two kinds
            // without a block.
            let (len, crc) = match entry.kind {
                RecordEntryKind::Block { len, crc } => (len, crc),
                RecordEntryKind::Revoked => (1, 0),
                RecordEntryKind::Orphan => (2, 0),
            };
            w.u64(entry.addr);
            w.u32(len);
            w.u32(crc);
        }
        let crc = crc32c::crc32c(&raw[12..]);
        raw[8..12].copy_from_slice(&crc.to_le_bytes());
        raw
    }

    /// The number of list blocks of the record whose first block is `raw`; `None` if it is not
    /// record `number` of this volume.
    pub fn peek(sb: &Superblock, raw: &[u8], number: u64) -> Option<u64> {
        let mut r = FieldReader { raw: raw.get(..RECORD_FIXED_BYTES)?, at: 0 };
        let magic = r.u64();
        let _crc = r.u32();
        let same = magic == RECORD_MAGIC && r.u32() == sb.tag() && r.u64() == number;
        let entries = r.u32() as usize;
        let most = sb.journal_bytes / ENTRY_BYTES as u64;
        (same && (entries as u64) < most).then(|| list_blocks(sb, entries))
    }

    /// Decodes a complete list that [`peek`](Self::peek) has found. `None` if it is torn.
    pub fn decode(sb: &Superblock, raw: &[u8]) -> Option<Record> {
        let mut r = FieldReader { raw, at: 8 };
        if r.u32() != crc32c::crc32c(&raw[12..]) {
            return None;
        }
        let _tag = r.u32();
        let number = r.u64();
        let count = r.u32() as usize;
        r.at = RECORD_FIXED_BYTES;
        let mut entries = Vec::with_capacity(count);
        for _ in 0..count {
            let addr = r.u64();
            let (len, crc) = (r.u32(), r.u32());
            let kind = match len {
                1 => RecordEntryKind::Revoked,
                2 => RecordEntryKind::Orphan,
                _ => {
                    let frags = u64::from(len / sb.geometry.frag_size);
                    let whole = len > 0 && len.is_multiple_of(sb.geometry.frag_size);
                    let end = addr.checked_add(frags)?;
                    // Computed in fragments: an address in bytes may exceed 64 bits.
                    let volume = sb.size / u64::from(sb.geometry.frag_size);
                    let inside = end <= volume && len <= sb.geometry.block_size;
                    if !whole || !inside {
                        return None;
                    }
                    RecordEntryKind::Block { len, crc }
                }
            };
            entries.push(RecordEntry { addr, kind });
        }
        Some(Record { number, entries })
    }
}

/// The request that writes a header.
pub(crate) fn header_io(sb: &Superblock, header: &JournalHeader, sector: u32) -> Io {
    let slot = header.number % JOURNAL_HEADERS;
    let at = sb.journal_start + slot * u64::from(sb.geometry.block_size);
    let raw = header.encode(sb);
    let padding = (sector as usize).saturating_sub(raw.len());
    let mut blocks = vec![Block::Bytes(Buf::copy_of(&raw).freeze())];
    if padding > 0 {
        blocks.push(Block::Zero(padding as u32));
    }
    Io::write(at, blocks, Class::Meta, Origin::Checkpoint)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_survive_the_disk_and_torn_ones_do_not_count() {
        let sb = crate::format::superblock::tests::sample(64 << 20);
        let block = |addr| RecordEntry { addr, kind: RecordEntryKind::Block { len: 4096, crc: 9 } };
        let mut entries: Vec<_> = (0..700).map(|i| block(1000 + i)).collect();
        entries.push(RecordEntry { addr: 77, kind: RecordEntryKind::Revoked });
        entries.push(RecordEntry { addr: 5, kind: RecordEntryKind::Orphan });
        let record = Record { number: 12, entries };
        let raw = record.encode(&sb);
        assert_eq!(Record::peek(&sb, &raw, 12), Some(record.list_blocks(&sb)));
        assert_eq!(Record::peek(&sb, &raw, 13), None);
        assert_eq!(Record::decode(&sb, &raw), Some(record));
        let mut torn = raw.clone();
        torn[raw.len() / 2..].fill(0);
        assert_eq!(Record::decode(&sb, &torn), None);
    }
    /// Found by the fuzzer (`ffs_journal`). Bits that flip by themselves do not pass the checksum, so no run with
    /// damaged images came here; the corpus of that target, whose checksums are right, does now.
    #[test]
    fn an_address_whose_bytes_wrap_around_is_outside_of_the_volume() {
        let sb = crate::format::superblock::tests::sample(64 << 20);
        let frag = u64::from(sb.geometry.frag_size);
        let wrapped = (u64::MAX / frag + 1) + 100;
        for addr in [wrapped, u64::MAX, sb.size / frag] {
            let kind = RecordEntryKind::Block { len: sb.geometry.frag_size, crc: 9 };
            let record = Record { number: 12, entries: vec![RecordEntry { addr, kind }] };
            assert_eq!(Record::decode(&sb, &record.encode(&sb)), None, "{addr}");
        }
    }

    #[test]
    fn a_header_with_numbers_that_would_overflow_is_refused() {
        let sb = crate::format::superblock::tests::sample(64 << 20);
        let header = JournalHeader { number: 1, first_record: 1, tail: 0 };
        for bad in [
            JournalHeader { number: u64::MAX, ..header },
            JournalHeader { first_record: u64::MAX, ..header },
        ] {
            assert!(JournalHeader::decode(&sb, &bad.encode(&sb), 0).is_err());
        }
        assert_eq!(JournalHeader::decode(&sb, &header.encode(&sb), 0), Ok(header));
    }
}
