//! Writes file data.
//!
//! A write first loads the blocks that it needs, which may wait, and then applies the change in one
//! step. It holds the inode's lock throughout, so what it loaded is still valid in that step.

use std::rc::Rc;

use twin_cache::{Frame, Lbn};
use twin_disk::{Block, Origin, Stamp};

use super::{Files, WriteAt};
use crate::dinode::INLINE;
use crate::geometry::Parent;
use crate::inodes::Inode;
use crate::layout::{Change, Need};
use crate::reading::Overwrite;
use crate::{Cred, Data, FsError, Result, Work, mode, perm};

impl Files {
    /// Writes all of `data` at `place`. It takes the inode's lock. `version` is the version of the
    /// stamps of synthetic data. Without credentials in `by`, times and set-id bits stay.
    pub(crate) async fn write(
        &self,
        inode: &Rc<Inode>,
        place: WriteAt,
        data: &Data,
        version: u64,
        by: Option<&Cred>,
    ) -> Result<u64> {
        let geometry = &self.core.geometry;
        let len = data.len();
        if len == 0 {
            return Ok(0);
        }
        let most = self.core.features.file_bytes_max;
        if let WriteAt::At(off) = place
            && off.checked_add(len).is_none_or(|end| end > most)
        {
            return Err(FsError::FileTooBig);
        }
        let _alone = inode.lock.write().await;
        // The lock is held until the data is in place, so the end of the file stays where it is.
        let off = match place {
            WriteAt::At(off) => off,
            WriteAt::End => inode.d.borrow().size,
        };
        let end = off.checked_add(len).filter(|&end| end <= most).ok_or(FsError::FileTooBig)?;
        let block = u64::from(geometry.block_size);
        let skips = off / block > geometry.blocks_for(inode.d.borrow().size);
        self.core.features.need_holes(skips && !self.fits_inline(inode, end))?;
        let _admission = self.admit(len + 4 * block, Need::Grow).await?;
        self.core.cpu.charge(Work::Copy(len)).await;
        if self.fits_inline(inode, end) {
            self.write_inline(inode, off, data, version);
        } else {
            let (first, last) = (off / block, end.div_ceil(block));
            let _held = self.load_for_write(inode, off, end).await?;
            let size = inode.d.borrow().size.max(end);
            let mut need = self.space_for(inode, first..last, size);
            if first > 0 && !inode.d.borrow().inline.is_empty() {
                // The inline data moves to the first block, which is not in the range.
                need += u64::from(geometry.data_len(0, size));
            }
            // From here to `set_attributes` nothing waits, so contents, size and times change in
            // one step.
            self.core.check_quota(inode, need)?;
            self.layout.reserve(&self.core, need)?;
            self.lengthen(inode, size);
            for lbn in first..last {
                let frame = self.frame_for_change(inode, lbn);
                frame.change(|b| self.put_data(inode, b, lbn, off, data, version));
                self.dirty_data(inode, &frame, size);
            }
        }
        let mut attr = inode.attr();
        if let Some(cred) = by {
            perm::after_write(&mut attr, cred, self.core.now());
        }
        self.core.set_attributes(inode, &attr);
        let change = Change::Written { inode, first: off / block, end: end.div_ceil(block) };
        self.layout.enforce_order(&self.core, change).await?;
        Ok(len)
    }

    /// True if the inode can hold the data of a file after a write that ends at `end`.
    fn fits_inline(&self, inode: &Inode, end: u64) -> bool {
        let d = inode.d.borrow();
        let empty = d.size == 0 && d.allocated == 0;
        let fits = end.max(d.size) <= u64::from(self.core.features.inline_bytes);
        d.kind() == mode::REGULAR && fits && (d.is_inline() || empty)
    }

    fn write_inline(&self, inode: &Rc<Inode>, off: u64, data: &Data, version: u64) {
        {
            let mut d = inode.d.borrow_mut();
            let (start, end) = (off as usize, (off + data.len()) as usize);
            if d.inline.len() < end {
                d.inline.resize(end, 0);
            }
            match data {
                Data::Bytes(bytes) => d.inline[start..end].copy_from_slice(bytes),
                Data::Synthetic(_) if self.core.settings.zeros => d.inline[start..end].fill(0),
                // An inode always holds real bytes, never stamps.
                Data::Synthetic(len) => {
                    let (off, len) = (off as u32, *len as u32);
                    let stamp = Stamp { ino: inode.ino, lbn: 0, version, off, len };
                    stamp.expand(&mut d.inline[start..end]);
                }
            }
            d.size = d.inline.len() as u64;
            d.flags |= INLINE;
        }
        self.core.mark_inode_dirty(inode);
    }

    /// Loads the blocks that a write of `off..end` changes only partly, and the indirect blocks
    /// above the range. The caller holds the returned frames until the change.
    pub(crate) async fn load_for_write(
        &self,
        inode: &Rc<Inode>,
        off: u64,
        end: u64,
    ) -> Result<Vec<Rc<Frame>>> {
        let (core, geometry) = (&self.core, &self.core.geometry);
        let block = u64::from(geometry.block_size);
        let (first, last) = (off / block, end.div_ceil(block));
        let size = inode.d.borrow().size;
        let mut pinned = Vec::new();
        let mut at = first;
        while at < last {
            core.pin_parents(inode, at as Lbn, &mut pinned).await?;
            at = match geometry.parent(at as Lbn) {
                Parent::Inode(_) => at + 1,
                Parent::Indirect(up, _) => geometry.first_data(up) + geometry.span(up),
            };
        }
        let tail = self.growing_tail(inode, size.max(end));
        let cut_first = (!off.is_multiple_of(block)).then_some(first);
        let cut_last = (!end.is_multiple_of(block) && end < size).then_some(last - 1);
        let damaged = inode.d.borrow().is_damaged();
        for lbn in [cut_first, cut_last, tail].into_iter().flatten() {
            core.pin_parents(inode, lbn as Lbn, &mut pinned).await?;
            let frame = core.block(inode, lbn as Lbn, Origin::User).await?;
            if damaged && frame.is_none() && lbn < geometry.blocks_for(size) {
                // The rest of the block is lost, and would read as zeros afterwards.
                return Err(FsError::lost(inode.ino, lbn));
            }
            pinned.extend(frame);
        }
        self.read_before_overwrite(inode, off, end, &mut pinned).await?;
        // A read-ahead that is still under way would overwrite the new content, so it must end
        // first.
        for frame in inode.frames.resident(first as Lbn..last as Lbn) {
            if frame.wait().await.is_ok() {
                pinned.push(frame);
            }
        }
        Ok(pinned)
    }

    /// Copies the part of a write that falls into block `lbn` into the content of that block.
    fn put_data(
        &self,
        inode: &Inode,
        content: &mut Block,
        lbn: u64,
        off: u64,
        data: &Data,
        version: u64,
    ) {
        let block = u64::from(self.core.geometry.block_size);
        let base = lbn * block;
        let start = off.max(base);
        let end = (off + data.len()).min(base + block);
        let (from, n) = ((start - base) as usize, (end - start) as usize);
        let stamp = Stamp { ino: inode.ino, lbn, version, off: 0, len: block as u32 };
        match data {
            Data::Bytes(bytes) => {
                let part = bytes.slice((start - off) as usize, n);
                if n == block as usize {
                    *content = Block::Bytes(part);
                } else {
                    content.bytes_mut()[from..from + n].copy_from_slice(&part);
                }
            }
            Data::Synthetic(_) if self.core.settings.zeros => *content = Block::Zero(block as u32),
            Data::Synthetic(_) if self.core.settings.expand_stamps => {
                let cut = Stamp { off: from as u32, len: n as u32, ..stamp };
                cut.expand(&mut content.bytes_mut()[from..from + n]);
            }
            Data::Synthetic(_) => *content = Block::Stamp(stamp),
        }
    }

    /// Writes block by block, as the kernels of the papers did: each block is admitted, copied and
    /// changed before the next one.
    pub(crate) async fn write_by_block(
        &self,
        inode: &Rc<Inode>,
        place: WriteAt,
        data: &Data,
        version: u64,
        by: Option<&Cred>,
    ) -> Result<u64> {
        let block = u64::from(self.core.geometry.block_size);
        let mut done = 0;
        while done < data.len() {
            let (at, piece) = match place {
                WriteAt::At(off) => {
                    (off.saturating_add(done), WriteAt::At(off.saturating_add(done)))
                }
                WriteAt::End => (inode.d.borrow().size, WriteAt::End),
            };
            let n = (block - at % block).min(data.len() - done);
            self.core.cpu.charge(Work::Block).await;
            self.write(inode, piece, &data.part(done, n), version, by).await?;
            done += n;
        }
        Ok(done)
    }

    /// Reads the blocks that a write of `off..end` must read by the setting [`Overwrite`], although
    /// it needs nothing of their contents, and adds them to `pinned`.
    pub(crate) async fn read_before_overwrite(
        &self,
        inode: &Rc<Inode>,
        off: u64,
        end: u64,
        pinned: &mut Vec<Rc<Frame>>,
    ) -> Result<()> {
        let rule = self.core.settings.overwrite;
        if rule == Overwrite::Needed {
            return Ok(());
        }
        let geometry = &self.core.geometry;
        let block = u64::from(geometry.block_size);
        for lbn in off / block..end.div_ceil(block) {
            let partial = off > lbn * block || end < (lbn + 1) * block;
            let direct = rule == Overwrite::Direct && lbn < geometry.direct as u64;
            let there = self.core.ptr(inode, lbn as Lbn).await?.is_on_disk();
            if there && (partial || direct) {
                pinned.extend(self.core.block(inode, lbn as Lbn, Origin::User).await?);
            }
        }
        Ok(())
    }
}
