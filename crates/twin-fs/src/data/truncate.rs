//! Changing the length of a file.
//!
//! The part of such a change that clients see is one step: the size, the contents of the last block
//! and the times change together. Blocks beyond the new end are freed afterwards in several steps.
//! If a crash interrupts these, the flag [`TRUNCATING`] tells recovery to finish them.

use std::rc::Rc;

use twin_cache::{Frame, Lbn};
use twin_disk::Origin;

use super::{Effect, Files};
use crate::dinode::{DAMAGED, TRUNCATING};
use crate::inodes::Inode;
use crate::layout::{Change, InodeEvent, Need};
use crate::{FsError, Result};

impl Files {
    /// Sets the length. The caller holds the inode's lock exclusively.
    pub(crate) async fn set_size(
        &self,
        inode: &Rc<Inode>,
        size: u64,
        version: u64,
        effect: Effect<'_>,
    ) -> Result<()> {
        if size > self.core.features.file_bytes_max {
            return Err(FsError::FileTooBig);
        }
        let old = inode.d.borrow().size;
        match size.cmp(&old) {
            std::cmp::Ordering::Equal => {
                let _admission = self.admit_small(Need::Shrink).await?;
                effect()
            }
            std::cmp::Ordering::Greater => self.extend(inode, size, effect).await,
            std::cmp::Ordering::Less => self.shrink(inode, size, version, effect).await,
        }
    }

    async fn extend(&self, inode: &Rc<Inode>, size: u64, effect: Effect<'_>) -> Result<()> {
        let _admission = self.admit_small(Need::Grow).await?;
        let _held = self.pin_tail(inode, size).await?;
        self.extend_now(inode, size, effect)
    }

    /// Returns the last block of a file that will have `size` bytes, if that block must be
    /// rewritten. The caller holds it until the change.
    pub(super) async fn pin_tail(&self, inode: &Rc<Inode>, size: u64) -> Result<Option<Rc<Frame>>> {
        match self.growing_tail(inode, size) {
            Some(tail) => self.core.block(inode, tail as Lbn, Origin::User).await,
            None => Ok(None),
        }
    }

    /// Extends a file in one step. The caller holds the block of [`pin_tail`](Self::pin_tail).
    pub(super) fn extend_now(
        &self,
        inode: &Rc<Inode>,
        size: u64,
        effect: Effect<'_>,
    ) -> Result<()> {
        let (inline, old) = {
            let d = inode.d.borrow();
            (d.is_inline(), d.size)
        };
        let blocks_for = |size| self.core.geometry.blocks_for(size);
        if inline && size <= u64::from(self.core.features.inline_bytes) {
            effect()?;
            let mut d = inode.d.borrow_mut();
            d.inline.resize(size as usize, 0);
            d.size = size;
        } else {
            self.core.features.need_holes(blocks_for(size) > blocks_for(old))?;
            let blocks = if inline && old > 0 { 0..1 } else { 0..0 };
            let space = self.space_for(inode, blocks, size);
            self.core.check_quota(inode, space)?;
            self.layout.reserve(&self.core, space)?;
            effect().inspect_err(|_| self.layout.release(&self.core, space))?;
            self.lengthen(inode, size);
        }
        self.core.mark_inode_dirty(inode);
        self.core.note_change();
        Ok(())
    }

    async fn shrink(
        &self,
        inode: &Rc<Inode>,
        size: u64,
        version: u64,
        effect: Effect<'_>,
    ) -> Result<()> {
        let geometry = &self.core.geometry;
        let block = u64::from(geometry.block_size);
        let admission = self.admit(4 * block, Need::Shrink).await?;
        if inode.d.borrow().is_inline() {
            effect()?;
            {
                let mut d = inode.d.borrow_mut();
                d.inline.truncate(size as usize);
                d.size = size;
            }
            self.core.mark_inode_dirty(inode);
            self.core.note_change();
            return Ok(());
        }
        let keep = geometry.blocks_for(size);
        let cut = (!size.is_multiple_of(block)).then_some(keep.wrapping_sub(1));
        let mut pinned = Vec::new();
        if let Some(cut) = cut {
            self.core.pin_parents(inode, cut as Lbn, &mut pinned).await?;
            pinned.extend(self.core.block(inode, cut as Lbn, Origin::User).await?);
        }
        effect()?;
        self.cut_to(inode, size, cut, version);
        drop(admission);
        self.free_tail(inode, keep).await
    }

    /// The step of a truncation that clients see: frees the direct blocks beyond the end, zeroes
    /// the rest of block `cut`, which the caller holds, and sets the size.
    fn cut_to(&self, inode: &Rc<Inode>, size: u64, cut: Option<u64>, version: u64) {
        let geometry = &self.core.geometry;
        let block = u64::from(geometry.block_size);
        let (keep, old_size) = (geometry.blocks_for(size), inode.d.borrow().size);
        if let Some(lbn) = cut
            && !self.core.is_hole(inode, lbn as Lbn)
        {
            let frame = self.frame_for_change(inode, lbn);
            frame.change(|b| self.zero_data(inode, b, lbn, size - lbn * block..block, version));
            let freed = geometry.data_len(lbn, old_size) - geometry.data_len(lbn, size);
            self.layout.release(&self.core, freed.into());
            self.dirty_data(inode, &frame, size);
            if let Some(ptr) = self.core.resident_ptr(inode, lbn as Lbn).filter(|p| p.is_on_disk())
            {
                let other = self.layout.relocate_tail(&self.core, inode, lbn as Lbn, ptr);
                if other != ptr {
                    self.core.set_ptr(inode, lbn as Lbn, other);
                    self.dirty_parents(inode, lbn as Lbn);
                }
            }
        }
        for lbn in keep..(geometry.direct as u64).min(geometry.blocks_for(old_size)) {
            self.free_block(inode, lbn as Lbn, geometry.data_len(lbn, old_size));
        }
        self.forget_unwritten(inode, keep);
        self.core.cache.remove_range(&inode.frames, keep as Lbn..Lbn::MAX);
        // The size is set last, because `dirty_data` computes old lengths of blocks from it.
        {
            let mut d = inode.d.borrow_mut();
            d.size = size;
            if size == 0 {
                // Nothing of it is lost any more.
                d.flags &= !DAMAGED;
            }
        }
        inode.ahead.set(Default::default());
        self.core.mark_inode_dirty(inode);
        self.core.note_change();
    }

    /// Frees the blocks from `keep` on that have no place on the device yet. It must happen in the
    /// step that drops their frames: blocks with a place are freed later in several steps, and an
    /// indirect block that is written in between must not point to a block that will never be
    /// written.
    fn forget_unwritten(&self, inode: &Rc<Inode>, keep: u64) {
        let direct = self.core.geometry.direct;
        if inode.d.borrow().ptrs[direct..].iter().all(|ptr| ptr.is_hole()) {
            return;
        }
        for frame in inode.frames.dirty_frames() {
            let lbn = frame.lbn();
            let is_unwritten = || {
                let ptr = self.core.resident_ptr(inode, lbn);
                ptr.is_some_and(|ptr| !ptr.is_hole() && !ptr.is_on_disk())
            };
            if lbn >= keep as Lbn && lbn >= direct as Lbn && is_unwritten() {
                self.free_block(inode, lbn, self.core.geometry.block_size);
            }
        }
    }

    /// Frees the blocks below indirect blocks from data block `keep` on, and makes the truncation
    /// durable as the layout's ordering requires. If there are indirect blocks, the inode is
    /// written with the first of them and not before, as 4.4BSD's truncation writes the inode once.
    pub(crate) async fn free_tail(&self, inode: &Rc<Inode>, keep: u64) -> Result<()> {
        let geometry = self.core.geometry.clone();
        let tops: Vec<Lbn> = (geometry.direct..geometry.inode_pointers())
            .filter(|&slot| !inode.d.borrow().ptrs[slot].is_hole())
            .map(|slot| geometry.inode_child(slot))
            .filter(|&top| geometry.first_data(top) + geometry.span(top) > keep)
            .collect();
        if tops.is_empty() {
            return self.layout.enforce_order(&self.core, Change::Cut(inode)).await;
        }
        // No await lies between the step that set the size and this flag, so a crash never leaves
        // blocks beyond the end without the flag.
        self.set_truncating(inode, true);
        for &top in tops.iter().rev() {
            Box::pin(self.prune(inode, top, keep)).await?;
        }
        self.set_truncating(inode, false);
        Ok(())
    }

    fn set_truncating(&self, inode: &Rc<Inode>, on: bool) {
        let removed = {
            let mut d = inode.d.borrow_mut();
            d.flags = if on { d.flags | TRUNCATING } else { d.flags & !TRUNCATING };
            d.nlink == 0
        };
        let event = match on || removed {
            true => InodeEvent::Orphaned(inode),
            false => InodeEvent::Adopted(inode),
        };
        self.layout.inode_event(&self.core, event);
        self.core.mark_inode_dirty(inode);
    }

    /// Frees the blocks below an indirect block from data block `keep` on, and the indirect block
    /// itself if nothing is left. Each indirect block of the lowest level is one step.
    async fn prune(&self, inode: &Rc<Inode>, lbn: Lbn, keep: u64) -> Result<()> {
        let geometry = &self.core.geometry;
        let block = u64::from(geometry.block_size);
        let mut pinned = Vec::new();
        self.core.pin_parents(inode, lbn, &mut pinned).await?;
        let Some(frame) = self.core.block(inode, lbn, Origin::User).await? else { return Ok(()) };
        let lowest = geometry.indirect(lbn).0 == 1;
        let need = 4 * block;
        let mut _admission = None;
        if lowest {
            _admission = Some(self.admit(need, Need::Shrink).await?);
        }
        let whole = geometry.first_data(lbn) >= keep;
        for index in (0..geometry.per_block() as usize).rev() {
            let child = geometry.child(lbn, index);
            if geometry.first_data(child) + geometry.span(child) <= keep {
                break;
            }
            let ptr = self.core.ptr_in(&frame, index);
            if ptr.is_hole() {
                continue;
            }
            if !lowest {
                Box::pin(self.prune(inode, child, keep)).await?;
            } else if whole {
                // The pointers need not be cleared: the block that holds them is freed below, in
                // the same step.
                self.layout.free_block(&self.core, inode, ptr, geometry.block_size);
                self.core.count_space(inode, block, 0);
            } else {
                self.free_block(inode, child, geometry.block_size);
            }
        }
        if whole {
            if !lowest {
                _admission = Some(self.admit(need, Need::Shrink).await?);
            }
            self.free_block(inode, lbn, geometry.block_size);
        }
        drop(pinned);
        self.layout.enforce_order(&self.core, Change::Cut(inode)).await
    }
}
