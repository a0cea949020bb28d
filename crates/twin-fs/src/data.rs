//! Reading and writing file data.
//!
//! A write has two parts: it loads what it needs (waiting), then applies the change as one step.
//! The inode's lock is held throughout, so what was loaded is still so.

use std::rc::Rc;

use twin_cache::Lbn;
use twin_disk::{Block, Bytes, Origin, Stamp};

use crate::core::{Inode, ReadAhead};
use crate::dinode::INLINE;
use crate::layout::{Change, Layout, Need};
use crate::{Data, FsError, Result, Volume, Work, mode};

impl<L: Layout> Volume<L> {
    /// Reads `len` bytes at `off`, fewer at the end of the file.
    pub(crate) async fn read(
        self: &Rc<Self>,
        inode: &Rc<Inode>,
        off: u64,
        len: u32,
    ) -> Result<Vec<Block>> {
        let _shared = inode.lock.read().await;
        let (size, inline) = {
            let d = inode.d.borrow();
            (d.size, d.is_inline().then(|| Bytes::copy_of(&d.inline)))
        };
        let end = size.min(off.saturating_add(u64::from(len)));
        if off >= end {
            return Ok(Vec::new());
        }
        let len = (end - off) as usize;
        if let Some(bytes) = inline {
            return Ok(vec![Block::Bytes(bytes.slice(off as usize, len))]);
        }
        if let Some(policy) = &self.core.reading {
            return self.read_by_block(&**policy, inode, off, end).await;
        }
        let block = u64::from(self.core.shape.block_size);
        let (first, last) = (off / block, end.div_ceil(block));
        let sequential = self.read_ahead(inode, off, end, size);
        let frames = self.core.blocks(inode, first, last, Origin::User).await?;
        self.core.cpu.charge(Work::Copy(len as u64)).await;
        let mut frames = frames.into_iter().peekable();
        let mut out = Vec::with_capacity((last - first) as usize);
        for lbn in first..last {
            let start = off.max(lbn * block) - lbn * block;
            let n = (end.min((lbn + 1) * block) - lbn * block - start) as usize;
            match frames.next_if(|f| f.lbn() == lbn as Lbn) {
                Some(frame) => out.push(frame.with(|b| b.slice(start as usize, n))),
                None => match out.last_mut() {
                    Some(Block::Zero(zeros)) => *zeros += n as u32,
                    _ => out.push(Block::Zero(n as u32)),
                },
            }
        }
        drop(frames);
        if sequential && self.core.settings.drop_behind {
            let (first, last) = (off.div_ceil(block), if end == size { last } else { end / block });
            self.core.cache.drop_read(&inode.frames, first as Lbn..last as Lbn);
        }
        Ok(out)
    }

    /// Starts reading ahead if the file is being read sequentially, and says whether it is. The
    /// window doubles with each sequential read up to the setting, and half of it is kept in hand.
    fn read_ahead(self: &Rc<Self>, inode: &Rc<Inode>, off: u64, end: u64, size: u64) -> bool {
        let max = u64::from(self.core.settings.read_ahead_bytes);
        let mut ahead = inode.ahead.get();
        if max == 0 || off != ahead.next {
            let asked = if max == 0 { 0 } else { end };
            inode.ahead.set(ReadAhead { next: end, window: 0, asked, ..ahead });
            return false;
        }
        ahead.next = end;
        let block = u64::from(self.core.shape.block_size);
        ahead.window = (ahead.window.max(end - off) * 2).clamp(block.min(max), max);
        let want = (end + ahead.window).min(size);
        if ahead.asked < end + ahead.window / 2 && ahead.asked < want {
            let first = ahead.asked.max(end) / block;
            let last = want.div_ceil(block);
            ahead.asked = want;
            let (volume, inode) = (Rc::clone(self), Rc::clone(inode));
            self.core.rt.spawn("read-ahead", async move {
                let _shared = inode.lock.read().await;
                let size = inode.d.borrow().size;
                let last = last.min(volume.core.shape.blocks_for(size));
                if first < last && !inode.d.borrow().is_inline() {
                    // A failed read-ahead is no error: the read itself will meet it.
                    let _ = volume.core.blocks(&inode, first, last, Origin::ReadAhead).await;
                }
            });
        }
        inode.ahead.set(ahead);
        true
    }

    /// Writes all of `data` at `off`. `version` becomes that of the stamps of synthetic data. With
    /// nobody whom the write is `by`, times and set-id bits stay.
    pub(crate) async fn write(
        &self,
        inode: &Rc<Inode>,
        off: u64,
        data: &Data,
        version: u64,
        by: Option<&crate::Cred>,
    ) -> Result<u64> {
        let shape = &self.core.shape;
        let len = data.len();
        if len == 0 {
            return Ok(0);
        }
        let end = off.checked_add(len).filter(|&end| end <= self.core.features.file_bytes_max);
        let end = end.ok_or(FsError::FileTooBig)?;
        let _alone = inode.lock.write().await;
        let block = u64::from(shape.block_size);
        let skips = off / block > shape.blocks_for(inode.d.borrow().size);
        self.core.features.need_holes(skips && !self.fits_inline(inode, end))?;
        let _permit = self.layout.admit(&self.core, len + 4 * block, Need::Grow).await?;
        self.core.cpu.charge(Work::Copy(len)).await;
        if self.fits_inline(inode, end) {
            self.write_inline(inode, off, data, version);
        } else {
            let (first, last) = (off / block, end.div_ceil(block));
            let _held = self.load_for_write(inode, off, end).await?;
            let size = inode.d.borrow().size.max(end);
            let mut need = self.space_for(inode, first..last, size);
            if first > 0 && !inode.d.borrow().inline.is_empty() {
                // The data that lies in the inode moves to the first block.
                need += u64::from(shape.data_len(0, size));
            }
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
            crate::perm::after_write(&mut attr, cred, self.core.now());
        }
        self.set_attr_fields(inode, &attr);
        let change = Change::Written { inode, first: off / block, end: end.div_ceil(block) };
        self.layout.settle(&self.core, change).await?;
        Ok(len)
    }

    /// True if a file that will have `end` bytes or keeps its size can have its data in the inode.
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
                // An inode holds real bytes always.
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

    /// Gives a file `size` bytes, not fewer than it has: moves inline data to the first block, or
    /// rewrites the last fragment if it then takes more space. What that needs is held and the
    /// space is reserved. From then on every block has the length that goes with the new size.
    pub(crate) fn lengthen(&self, inode: &Rc<Inode>, size: u64) {
        if inode.d.borrow().is_inline() {
            self.leave_inline(inode, size);
        } else if let Some(tail) = self.growing_tail(inode, size) {
            let frame = self.frame_for_change(inode, tail);
            self.dirty_data(inode, &frame, size);
        }
        inode.d.borrow_mut().size = size;
    }

    /// Moves inline data to the first block, of a file that will have `size` bytes.
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

    /// Loads and holds what a write of `off..end` changes only in part, and the indirect blocks
    /// on the way.
    pub(crate) async fn load_for_write(
        &self,
        inode: &Rc<Inode>,
        off: u64,
        end: u64,
    ) -> Result<Vec<Rc<twin_cache::Frame>>> {
        let (core, shape) = (&self.core, &self.core.shape);
        let block = u64::from(shape.block_size);
        let (first, last) = (off / block, end.div_ceil(block));
        let size = inode.d.borrow().size;
        let mut held = Vec::new();
        let mut at = first;
        while at < last {
            core.hold_parents(inode, at as Lbn, &mut held).await?;
            at = match shape.parent(at as Lbn) {
                crate::shape::Parent::Inode(_) => at + 1,
                crate::shape::Parent::Indirect(up, _) => shape.first_data(up) + shape.span(up),
            };
        }
        let tail = self.growing_tail(inode, size.max(end));
        let cut_first = (!off.is_multiple_of(block)).then_some(first);
        let cut_last = (!end.is_multiple_of(block) && end < size).then_some(last - 1);
        for lbn in [cut_first, cut_last, tail].into_iter().flatten() {
            core.hold_parents(inode, lbn as Lbn, &mut held).await?;
            held.extend(core.block(inode, lbn as Lbn, Origin::User).await?);
        }
        self.read_before_overwrite(inode, off, end, &mut held).await?;
        // A block that is being read ahead must be there before it can be overwritten.
        for frame in inode.frames.resident(first as Lbn..last as Lbn) {
            if frame.wait().await.is_ok() {
                held.push(frame);
            }
        }
        Ok(held)
    }

    /// Puts the part of a write that falls into block `lbn` into its content.
    fn put_data(
        &self,
        inode: &Inode,
        content: &mut Block,
        lbn: u64,
        off: u64,
        data: &Data,
        version: u64,
    ) {
        let block = u64::from(self.core.shape.block_size);
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
            Data::Synthetic(_) if self.core.settings.expand_stamps => {
                let cut = Stamp { off: from as u32, len: n as u32, ..stamp };
                cut.expand(&mut content.bytes_mut()[from..from + n]);
            }
            Data::Synthetic(_) => *content = Block::Stamp(stamp),
        }
    }

    /// Changes bytes `from..to` of a block's content to zero; a stamped block gets a new stamp.
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
                let len = self.core.shape.block_size;
                *content = Block::Stamp(Stamp { ino: inode.ino, lbn, version, off: 0, len });
            }
            Block::Bytes(_) => {
                content.bytes_mut()[range.start as usize..range.end as usize].fill(0);
            }
        }
    }
}
