//! The ifile's two tables: the segment usage table, then the inode map.
//!
//! The ifile is inode 1. Its first blocks hold an entry for each segment, the rest an entry for
//! each inode number from 0 up (4.4BSD keeps both there too: Seltzer, Bostic, McKusick and
//! Staelin, "An Implementation of a Log-Structured File System for UNIX", 1993, section 4.2).

use twin_fs::Ino;
use twin_rt::Time;

/// The ifile's inode number.
pub const IFILE_INO: Ino = 1;
/// The number of the [snapshots' file](super::SnapshotsFile), which no name and no map entry can lead to.
pub const SNAPSHOTS_INO: Ino = 0;
/// Bytes of an entry of the inode map.
pub const IMAP_ENTRY_BYTES: usize = 16;
/// Bytes of an entry of the segment usage table.
pub const SEG_ENTRY_BYTES: usize = 16;

const FREE: u64 = 1 << 63;
const ORPHAN: u64 = 1 << 62;

/// Where an inode is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ImapEntry {
    /// The number is free. The next free number follows; 0 for none.
    Free {
        /// The next free number; 0 for none.
        next: Ino,
        /// The life that the number's next user will be.
        generation: u32,
    },
    /// The number is in use.
    Used {
        /// Place of the inode, in units of its size from the start of the device; 0 if it has
        /// not been written yet.
        at: u64,
        /// CRC-32C of the inode.
        crc: u32,
        /// The generation: how often the number was used before.
        generation: u32,
        /// The inode needs work after a crash: it has no names, or is being cut.
        orphan: bool,
    },
}

impl ImapEntry {
    /// Writes the entry into its 16 bytes.
    pub fn encode(&self, raw: &mut [u8]) {
        let (word, crc, generation) = match *self {
            ImapEntry::Free { next, generation } => (FREE | next, 0, generation),
            ImapEntry::Used { at, crc, generation, orphan } => {
                (at | if orphan { ORPHAN } else { 0 }, crc, generation)
            }
        };
        raw[..8].copy_from_slice(&word.to_le_bytes());
        raw[8..12].copy_from_slice(&crc.to_le_bytes());
        raw[12..16].copy_from_slice(&generation.to_le_bytes());
    }

    /// Reads an entry from its 16 bytes.
    pub fn decode(raw: &[u8]) -> ImapEntry {
        let word = u64::from_le_bytes(std::array::from_fn(|i| raw[i]));
        let crc = u32::from_le_bytes(std::array::from_fn(|i| raw[8 + i]));
        let generation = u32::from_le_bytes(std::array::from_fn(|i| raw[12 + i]));
        if word & FREE != 0 {
            return ImapEntry::Free { next: word & !(FREE | ORPHAN), generation };
        }
        let orphan = word & ORPHAN != 0;
        ImapEntry::Used { at: word & !ORPHAN, crc, generation, orphan }
    }
}

/// How a segment is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct SegEntry {
    /// Bytes of blocks and inodes in it that belong to files now.
    pub live_bytes: u32,
    /// Its summaries may say of blocks that they are forwarded.
    pub forwards: bool,
    /// How many snapshots and branches need something in it.
    pub pins: u16,
    /// When its youngest block was written.
    pub written: Time,
}

/// Flag of a segment: [`SegEntry::forwards`].
const FORWARDS: u32 = 1;
/// Where the number of pins begins among the flags.
const PINS_SHIFT: u32 = 16;

impl SegEntry {
    /// Writes the entry into its 16 bytes.
    pub fn encode(&self, raw: &mut [u8]) {
        raw[..4].copy_from_slice(&self.live_bytes.to_le_bytes());
        let flags = if self.forwards { FORWARDS } else { 0 } | u32::from(self.pins) << PINS_SHIFT;
        raw[4..8].copy_from_slice(&flags.to_le_bytes());
        raw[8..16].copy_from_slice(&self.written.0.to_le_bytes());
    }

    /// Reads an entry from its 16 bytes.
    pub fn decode(raw: &[u8]) -> SegEntry {
        let live_bytes = u32::from_le_bytes(std::array::from_fn(|i| raw[i]));
        let flags = u32::from_le_bytes(std::array::from_fn(|i| raw[4 + i]));
        let written = Time(u64::from_le_bytes(std::array::from_fn(|i| raw[8 + i])));
        let pins = (flags >> PINS_SHIFT) as u16;
        SegEntry { live_bytes, forwards: flags & FORWARDS != 0, pins, written }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn map_entries_survive_the_disk() {
        let entries = [
            ImapEntry::Free { next: 0, generation: 3 },
            ImapEntry::Free { next: 99, generation: 0 },
            ImapEntry::Used { at: 12345, crc: 7, generation: 1, orphan: false },
            ImapEntry::Used { at: 0, crc: 0, generation: 1, orphan: true },
        ];
        for entry in entries {
            let mut raw = [0; IMAP_ENTRY_BYTES];
            entry.encode(&mut raw);
            assert_eq!(ImapEntry::decode(&raw), entry);
        }
    }

    #[test]
    fn segment_entries_survive_the_disk() {
        let entry = SegEntry { live_bytes: 77, forwards: true, pins: 1100, written: Time(1 << 60) };
        let mut raw = [0; SEG_ENTRY_BYTES];
        entry.encode(&mut raw);
        assert_eq!(SegEntry::decode(&raw), entry);
    }
}
