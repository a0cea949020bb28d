//! An entry of the inode map as the checker has it in memory.

use std::collections::BTreeMap;

use twin_check::NumberState;
use twin_fs::Ino;

use crate::format::ImapEntry;

/// What the log says of numbers whose entry cannot be read. Numbers that it does not name are free.
pub(super) type LostInodes = BTreeMap<Ino, MapEntry>;

/// What the inode map says of a number.
#[derive(Clone, Copy, Debug)]
pub(super) struct MapEntry {
    /// Place of the inode, in units of its size; 0 if it was never written.
    pub(super) at: u64,
    /// For a free number, the next one on the list.
    pub(super) next: Ino,
    pub(super) crc: u32,
    pub(super) generation: u32,
    pub(super) state: NumberState,
    /// The type bits of the mode, shifted right by 12, of an inode that was read; 0 for a hidden
    /// file.
    pub(super) kind: u8,
    /// True if the map marks the inode as unfinished, so that the next mount works on it.
    pub(super) marked: bool,
    /// True if the number was met on the list of free numbers.
    pub(super) listed: bool,
}

impl Default for MapEntry {
    /// An entry whose block of the map cannot be read.
    fn default() -> MapEntry {
        MapEntry {
            at: 0,
            next: 0,
            crc: 0,
            generation: 0,
            state: NumberState::Unknown,
            kind: 0,
            marked: false,
            listed: false,
        }
    }
}

impl MapEntry {
    pub(super) fn new(entry: ImapEntry) -> MapEntry {
        match entry {
            ImapEntry::Free { next, generation } => {
                MapEntry { next, generation, state: NumberState::Free, ..MapEntry::default() }
            }
            ImapEntry::Used { at, crc, generation, orphan: marked } => MapEntry {
                at,
                crc,
                generation,
                marked,
                state: NumberState::Used,
                ..MapEntry::default()
            },
        }
    }
}
