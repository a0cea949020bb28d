//! Allocating blocks for holes of a file, making ranges zero, and punching holes.
//!
//! Long changes are made in several steps, so that none of them makes too much dirty at once. The
//! times and the length change in one of these steps: the first one of an allocation, the last one
//! of a punch.
//!
//! What an allocation promises, that later writes find room, it must keep. No layout has blocks beyond
//! the end of a file, so there it promises nothing: a range that goes beyond an end that is to stay is
//! refused before anything is changed.

use std::ops::Range;
use std::rc::Rc;

use twin_cache::Lbn;
use twin_disk::{Block, Origin};

use super::seek::next_mapped;
use super::{Effect, Files};
use crate::dinode::INLINE;
use crate::inodes::Inode;
use crate::layout::{Change, Need};
use crate::{Fallocate, FsError, Result};

/// The most blocks that one step of a long change covers.
const STEP_BLOCKS: u64 = 256;

impl Files {
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
        self.core.features.need_holes(what == Fallocate::PunchHole)?;
        if inode.d.borrow().is_damaged() {
            // What is lost would read as zeros afterwards.
            return Err(FsError::inconsistent(format!(
                "inode {}: parts of it were lost in a repair: overwrite or truncate it",
                inode.ino
            )));
        }
        let size = inode.d.borrow().size;
        if let Fallocate::Allocate { keep_size: true } | Fallocate::ZeroRange { keep_size: true } =
            what
            && end > size
        {
            return Err(FsError::NotSupported("no layout reserves room beyond the end of a file"));
        }
        let longer = match what {
            Fallocate::PunchHole => None,
            Fallocate::Allocate { keep_size } | Fallocate::ZeroRange { keep_size } => {
                (!keep_size && end > size).then_some(end)
            }
        };
        let tail = match longer {
            Some(new_size) => self.pin_tail(inode, new_size).await?,
            None => None,
        };
        let seen = || match longer {
            Some(new_size) => self.extend_now(inode, new_size, effect),
            None => effect(),
        };
        match what {
            Fallocate::PunchHole => self.punch(inode, off, end.min(size), version, &seen).await?,
            Fallocate::Allocate { .. } => {
                self.allocate(inode, off, end, longer.unwrap_or(size), &seen).await?;
            }
            Fallocate::ZeroRange { .. } => {
                self.allocate(inode, off, end, longer.unwrap_or(size), &seen).await?;
                self.zero(inode, off..end.min(size), size, version).await?;
            }
        }
        drop(tail);
        Ok(())
    }

    /// Turns every hole in `off..end` into a block of zeros, in a file that will have `new_size`
    /// bytes, so that later writes there find room. All the space is reserved first, so the
    /// operation does not fail for want of it halfway.
    async fn allocate(
        &self,
        inode: &Rc<Inode>,
        off: u64,
        end: u64,
        new_size: u64,
        effect: Effect<'_>,
    ) -> Result<()> {
        let block = u64::from(self.core.geometry.block_size);
        let inline_max = u64::from(self.core.features.inline_bytes);
        if off >= end || (inode.d.borrow().is_inline() && new_size <= inline_max) {
            let _admission = self.admit_small(Need::Grow).await?;
            return effect();
        }
        let (first, last) = (off / block, end.div_ceil(block));
        let total = self.count_holes(inode, first, last, new_size).await?;
        let quota = inode.d.borrow().quota;
        self.core.quotas.hold(quota, inode.ino, total)?;
        if let Err(error) = self.layout.reserve(&self.core, total) {
            self.core.quotas.let_go(inode.ino);
            return Err(error);
        }
        let before = inode.d.borrow().allocated;
        let mut result = match self.admit_small(Need::Grow).await {
            Ok(_admission) => effect(),
            Err(error) => Err(error),
        };
        // The effect has reserved the space by which it made the file grow.
        let grown = inode.d.borrow().allocated - before;
        if result.is_ok() {
            result = self.fill_holes(inode, first, last).await;
        }
        self.core.quotas.let_go(inode.ino);
        let used = inode.d.borrow().allocated - before - grown;
        // The count may have been higher than the need.
        self.layout.release(&self.core, total.saturating_sub(used));
        result
    }

    /// The bytes of space that filling the holes of a range takes.
    async fn count_holes(
        &self,
        inode: &Rc<Inode>,
        mut first: u64,
        last: u64,
        new_size: u64,
    ) -> Result<u64> {
        let stat = self.layout.figures(&self.core).stat;
        let free = stat.free * u64::from(stat.block_size);
        let (mut total, mut counted) = (0, Default::default());
        while first < last {
            let stop = last.min(first + STEP_BLOCKS);
            let mut pinned = Vec::new();
            for lbn in first..stop {
                self.core.pin_parents(inode, lbn as Lbn, &mut pinned).await?;
            }
            total += self.space_for_blocks(inode, first..stop, new_size, &mut counted);
            if total > free {
                return Err(FsError::NoSpace);
            }
            first = stop;
        }
        Ok(total)
    }

    /// Turns holes into blocks of zeros. The caller has reserved the space.
    async fn fill_holes(&self, inode: &Rc<Inode>, mut first: u64, last: u64) -> Result<()> {
        let block = u64::from(self.core.geometry.block_size);
        while first < last {
            let stop = last.min(first + STEP_BLOCKS);
            let bytes = (stop - first + 4) * block;
            let _admission = self.admit(bytes, Need::Grow).await?;
            let mut pinned = Vec::new();
            for lbn in first..stop {
                self.core.pin_parents(inode, lbn as Lbn, &mut pinned).await?;
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

    /// Makes the bytes of a range zero in a file that had `old_size` bytes and has blocks throughout the
    /// range.
    async fn zero(
        &self,
        inode: &Rc<Inode>,
        range: Range<u64>,
        old_size: u64,
        version: u64,
    ) -> Result<()> {
        let block = u64::from(self.core.geometry.block_size);
        let (off, end) = (range.start, range.end);
        if off >= end {
            return Ok(());
        }
        if inode.d.borrow().is_inline() {
            let _admission = self.admit_small(Need::Grow).await?;
            inode.d.borrow_mut().inline[off as usize..end as usize].fill(0);
            self.core.mark_inode_dirty(inode);
            self.core.note_change();
            return Ok(());
        }
        let (mut first, last) = (off / block, end.div_ceil(block));
        while first < last {
            let stop = last.min(first + STEP_BLOCKS);
            let _admission = self.admit((stop - first + 4) * block, Need::Grow).await?;
            let _held =
                self.load_for_write(inode, off.max(first * block), end.min(stop * block)).await?;
            let size = inode.d.borrow().size;
            for lbn in first..stop {
                let cut = off > lbn * block || end < ((lbn + 1) * block).min(old_size);
                let frame = self.frame_for_change(inode, lbn);
                let from = off.max(lbn * block) - lbn * block;
                let to = end.min((lbn + 1) * block) - lbn * block;
                frame.change(|b| match cut {
                    true => self.zero_data(inode, b, lbn, from..to, version),
                    false => *b = Block::Zero(block as u32),
                });
                self.dirty_data(inode, &frame, size);
            }
            self.core.note_change();
            first = stop;
        }
        Ok(())
    }

    /// Makes `off..end` read as zeros: whole blocks become holes, and in blocks that the range
    /// covers partly the bytes are zeroed. The effect takes place in the last step.
    async fn punch(
        &self,
        inode: &Rc<Inode>,
        off: u64,
        end: u64,
        version: u64,
        effect: Effect<'_>,
    ) -> Result<()> {
        let block = u64::from(self.core.geometry.block_size);
        if off >= end || inode.d.borrow().is_inline() {
            let _admission = self.admit_small(Need::Shrink).await?;
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
            let _admission = self.admit(8 * block, Need::Shrink).await?;
            let mut pinned = Vec::new();
            let mut lbns = Vec::new();
            let mut lbn = first;
            while lbn < stop {
                let ptr = self.core.ptr(inode, lbn as Lbn).await?;
                self.core.pin_parents(inode, lbn as Lbn, &mut pinned).await?;
                if ptr.is_hole() {
                    // The whole range of a missing indirect block is skipped at once.
                    lbn = next_mapped(&self.core, inode, lbn);
                    continue;
                }
                let is_cut = off > lbn * block || (end < (lbn + 1) * block && end < size);
                if is_cut {
                    pinned.extend(self.core.block(inode, lbn as Lbn, Origin::User).await?);
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
            self.layout.enforce_order(&self.core, Change::Cut(inode)).await?;
        }
        Ok(())
    }

    /// Frees a block, or with a range zeroes the bytes of the block that are in the range.
    fn punch_block(&self, inode: &Rc<Inode>, lbn: u64, range: Option<(u64, u64)>, version: u64) {
        let block = u64::from(self.core.geometry.block_size);
        let size = inode.d.borrow().size;
        let Some((off, end)) = range else {
            return self.free_block(inode, lbn as Lbn, self.core.geometry.data_len(lbn, size));
        };
        let frame = self.frame_for_change(inode, lbn);
        let from = off.max(lbn * block) - lbn * block;
        let to = end.min((lbn + 1) * block) - lbn * block;
        frame.change(|b| self.zero_data(inode, b, lbn, from..to, version));
        self.dirty_data(inode, &frame, size);
    }

    /// Punches inline data. If nothing of it is left the file has a hole instead.
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
