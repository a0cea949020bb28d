//! Changing a file's length, punching holes, promising room.
//!
//! What clients see of such a change is one step: the size, the cut last block and the times
//! change together. Long changes go on after it or before it, piece by piece: blocks past the
//! end are freed (a crash in between leaves the flag [`TRUNCATING`], and recovery goes on from
//! there), holes become blocks of zeros, and of a long range to be punched all but the last piece
//! is punched before.

use std::rc::Rc;

use twin_cache::{Frame, Lbn};
use twin_disk::Origin;

use crate::core::Inode;
use crate::dinode::{INLINE, TRUNCATING};
use crate::layout::{Change, Layout, Need};
use crate::{Fallocate, FsError, Result, SeekFor, Volume};

/// Blocks that one step of a long change covers at the most.
const STEP_BLOCKS: u64 = 256;

/// What else changes in the step in which clients see a change of a file: its times and owner's
/// bits. Called once, before that step; if it fails, the step does not take place.
pub(crate) type Effect<'a> = &'a dyn Fn() -> Result<()>;

impl<L: Layout> Volume<L> {
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
                let _permit = self.admit_small(Need::Shrink).await?;
                effect()
            }
            std::cmp::Ordering::Greater => self.extend(inode, size, effect).await,
            std::cmp::Ordering::Less => self.shrink(inode, size, version, effect).await,
        }
    }

    async fn extend(&self, inode: &Rc<Inode>, size: u64, effect: Effect<'_>) -> Result<()> {
        let _permit = self.admit_small(Need::Grow).await?;
        let _held = self.hold_tail(inode, size).await?;
        self.extend_now(inode, size, effect)
    }

    /// Holds the last block of a file that is to have `size` bytes, if it has to be rewritten.
    async fn hold_tail(&self, inode: &Rc<Inode>, size: u64) -> Result<Option<Rc<Frame>>> {
        match self.growing_tail(inode, size) {
            Some(tail) => self.core.block(inode, tail as Lbn, Origin::User).await,
            None => Ok(None),
        }
    }

    /// The step of an extension that clients see. The last block is held.
    fn extend_now(&self, inode: &Rc<Inode>, size: u64, effect: Effect<'_>) -> Result<()> {
        let (inline, old) = {
            let d = inode.d.borrow();
            (d.is_inline(), d.size)
        };
        let blocks_for = |size| self.core.shape.blocks_for(size);
        if inline && size <= u64::from(self.core.features.inline_bytes) {
            effect()?;
            let mut d = inode.d.borrow_mut();
            d.inline.resize(size as usize, 0);
            d.size = size;
        } else {
            self.core.features.need_holes(blocks_for(size) > blocks_for(old))?;
            let blocks = if inline && old > 0 { 0..1 } else { 0..0 };
            let space = self.space_for(inode, blocks, size);
            self.layout.reserve(&self.core, space)?;
            effect().inspect_err(|_| self.layout.unreserve(&self.core, space))?;
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
        let shape = &self.core.shape;
        let block = u64::from(shape.block_size);
        let permit = self.layout.admit(&self.core, 4 * block, Need::Shrink).await?;
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
        let keep = shape.blocks_for(size);
        let cut = (!size.is_multiple_of(block)).then_some(keep.wrapping_sub(1));
        let mut held = Vec::new();
        if let Some(cut) = cut {
            self.core.hold_parents(inode, cut as Lbn, &mut held).await?;
            held.extend(self.core.block(inode, cut as Lbn, Origin::User).await?);
        }
        effect()?;
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
            if let Some(ptr) = self.core.resident_ptr(inode, lbn as Lbn).filter(|p| p.is_on_disk())
            {
                let other = self.layout.recast(&self.core, inode, lbn as Lbn, ptr);
                if other != ptr {
                    self.core.set_ptr(inode, lbn as Lbn, other);
                    self.dirty_parents(inode, lbn as Lbn);
                }
            }
        }
        for lbn in keep..(shape.direct as u64).min(shape.blocks_for(old_size)) {
            self.free_block(inode, lbn as Lbn, shape.data_len(lbn, old_size));
        }
        self.forget_unwritten(inode, keep);
        self.core.cache.remove_range(&inode.frames, keep as Lbn..Lbn::MAX);
        inode.d.borrow_mut().size = size;
        inode.ahead.set(Default::default());
        self.core.mark_inode_dirty(inode);
        self.core.note_change();
    }

    /// Frees the blocks from `keep` on that have no place on the device yet. They end with the frames
    /// that hold them, while those that have one are freed step by step: an indirect block that is
    /// written in between must not point to a block that will never be.
    fn forget_unwritten(&self, inode: &Rc<Inode>, keep: u64) {
        let direct = self.core.shape.direct;
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
                self.free_block(inode, lbn, self.core.shape.block_size);
            }
        }
    }

    /// Frees the blocks behind indirect blocks from data block `keep` on, and settles the cut: with
    /// indirect blocks together with the first of them, as 4.4BSD's truncation writes the inode once.
    pub(crate) async fn free_tail(&self, inode: &Rc<Inode>, keep: u64) -> Result<()> {
        let shape = self.core.shape.clone();
        let tops: Vec<Lbn> = (shape.direct..shape.inode_pointers())
            .filter(|&slot| !inode.d.borrow().ptrs[slot].is_hole())
            .map(|slot| shape.inode_child(slot))
            .filter(|&top| shape.first_data(top) + shape.span(top) > keep)
            .collect();
        if tops.is_empty() {
            return self.layout.settle(&self.core, Change::Cut(inode)).await;
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
                self.layout.free_block(&self.core, inode, ptr, shape.block_size);
                inode.d.borrow_mut().count_space(block, 0);
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
        drop(held);
        self.layout.settle(&self.core, Change::Cut(inode)).await
    }

    /// `fallocate`. The caller holds the inode's lock exclusively.
    pub(crate) async fn fallocate(
        &self,
        inode: &Rc<Inode>,
        off: u64,
        len: u64,
        what: Fallocate,
        version: u64,
        effect: Effect<'_>,
    ) -> Result<()> {
        let end = off.checked_add(len).filter(|&e| e <= self.core.features.file_bytes_max);
        let end = end.ok_or(FsError::FileTooBig)?;
        self.core.features.need_holes(!matches!(what, Fallocate::Allocate { .. }))?;
        let size = inode.d.borrow().size;
        let longer = match what {
            Fallocate::PunchHole => None,
            Fallocate::Allocate { keep_size } | Fallocate::ZeroRange { keep_size } => {
                (!keep_size && end > size).then_some(end)
            }
        };
        let tail = match longer {
            Some(new_size) => self.hold_tail(inode, new_size).await?,
            None => None,
        };
        let seen = || match longer {
            Some(new_size) => self.extend_now(inode, new_size, effect),
            None => effect(),
        };
        if let Fallocate::Allocate { .. } = what {
            let new_size = longer.unwrap_or(size);
            self.allocate(inode, off, end.min(new_size), new_size, &seen).await?;
        } else {
            self.punch(inode, off, end.min(size), version, &seen).await?;
        }
        drop(tail);
        Ok(())
    }

    /// Makes every hole in `off..end` a block of zeros, so that later writes there find room, in
    /// a file that will have `new_size` bytes. All the space is reserved first.
    async fn allocate(
        &self,
        inode: &Rc<Inode>,
        off: u64,
        end: u64,
        new_size: u64,
        effect: Effect<'_>,
    ) -> Result<()> {
        let block = u64::from(self.core.shape.block_size);
        let inline_max = u64::from(self.core.features.inline_bytes);
        if off >= end || (inode.d.borrow().is_inline() && new_size <= inline_max) {
            let _permit = self.admit_small(Need::Grow).await?;
            return effect();
        }
        let (first, last) = (off / block, end.div_ceil(block));
        let total = self.count_holes(inode, first, last, new_size).await?;
        self.layout.reserve(&self.core, total)?;
        let before = inode.d.borrow().allocated;
        let mut result = match self.admit_small(Need::Grow).await {
            Ok(_permit) => effect(),
            Err(error) => Err(error),
        };
        // What the effect made grow, it has reserved itself.
        let grown = inode.d.borrow().allocated - before;
        if result.is_ok() {
            result = self.fill_holes(inode, first, last).await;
        }
        let used = inode.d.borrow().allocated - before - grown;
        // A little more may have been counted than was needed.
        self.layout.unreserve(&self.core, total.saturating_sub(used));
        result
    }

    /// Space that it takes to fill the holes of a range.
    async fn count_holes(
        &self,
        inode: &Rc<Inode>,
        mut first: u64,
        last: u64,
        new_size: u64,
    ) -> Result<u64> {
        let stat = self.layout.stat(&self.core);
        let free = stat.free * u64::from(stat.block_size);
        let (mut total, mut counted) = (0, Default::default());
        while first < last {
            let stop = last.min(first + STEP_BLOCKS);
            let mut held = Vec::new();
            for lbn in first..stop {
                self.core.hold_parents(inode, lbn as Lbn, &mut held).await?;
            }
            total += self.space_for_blocks(inode, first..stop, new_size, &mut counted);
            if total > free {
                return Err(FsError::NoSpace);
            }
            first = stop;
        }
        Ok(total)
    }

    /// Makes holes blocks of zeros. The space is reserved.
    async fn fill_holes(&self, inode: &Rc<Inode>, mut first: u64, last: u64) -> Result<()> {
        let block = u64::from(self.core.shape.block_size);
        while first < last {
            let stop = last.min(first + STEP_BLOCKS);
            let bytes = (stop - first + 4) * block;
            let _permit = self.layout.admit(&self.core, bytes, Need::Grow).await?;
            let mut held = Vec::new();
            for lbn in first..stop {
                self.core.hold_parents(inode, lbn as Lbn, &mut held).await?;
            }
            let size = inode.d.borrow().size;
            for lbn in first..stop {
                if self.is_hole(inode, lbn as Lbn) {
                    let frame = self.frame_for_change(inode, lbn);
                    self.dirty_data(inode, &frame, size);
                }
            }
            first = stop;
        }
        Ok(())
    }

    /// Makes `off..end` read as zeros: whole blocks become holes, cut ones are zeroed. The effect
    /// goes with the last step.
    async fn punch(
        &self,
        inode: &Rc<Inode>,
        off: u64,
        end: u64,
        version: u64,
        effect: Effect<'_>,
    ) -> Result<()> {
        let block = u64::from(self.core.shape.block_size);
        if off >= end || inode.d.borrow().is_inline() {
            let _permit = self.admit_small(Need::Shrink).await?;
            if off < end {
                self.punch_inline(inode, off, end);
            }
            effect()?;
            self.core.mark_inode_dirty(inode);
            return Ok(());
        }
        let size = inode.d.borrow().size;
        let (mut first, last) = (off / block, end.div_ceil(block));
        while first < last {
            let stop = last.min(first + STEP_BLOCKS);
            let _permit = self.layout.admit(&self.core, 8 * block, Need::Shrink).await?;
            let mut held = Vec::new();
            let mut lbns = Vec::new();
            let mut lbn = first;
            while lbn < stop {
                let ptr = self.core.ptr(inode, lbn as Lbn).await?;
                self.core.hold_parents(inode, lbn as Lbn, &mut held).await?;
                if ptr.is_hole() {
                    // Indirect blocks that do not exist are passed over in one step.
                    lbn = self.next_mapped(inode, lbn);
                    continue;
                }
                let is_cut = off > lbn * block || (end < (lbn + 1) * block && end < size);
                if is_cut {
                    held.extend(self.core.block(inode, lbn as Lbn, Origin::User).await?);
                }
                lbns.push((lbn, is_cut));
                lbn += 1;
            }
            first = lbn;
            if first >= last {
                effect()?;
            }
            for (lbn, is_cut) in lbns {
                self.punch_block(inode, lbn, is_cut.then_some((off, end)), version);
            }
            self.core.note_change();
            self.layout.settle(&self.core, Change::Cut(inode)).await?;
        }
        Ok(())
    }

    /// Frees a block, or makes its part in the range zero.
    fn punch_block(&self, inode: &Rc<Inode>, lbn: u64, range: Option<(u64, u64)>, version: u64) {
        let block = u64::from(self.core.shape.block_size);
        let size = inode.d.borrow().size;
        let Some((off, end)) = range else {
            return self.free_block(inode, lbn as Lbn, self.core.shape.data_len(lbn, size));
        };
        let frame = self.frame_for_change(inode, lbn);
        let from = off.max(lbn * block) - lbn * block;
        let to = end.min((lbn + 1) * block) - lbn * block;
        frame.change(|b| self.zero_data(inode, b, lbn, from..to, version));
        self.dirty_data(inode, &frame, size);
    }

    /// Data in the inode: all of it punched leaves a hole.
    fn punch_inline(&self, inode: &Rc<Inode>, off: u64, end: u64) {
        let mut d = inode.d.borrow_mut();
        if off == 0 && end >= d.size {
            d.inline.clear();
            d.flags &= !INLINE;
        } else {
            d.inline[off as usize..end as usize].fill(0);
        }
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
