//! The ifile: the file with the segment usage table and the inode map, which is written with the log.
//!
//! Contract: its blocks go through the cache. The usage table and the indirect blocks are always in
//! memory ([`LayoutFile::pin`]), so marking a block dirty never waits; a map block is read when an inode of
//! it is needed. An inode in memory holds its map block (its anchor), so that its entry can be changed
//! without waiting. The ifile's own inode is written with every checkpoint, and only then.

use std::ops::Deref;
use std::rc::Rc;

use twin_cache::{Frame, Lbn};
use twin_disk::{Block, Origin};
use twin_fs::{Core, FsError, Ino, Inode, Result};

use crate::format::{IMAP_ENTRY_BYTES, ImapEntry, Superblock};
use crate::layout_file::LayoutFile;

/// The ifile of an open log.
pub(crate) struct Ifile {
    file: LayoutFile,
    /// The number of its first blocks, which are the usage table, or its first part.
    first_table_blocks: u64,
    /// The block where the second part of the table begins, which the map cannot reach.
    map_end: u64,
}

impl Deref for Ifile {
    type Target = LayoutFile;

    fn deref(&self) -> &LayoutFile {
        &self.file
    }
}

impl Ifile {
    pub(crate) fn new(sb: &Superblock, inode: Rc<Inode>) -> Ifile {
        let (first_table_blocks, map_end) = (sb.first_table_blocks(), sb.second_table_part());
        Ifile { file: LayoutFile::new(sb, inode), first_table_blocks, map_end }
    }

    pub(crate) fn numbers_per_block(&self) -> u64 {
        u64::from(self.geometry().block_size) / IMAP_ENTRY_BYTES as u64
    }

    /// The ifile's block with the entry of an inode number.
    pub(crate) fn map_lbn(&self, ino: Ino) -> u64 {
        self.first_table_blocks + ino / self.numbers_per_block()
    }

    /// Inode numbers that the map has entries for.
    pub(crate) fn map_len(&self) -> u64 {
        let blocks = self.geometry().blocks_for(self.inode.d.borrow().size).min(self.map_end);
        blocks.saturating_sub(self.first_table_blocks) * self.numbers_per_block()
    }

    /// The block that the map grows by next; none if it cannot grow.
    pub(crate) fn next_map_block(&self) -> Option<u64> {
        let next = self.geometry().blocks_for(self.inode.d.borrow().size);
        (next < self.map_end).then_some(next)
    }

    /// Makes the usage table as long as the volume has segments, which it is not after the volume has grown, or in an
    /// older state of it. What is added says that segments are clean. Gives the bytes that the ifile has more.
    pub(crate) fn complete_table(&self, core: &Core, sb: &Superblock) -> u64 {
        let before = self.inode.d.borrow().allocated;
        for nth in self.first_table_blocks..sb.usage_blocks() {
            let lbn = sb.table_lbn(nth);
            if core.resident_ptr(&self.inode, lbn as Lbn).is_none_or(|ptr| ptr.is_hole()) {
                let frame = self.add(core, lbn, Block::Zero(sb.geometry.block_size));
                self.pin([frame]);
            }
        }
        self.inode.d.borrow().allocated - before
    }

    /// The map block of an inode number.
    pub(crate) async fn map_block(&self, core: &Core, ino: Ino) -> Result<Rc<Frame>> {
        let lbn = self.map_lbn(ino);
        if ino >= self.map_len() {
            return Err(FsError::NotFound);
        }
        let frame = core.block(&self.inode, lbn as Lbn, Origin::User).await?;
        frame.ok_or_else(|| {
            FsError::inconsistent(format!("the inode map has a hole at block {lbn}"))
        })
    }

    /// An entry, in its map block.
    pub(crate) fn entry(&self, frame: &Frame, ino: Ino) -> ImapEntry {
        let at = (ino % self.numbers_per_block()) as usize * IMAP_ENTRY_BYTES;
        frame.with(|block| match block {
            Block::Bytes(bytes) => ImapEntry::decode(&bytes[at..at + IMAP_ENTRY_BYTES]),
            _ => ImapEntry::Free { next: 0, generation: 0 },
        })
    }

    /// Changes an entry in its map block, which is in memory.
    pub(crate) fn set_entry(&self, core: &Core, frame: &Rc<Frame>, ino: Ino, entry: ImapEntry) {
        let at = (ino % self.numbers_per_block()) as usize * IMAP_ENTRY_BYTES;
        frame.change(|block| entry.encode(&mut block.bytes_mut()[at..at + IMAP_ENTRY_BYTES]));
        self.mark_dirty(core, frame);
    }
}
