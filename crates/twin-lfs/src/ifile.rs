//! The ifile: the file with the segment usage table and the inode map, which is written with the log.
//!
//! Contract: its blocks go through the cache. The usage table and the indirect blocks are always in
//! memory ([`Ifile::pin`]), so marking a block dirty never waits; a map block is read when an inode of
//! it is needed. An inode in memory holds its map block (its anchor), so that its entry can be changed
//! without waiting. The ifile's own inode is written with every checkpoint, and only then.

use std::cell::RefCell;
use std::rc::Rc;

use twin_cache::{Frame, Lbn};
use twin_disk::{Block, Buf, Origin};
use twin_fs::geometry::{Geometry, Parent, Ptr, UNWRITTEN};
use twin_fs::{Core, FsError, Ino, Inode, Result, dirty_parents};

use crate::format::{IMAP_ENTRY_BYTES, ImapEntry, Superblock};

/// The ifile of an open log.
pub(crate) struct Ifile {
    pub(crate) inode: Rc<Inode>,
    geometry: Geometry,
    /// The number of its first blocks, which are the usage table.
    usage_blocks: u64,
    /// The blocks that are always in memory.
    pinned: RefCell<Vec<Rc<Frame>>>,
}

impl Ifile {
    pub(crate) fn new(sb: &Superblock, inode: Rc<Inode>) -> Ifile {
        inode.frames.set_of_layout();
        let (geometry, usage_blocks) = (sb.geometry.clone(), sb.usage_blocks());
        Ifile { inode, geometry, usage_blocks, pinned: RefCell::default() }
    }

    /// Holds blocks in memory for as long as the volume is open.
    pub(crate) fn pin(&self, frames: impl IntoIterator<Item = Rc<Frame>>) {
        self.pinned.borrow_mut().extend(frames);
    }

    pub(crate) fn numbers_per_block(&self) -> u64 {
        u64::from(self.geometry.block_size) / IMAP_ENTRY_BYTES as u64
    }

    /// The ifile's block with the entry of an inode number.
    pub(crate) fn map_lbn(&self, ino: Ino) -> u64 {
        self.usage_blocks + ino / self.numbers_per_block()
    }

    /// Inode numbers that the map has entries for.
    pub(crate) fn map_len(&self) -> u64 {
        let blocks = self.geometry.blocks_for(self.inode.d.borrow().size);
        blocks.saturating_sub(self.usage_blocks) * self.numbers_per_block()
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

    /// Marks a block of the ifile dirty, and its indirect blocks, which are always in memory.
    pub(crate) fn mark_dirty(&self, core: &Core, frame: &Rc<Frame>) {
        if core.cache.mark_dirty(&self.inode.frames, frame) {
            dirty_parents(core, &self.inode, frame.lbn());
            // The ifile's inode is written with every checkpoint, and only then.
            core.mark_inode_clean(&self.inode);
        }
    }

    /// Appends a block to the ifile. The space is reserved.
    pub(crate) fn append(&self, core: &Core, lbn: u64, content: Block) -> Rc<Frame> {
        let geometry = &self.geometry;
        self.make_parents(core, lbn as Lbn);
        let frame = core.cache.insert(&self.inode.frames, lbn as Lbn, Some(content));
        let unwritten = Ptr { addr: UNWRITTEN, len: geometry.block_size, crc: 0 };
        core.set_ptr(&self.inode, lbn as Lbn, unwritten);
        {
            let mut d = self.inode.d.borrow_mut();
            d.allocated += u64::from(geometry.block_size);
            d.size = (lbn + 1) * u64::from(geometry.block_size);
        }
        self.mark_dirty(core, &frame);
        frame
    }

    fn make_parents(&self, core: &Core, lbn: Lbn) {
        let geometry = &self.geometry;
        let Parent::Indirect(up, _) = geometry.parent(lbn) else { return };
        if core.resident_ptr(&self.inode, up).is_some_and(|p| !p.is_hole()) {
            return;
        }
        self.make_parents(core, up);
        let zeros = Block::Bytes(Buf::zeroed(geometry.block_size as usize).freeze());
        let frame = core.cache.insert(&self.inode.frames, up, Some(zeros));
        let (addr, len) = (UNWRITTEN, geometry.block_size);
        core.set_ptr(&self.inode, up, Ptr { addr, len, crc: 0 });
        self.inode.d.borrow_mut().allocated += u64::from(len);
        self.mark_dirty(core, &frame);
        self.pin([frame]);
    }
}
