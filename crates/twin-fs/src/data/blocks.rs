//! Making blocks dirty: the space, the pointer, and the dirty state of everything above a block.
//!
//! Contract: no function here waits. The caller holds the indirect blocks that lead to the block
//! ([`Core::pin_parents`]) and has reserved the space ([`Files::space_for`]).
//!
//! Invariant: the inode of a dirty block is dirty too, and so are the indirect blocks above it,
//! unless the layout writes in place ([`Features::in_place`](crate::Features)).

use std::collections::BTreeSet;
use std::ops::Range;
use std::rc::Rc;

use twin_cache::{Frame, Lbn};
use twin_disk::{Block, Buf, Stamp};

use super::Files;
use crate::core::Core;
use crate::dinode::INLINE;
use crate::geometry::{Parent, Ptr};
use crate::inodes::Inode;

impl Files {
    /// The bytes of new space for a change that makes the data blocks `range` dirty and the file
    /// `new_size` bytes long (not shorter than it is). The sum includes indirect blocks that do not
    /// exist yet, and the growth of the file's last block.
    pub(crate) fn space_for(&self, inode: &Inode, range: Range<u64>, new_size: u64) -> u64 {
        let geometry = &self.core.geometry;
        let (old_size, inline) = {
            let d = inode.d.borrow();
            (d.size, d.is_inline())
        };
        let mut bytes = self.space_for_blocks(inode, range.clone(), new_size, &mut BTreeSet::new());
        if let Some(tail) = self.growing_tail(inode, new_size)
            && !range.contains(&tail)
            && !inline
        {
            bytes +=
                u64::from(geometry.data_len(tail, new_size) - geometry.data_len(tail, old_size));
        }
        bytes
    }

    /// As [`space_for`](Self::space_for), for the blocks of the range alone. Indirect blocks that
    /// are in `counted` are not counted again; the others are added to it.
    pub(crate) fn space_for_blocks(
        &self,
        inode: &Inode,
        range: Range<u64>,
        new_size: u64,
        counted: &mut BTreeSet<Lbn>,
    ) -> u64 {
        let geometry = &self.core.geometry;
        let old_size = inode.d.borrow().size;
        let mut bytes = 0;
        for lbn in range {
            if !self.core.is_hole(inode, lbn as Lbn) {
                let old = geometry.data_len(lbn, old_size);
                bytes += u64::from(geometry.data_len(lbn, new_size).saturating_sub(old));
                continue;
            }
            bytes += u64::from(geometry.data_len(lbn, new_size));
            let mut at = lbn as Lbn;
            while let Parent::Indirect(up, _) = geometry.parent(at)
                && self.core.is_hole(inode, up)
                && counted.insert(up)
            {
                bytes += u64::from(geometry.block_size);
                at = up;
            }
        }
        bytes
    }

    /// The last block of the file, if it takes more space once the file has `new_size` bytes.
    pub(crate) fn growing_tail(&self, inode: &Inode, new_size: u64) -> Option<u64> {
        let geometry = &self.core.geometry;
        let size = inode.d.borrow().size;
        let tail = geometry.blocks_for(size).checked_sub(1)?;
        let grows = geometry.data_len(tail, new_size) > geometry.data_len(tail, size);
        (new_size > size && grows && !self.core.is_hole(inode, tail as Lbn)).then_some(tail)
    }

    /// The frame of data block `lbn`, to be changed. If the block is not in memory it gets a new
    /// frame of zeros, so it must be a hole or about to be overwritten completely.
    pub(crate) fn frame_for_change(&self, inode: &Inode, lbn: u64) -> Rc<Frame> {
        self.core.cache.get(&inode.frames, lbn as Lbn).unwrap_or_else(|| {
            let zero = Block::Zero(self.core.geometry.block_size);
            self.core.cache.insert(&inode.frames, lbn as Lbn, Some(zero))
        })
    }

    /// Makes a data block dirty, in a file that will have `new_size` bytes. The caller changes the
    /// size afterwards, because the old length of the block follows from the old size.
    pub(crate) fn dirty_data(&self, inode: &Rc<Inode>, frame: &Rc<Frame>, new_size: u64) {
        let (core, lbn) = (&self.core, frame.lbn());
        let new_len = core.geometry.data_len(lbn as u64, new_size);
        let old = core.resident_ptr(inode, lbn).unwrap_or(Ptr::HOLE);
        let old_len = match old.is_hole() {
            true => 0,
            false => core.geometry.data_len(lbn as u64, inode.d.borrow().size),
        };
        if old.is_hole() {
            self.make_parents(inode, lbn);
        }
        let mut moved = !self.core.features.in_place;
        if old.is_hole() || old_len != new_len {
            let ptr = self.layout.place(core, inode, lbn, old, new_len);
            core.set_ptr(inode, lbn, ptr);
            moved = true;
            core.count_space(inode, old_len.into(), new_len.into());
        }
        core.cache.mark_dirty(&inode.frames, frame);
        if moved {
            self.dirty_parents(inode, lbn);
        } else {
            core.mark_inode_dirty(inode);
        }
    }

    /// Makes the missing indirect blocks above a block.
    fn make_parents(&self, inode: &Rc<Inode>, lbn: Lbn) {
        let core = &self.core;
        let Parent::Indirect(up, _) = core.geometry.parent(lbn) else { return };
        if !self.core.is_hole(inode, up) {
            return;
        }
        self.make_parents(inode, up);
        let block = core.geometry.block_size;
        let zeros = Block::Bytes(Buf::zeroed(block as usize).freeze());
        let frame = core.cache.insert(&inode.frames, up, Some(zeros));
        let ptr = self.layout.place(core, inode, up, Ptr::HOLE, block);
        core.set_ptr(inode, up, ptr);
        core.cache.mark_dirty(&inode.frames, &frame);
        // The parent of the new block has changed too. It must be marked from here, because marking
        // from the data block stops at the first block that is already dirty, which is the new one.
        self.dirty_parents(inode, up);
        core.count_space(inode, 0, block.into());
    }

    /// Marks dirty what a changed pointer to a block makes dirty: all indirect blocks above it and
    /// the inode. In a layout that writes in place these are only the holder of the pointer and the
    /// inode.
    pub(crate) fn dirty_parents(&self, inode: &Rc<Inode>, lbn: Lbn) {
        let core = &self.core;
        if !self.core.features.in_place {
            return dirty_parents(core, inode, lbn);
        }
        if let Parent::Indirect(up, _) = core.geometry.parent(lbn)
            && let Some(frame) = core.cache.peek(&inode.frames, up)
        {
            core.cache.mark_dirty(&inode.frames, &frame);
        }
        core.mark_inode_dirty(inode);
    }

    /// Gives a file `size` bytes, not fewer than it has. It moves inline data to the first block,
    /// or rewrites the last block if it then takes more space. The caller holds these blocks and
    /// has reserved the space. Afterwards every block has the length that goes with the new size.
    pub(crate) fn lengthen(&self, inode: &Rc<Inode>, size: u64) {
        if inode.d.borrow().is_inline() {
            self.leave_inline(inode, size);
        } else if let Some(tail) = self.growing_tail(inode, size) {
            let frame = self.frame_for_change(inode, tail);
            self.dirty_data(inode, &frame, size);
        }
        inode.d.borrow_mut().size = size;
    }

    /// Moves the inline data of a file that will have `size` bytes to its first block.
    fn leave_inline(&self, inode: &Rc<Inode>, size: u64) {
        let inline = {
            let mut d = inode.d.borrow_mut();
            d.flags &= !INLINE;
            std::mem::take(&mut d.inline)
        };
        if inline.is_empty() {
            return;
        }
        let frame = self.frame_for_change(inode, 0);
        frame.change(|b| b.bytes_mut()[..inline.len()].copy_from_slice(&inline));
        self.dirty_data(inode, &frame, size);
    }

    /// Sets the bytes `range` of a block's content to zero; a stamped block gets a new stamp.
    pub(crate) fn zero_data(
        &self,
        inode: &Inode,
        content: &mut Block,
        lbn: u64,
        range: std::ops::Range<u64>,
        version: u64,
    ) {
        match content {
            Block::Zero(_) => {}
            Block::Stamp(_) => {
                let len = self.core.geometry.block_size;
                *content = Block::Stamp(Stamp { ino: inode.ino, lbn, version, off: 0, len });
            }
            Block::Bytes(_) => {
                content.bytes_mut()[range.start as usize..range.end as usize].fill(0);
            }
        }
    }

    /// Removes a block of `len` reserved bytes from a file: its frame, its pointer and its space.
    pub(crate) fn free_block(&self, inode: &Rc<Inode>, lbn: Lbn, len: u32) {
        let core = &self.core;
        let ptr = core.resident_ptr(inode, lbn).unwrap_or(Ptr::HOLE);
        core.cache.remove(&inode.frames, lbn);
        if ptr.is_hole() {
            return;
        }
        self.layout.free_block(core, inode, ptr, len);
        core.set_ptr(inode, lbn, Ptr::HOLE);
        core.count_space(inode, len.into(), 0);
        if let Some(hook) = core.block_map_hook() {
            hook.freed(core, inode, lbn);
        }
        self.dirty_parents(inode, lbn);
    }
}

/// Marks the indirect blocks above a block and the inode dirty. The caller holds these blocks.
pub fn dirty_parents(core: &Core, inode: &Rc<Inode>, lbn: Lbn) {
    let mut at = lbn;
    while let Parent::Indirect(up, _) = core.geometry.parent(at) {
        if let Some(frame) = core.cache.peek(&inode.frames, up)
            && !core.cache.mark_dirty(&inode.frames, &frame)
        {
            // By the invariant of this module everything above a dirty block is dirty already.
            break;
        }
        at = up;
    }
    core.mark_inode_dirty(inode);
}
