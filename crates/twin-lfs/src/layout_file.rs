//! A file of the layout itself, whose inode is in the checkpoint: the [ifile](crate::ifile), and the file with
//! the [snapshots](crate::snapshots).
//!
//! Contract: its blocks go through the cache. Its indirect blocks, and what it pins, are always in memory, so that
//! marking a block dirty never waits. Its inode is written with every checkpoint, and only then. The caller has
//! reserved the space for what is appended.

use std::cell::RefCell;
use std::ops::Range;
use std::rc::Rc;

use twin_cache::{Frame, Lbn};
use twin_disk::{Block, Buf};
use twin_fs::geometry::{Geometry, Parent, Ptr, UNWRITTEN};
use twin_fs::{Core, Inode, Result, dirty_parents};

use crate::format::Superblock;

/// A file of the layout.
pub(crate) struct LayoutFile {
    pub(crate) inode: Rc<Inode>,
    geometry: Geometry,
    /// The blocks that are always in memory.
    pinned: RefCell<Vec<Rc<Frame>>>,
}

impl LayoutFile {
    pub(crate) fn new(sb: &Superblock, inode: Rc<Inode>) -> LayoutFile {
        inode.frames.set_of_layout();
        LayoutFile { inode, geometry: sb.geometry.clone(), pinned: RefCell::default() }
    }

    pub(crate) fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    /// Its blocks, as far as its length goes.
    pub(crate) fn blocks(&self) -> Range<u64> {
        0..self.geometry.blocks_for(self.inode.d.borrow().size)
    }

    /// Holds blocks in memory for as long as the volume is open.
    pub(crate) fn pin(&self, frames: impl IntoIterator<Item = Rc<Frame>>) {
        self.pinned.borrow_mut().extend(frames);
    }

    /// Holds the indirect blocks above these blocks for as long as the volume is open.
    pub(crate) async fn pin_indirect(&self, core: &Core, blocks: Range<u64>) -> Result<()> {
        let mut pinned = Vec::new();
        let mut lbn = blocks.start;
        while lbn < blocks.end {
            core.pin_parents(&self.inode, lbn as Lbn, &mut pinned).await?;
            lbn += if lbn < self.geometry.direct as u64 { 1 } else { self.geometry.per_block() };
        }
        if !blocks.is_empty() {
            core.pin_parents(&self.inode, blocks.end as Lbn - 1, &mut pinned).await?;
        }
        self.pin(pinned);
        Ok(())
    }

    /// Marks a block of the file dirty, and its indirect blocks, which are always in memory.
    pub(crate) fn mark_dirty(&self, core: &Core, frame: &Rc<Frame>) {
        if core.cache.mark_dirty(&self.inode.frames, frame) {
            dirty_parents(core, &self.inode, frame.lbn());
            // The inode is written with every checkpoint, and only then.
            core.mark_inode_clean(&self.inode);
        }
    }

    /// Appends a block to the file. The space is reserved.
    pub(crate) fn append(&self, core: &Core, lbn: u64, content: Block) -> Rc<Frame> {
        let frame = self.add(core, lbn, content);
        self.inode.d.borrow_mut().size = (lbn + 1) * u64::from(self.geometry.block_size);
        frame
    }

    /// Adds a block that the length of the file does not include. The space is reserved.
    pub(crate) fn add(&self, core: &Core, lbn: u64, content: Block) -> Rc<Frame> {
        let geometry = &self.geometry;
        self.make_parents(core, lbn as Lbn);
        let frame = core.cache.insert(&self.inode.frames, lbn as Lbn, Some(content));
        let unwritten = Ptr { addr: UNWRITTEN, len: geometry.block_size, crc: 0 };
        core.set_ptr(&self.inode, lbn as Lbn, unwritten);
        self.inode.d.borrow_mut().allocated += u64::from(geometry.block_size);
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

    /// Cuts the file to this many blocks, all of which are in memory. `gone` is told of each pointer that it loses.
    pub(crate) fn truncate(&self, core: &Core, blocks: u64, mut gone: impl FnMut(Ptr)) {
        let geometry = &self.geometry;
        let before = geometry.blocks_for(self.inode.d.borrow().size);
        for lbn in (blocks..before).rev() {
            // Whoever begins with this block ends with it.
            let mut ends = vec![lbn as Lbn];
            let mut at = lbn as Lbn;
            while let Parent::Indirect(up, _) = geometry.parent(at) {
                if geometry.first_data(up) == lbn {
                    ends.push(up);
                } else if let Some(frame) = core.cache.peek(&self.inode.frames, up) {
                    self.mark_dirty(core, &frame);
                }
                at = up;
            }
            for lbn in ends {
                let Some(ptr) = core.resident_ptr(&self.inode, lbn).filter(|ptr| !ptr.is_hole())
                else {
                    continue;
                };
                gone(ptr);
                core.set_ptr(&self.inode, lbn, Ptr::HOLE);
                core.cache.remove(&self.inode.frames, lbn);
                self.inode.d.borrow_mut().allocated -= u64::from(ptr.len);
            }
        }
        self.pinned.borrow_mut().retain(|frame| frame.is_attached());
        self.inode.d.borrow_mut().size = blocks * u64::from(geometry.block_size);
        core.mark_inode_clean(&self.inode);
    }

    /// The pointers to all its blocks, which are in memory, indirect blocks included.
    pub(crate) fn ptrs(&self, core: &Core) -> Vec<(Lbn, Ptr)> {
        let geometry = &self.geometry;
        let blocks = geometry.blocks_for(self.inode.d.borrow().size);
        let mut all = Vec::new();
        for lbn in 0..blocks {
            let mut at = lbn as Lbn;
            loop {
                if let Some(ptr) = core.resident_ptr(&self.inode, at).filter(|ptr| !ptr.is_hole()) {
                    all.push((at, ptr));
                }
                match geometry.parent(at) {
                    Parent::Indirect(up, _) if geometry.first_data(up) == lbn => at = up,
                    _ => break,
                }
            }
        }
        all
    }
}
