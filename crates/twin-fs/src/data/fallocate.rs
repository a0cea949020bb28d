//! Promising room for a file's holes, and punching holes.
//!
//! Long changes are made piece by piece before the step that clients see: holes become blocks of
//! zeros, and of a long range to be punched all but the last piece is punched.

use std::rc::Rc;

use twin_cache::Lbn;
use twin_disk::Origin;

use super::seek::next_mapped;
use super::{Effect, Files};
use crate::dinode::INLINE;
use crate::inodes::Inode;
use crate::layout::{Change, Layout, Need};
use crate::{Fallocate, FsError, Result};

/// Blocks that one step of a long change covers at the most.
const STEP_BLOCKS: u64 = 256;

impl<L: Layout> Files<L> {
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
            let _permit = self.admit(bytes, Need::Grow).await?;
            let mut held = Vec::new();
            for lbn in first..stop {
                self.core.hold_parents(inode, lbn as Lbn, &mut held).await?;
            }
            let size = inode.d.borrow().size;
            for lbn in first..stop {
                if self.core.is_hole(inode, lbn as Lbn) {
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
            let _permit = self.admit(8 * block, Need::Shrink).await?;
            let mut held = Vec::new();
            let mut lbns = Vec::new();
            let mut lbn = first;
            while lbn < stop {
                let ptr = self.core.ptr(inode, lbn as Lbn).await?;
                self.core.hold_parents(inode, lbn as Lbn, &mut held).await?;
                if ptr.is_hole() {
                    // Indirect blocks that do not exist are passed over in one step.
                    lbn = next_mapped(&self.core, inode, lbn);
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
}
