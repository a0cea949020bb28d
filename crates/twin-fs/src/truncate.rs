//! Changing a file's length, punching holes, promising room.
//!
//! A truncation takes effect at once as far as clients can see: the size changes and the last
//! block is cut as one step. Blocks past the end are then freed piece by piece; a crash in
//! between leaves the flag [`TRUNCATING`], and recovery goes on from there.

use std::rc::Rc;

use twin_cache::Lbn;
use twin_disk::{Origin, Stamp};

use crate::core::Inode;
use crate::dinode::TRUNCATING;
use crate::layout::{Layout, Need};
use crate::{Fallocate, FsError, Result, SeekFor, Volume};

/// Blocks that one step of a long change covers at the most.
const STEP_BLOCKS: u64 = 256;

impl<L: Layout> Volume<L> {
    /// Sets the length. The caller holds the inode's lock exclusively and changes the times.
    pub(crate) async fn set_size(&self, inode: &Rc<Inode>, size: u64, version: u64) -> Result<()> {
        if size > self.core.shape.max_file_size() {
            return Err(FsError::FileTooBig);
        }
        let old = inode.d.borrow().size;
        match size.cmp(&old) {
            std::cmp::Ordering::Equal => Ok(()),
            std::cmp::Ordering::Greater => self.extend(inode, size).await,
            std::cmp::Ordering::Less => self.shrink(inode, size, version).await,
        }
    }

    async fn extend(&self, inode: &Rc<Inode>, size: u64) -> Result<()> {
        let block = u64::from(self.core.shape.block_size);
        let _permit = self.layout.admit(&self.core, 2 * block, Need::Grow).await?;
        let inline = inode.d.borrow().is_inline();
        if inline && size <= u64::from(self.core.shape.inline_max) {
            let mut d = inode.d.borrow_mut();
            d.inline.resize(size as usize, 0);
            d.size = size;
        } else {
            let mut held = Vec::new();
            if let Some(tail) = self.growing_tail(inode, size) {
                held.extend(self.core.block(inode, tail as Lbn, Origin::User).await?);
            }
            let blocks = if inline && inode.d.borrow().size > 0 { 0..1 } else { 0..0 };
            self.layout.reserve(&self.core, self.space_for(inode, blocks, size))?;
            self.leave_inline(inode, size);
            self.grow_tail(inode, size);
            inode.d.borrow_mut().size = size;
        }
        self.core.mark_inode_dirty(inode);
        Ok(())
    }

    async fn shrink(&self, inode: &Rc<Inode>, size: u64, version: u64) -> Result<()> {
        let shape = &self.core.shape;
        let block = u64::from(shape.block_size);
        let permit = self.layout.admit(&self.core, 4 * block, Need::Shrink).await?;
        if inode.d.borrow().is_inline() {
            {
                let mut d = inode.d.borrow_mut();
                d.inline.truncate(size as usize);
                d.size = size;
                // A stamped file's whole content changes with every change of its bytes.
                if !self.core.settings.expand_stamps && self.stamped.get() {
                    let stamp = Stamp { ino: inode.ino, lbn: 0, version, off: 0, len: 0 };
                    stamp.expand(&mut d.inline);
                }
            }
            self.core.mark_inode_dirty(inode);
            return Ok(());
        }
        let keep = shape.blocks_for(size);
        let cut = (!size.is_multiple_of(block)).then_some(keep.wrapping_sub(1));
        let mut held = Vec::new();
        if let Some(cut) = cut {
            self.core.hold_parents(inode, cut as Lbn, &mut held).await?;
            held.extend(self.core.block(inode, cut as Lbn, Origin::User).await?);
        }
        self.cut_to(inode, size, cut, version);
        drop(permit);
        self.free_tail(inode, keep).await
    }

    /// The step of a truncation that clients see.
    fn cut_to(&self, inode: &Rc<Inode>, size: u64, cut: Option<u64>, version: u64) {
        let shape = &self.core.shape;
        let block = u64::from(shape.block_size);
        let (keep, old_size) = (shape.blocks_for(size), inode.d.borrow().size);
        if let Some(lbn) = cut
            && !self.is_hole(inode, lbn as Lbn)
        {
            let frame = self.frame_for_change(inode, lbn);
            frame.change(|b| self.zero_data(inode, b, lbn, size - lbn * block..block, version));
            let freed = shape.data_len(lbn, old_size) - shape.data_len(lbn, size);
            self.layout.unreserve(&self.core, freed.into());
            self.dirty_data(inode, &frame, size);
        }
        for lbn in keep..(shape.direct as u64).min(shape.blocks_for(old_size)) {
            self.free_block(inode, lbn as Lbn, shape.data_len(lbn, old_size));
        }
        self.core.cache.remove_range(&inode.frames, keep as Lbn..Lbn::MAX);
        inode.d.borrow_mut().size = size;
        inode.ahead.set(Default::default());
        self.core.mark_inode_dirty(inode);
    }

    /// Frees the blocks behind indirect blocks from data block `keep` on.
    pub(crate) async fn free_tail(&self, inode: &Rc<Inode>, keep: u64) -> Result<()> {
        let shape = self.core.shape.clone();
        let tops: Vec<Lbn> = (shape.direct..shape.inode_pointers())
            .filter(|&slot| !inode.d.borrow().ptrs[slot].is_hole())
            .map(|slot| shape.inode_child(slot))
            .filter(|&top| shape.first_data(top) + shape.span(top) > keep)
            .collect();
        if tops.is_empty() {
            return Ok(());
        }
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
        self.layout.set_orphan(&self.core, inode, on || removed);
        self.core.mark_inode_dirty(inode);
    }

    /// Frees what an indirect block maps from data block `keep` on, and the block itself if
    /// nothing stays. Each lowest-level indirect block is one step.
    async fn prune(&self, inode: &Rc<Inode>, lbn: Lbn, keep: u64) -> Result<()> {
        let shape = &self.core.shape;
        let block = u64::from(shape.block_size);
        let mut held = Vec::new();
        self.core.hold_parents(inode, lbn, &mut held).await?;
        let Some(frame) = self.core.block(inode, lbn, Origin::User).await? else { return Ok(()) };
        let lowest = shape.indirect(lbn).0 == 1;
        let need = 4 * block;
        let mut _permit = None;
        if lowest {
            _permit = Some(self.layout.admit(&self.core, need, Need::Shrink).await?);
        }
        let whole = shape.first_data(lbn) >= keep;
        for index in (0..shape.per_block() as usize).rev() {
            let child = shape.child(lbn, index);
            if shape.first_data(child) + shape.span(child) <= keep {
                break;
            }
            let ptr = self.core.ptr_in(&frame, index);
            if ptr.is_hole() {
                continue;
            }
            if !lowest {
                Box::pin(self.prune(inode, child, keep)).await?;
            } else if whole {
                // The pointers go with the block that holds them, below, in this same step.
                self.layout.free_block(&self.core, ptr, shape.block_size);
                inode.d.borrow_mut().allocated -= block;
            } else {
                self.free_block(inode, child, shape.block_size);
            }
        }
        if whole {
            if !lowest {
                _permit = Some(self.layout.admit(&self.core, need, Need::Shrink).await?);
            }
            self.free_block(inode, lbn, shape.block_size);
        }
        Ok(())
    }

    /// `fallocate`. The caller holds the inode's lock exclusively and changes the times.
    pub(crate) async fn fallocate(
        &self,
        inode: &Rc<Inode>,
        off: u64,
        len: u64,
        what: Fallocate,
        version: u64,
    ) -> Result<()> {
        let end = off.checked_add(len).filter(|&e| e <= self.core.shape.max_file_size());
        let end = end.ok_or(FsError::FileTooBig)?;
        let size = inode.d.borrow().size;
        match what {
            Fallocate::PunchHole => self.punch(inode, off, end.min(size), version).await,
            Fallocate::ZeroRange { keep_size } => {
                self.punch(inode, off, end.min(size), version).await?;
                if !keep_size && end > size { self.extend(inode, end).await } else { Ok(()) }
            }
            Fallocate::Allocate { keep_size } => {
                let top = if keep_size { end.min(size) } else { end };
                if end > size && !keep_size {
                    self.extend(inode, end).await?;
                }
                self.allocate(inode, off, top).await
            }
        }
    }

    /// Makes every hole in `off..end` a block of zeros, so that later writes there find room.
    async fn allocate(&self, inode: &Rc<Inode>, off: u64, end: u64) -> Result<()> {
        if off >= end || inode.d.borrow().is_inline() {
            return Ok(());
        }
        let shape = &self.core.shape;
        let block = u64::from(shape.block_size);
        let (mut first, last) = (off / block, end.div_ceil(block));
        while first < last {
            let stop = last.min(first + STEP_BLOCKS);
            let bytes = (stop - first + 4) * block;
            let _permit = self.layout.admit(&self.core, bytes, Need::Grow).await?;
            let mut held = Vec::new();
            for lbn in first..stop {
                self.core.hold_parents(inode, lbn as Lbn, &mut held).await?;
            }
            let size = inode.d.borrow().size;
            let holes: Vec<u64> =
                (first..stop).filter(|&lbn| self.is_hole(inode, lbn as Lbn)).collect();
            let need = holes.iter().map(|&lbn| self.space_for(inode, lbn..lbn + 1, size)).sum();
            self.layout.reserve(&self.core, need)?;
            let mut used = 0;
            for lbn in holes {
                used += self.space_for(inode, lbn..lbn + 1, size);
                let frame = self.frame_for_change(inode, lbn);
                self.dirty_data(inode, &frame, size);
            }
            // Blocks of one step share indirect blocks that were counted for each.
            self.layout.unreserve(&self.core, need - used);
            first = stop;
        }
        Ok(())
    }

    /// Makes `off..end` read as zeros: whole blocks become holes, cut ones are zeroed.
    async fn punch(&self, inode: &Rc<Inode>, off: u64, end: u64, version: u64) -> Result<()> {
        if off >= end {
            return Ok(());
        }
        if inode.d.borrow().is_inline() {
            let mut d = inode.d.borrow_mut();
            d.inline[off as usize..end as usize].fill(0);
            if !self.core.settings.expand_stamps && self.stamped.get() {
                Stamp { ino: inode.ino, lbn: 0, version, off: 0, len: 0 }.expand(&mut d.inline);
            }
            drop(d);
            self.core.mark_inode_dirty(inode);
            return Ok(());
        }
        let shape = self.core.shape.clone();
        let block = u64::from(shape.block_size);
        let size = inode.d.borrow().size;
        let (mut first, last) = (off / block, end.div_ceil(block));
        while first < last {
            // Whole indirect blocks that do not exist are passed over in one step.
            let stop = last.min(first + STEP_BLOCKS);
            let _permit = self.layout.admit(&self.core, 8 * block, Need::Shrink).await?;
            let mut held = Vec::new();
            let mut lbns = Vec::new();
            let mut lbn = first;
            while lbn < stop {
                let ptr = self.core.ptr(inode, lbn as Lbn).await?;
                self.core.hold_parents(inode, lbn as Lbn, &mut held).await?;
                if ptr.is_hole() {
                    lbn = self.next_mapped(inode, lbn).min(stop.max(lbn + 1));
                    continue;
                }
                let is_cut = off > lbn * block || (end < (lbn + 1) * block && end < size);
                if is_cut {
                    held.extend(self.core.block(inode, lbn as Lbn, Origin::User).await?);
                }
                lbns.push((lbn, is_cut));
                lbn += 1;
            }
            for (lbn, is_cut) in lbns {
                if is_cut {
                    let frame = self.frame_for_change(inode, lbn);
                    let from = off.max(lbn * block) - lbn * block;
                    let to = end.min((lbn + 1) * block) - lbn * block;
                    frame.change(|b| self.zero_data(inode, b, lbn, from..to, version));
                    self.dirty_data(inode, &frame, size);
                } else {
                    self.free_block(inode, lbn as Lbn, shape.data_len(lbn, size));
                }
            }
            first = lbn;
        }
        Ok(())
    }

    /// The first data block after the hole at `lbn` that may be mapped, by what is in memory.
    fn next_mapped(&self, inode: &Inode, lbn: u64) -> u64 {
        let shape = &self.core.shape;
        let mut at = lbn as Lbn;
        let mut next = lbn + 1;
        while let crate::shape::Parent::Indirect(up, _) = shape.parent(at)
            && self.core.resident_ptr(inode, up).is_some_and(|p| p.is_hole())
        {
            next = shape.first_data(up) + shape.span(up);
            at = up;
        }
        next
    }

    /// `lseek` for data or a hole, in units of blocks.
    pub(crate) async fn seek(&self, inode: &Rc<Inode>, off: u64, what: SeekFor) -> Result<u64> {
        let _shared = inode.lock.read().await;
        let (size, inline) = {
            let d = inode.d.borrow();
            (d.size, d.is_inline())
        };
        if off >= size {
            return Err(FsError::NoSuchOffset);
        }
        if inline {
            return Ok(if what == SeekFor::Data { off } else { size });
        }
        let block = u64::from(self.core.shape.block_size);
        let mut lbn = off / block;
        while lbn * block < size {
            let is_hole = self.core.ptr(inode, lbn as Lbn).await?.is_hole();
            if is_hole == (what == SeekFor::Hole) {
                return Ok(off.max(lbn * block));
            }
            lbn = if is_hole { self.next_mapped(inode, lbn) } else { lbn + 1 };
        }
        if what == SeekFor::Hole { Ok(size) } else { Err(FsError::NoSuchOffset) }
    }
}
