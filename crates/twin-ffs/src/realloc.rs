//! Reallocation: moves blocks of a file together before they are written for the first time, and
//! applies the write-behind policy.
//!
//! Contract: only blocks to which no pointer on the disk leads are moved, and only within one step.
//! Source: `ffs_reallocblks` of 4.4BSD; Seltzer et al. 1995, section 3.3; Smith and Seltzer, "A
//! Comparison of FFS Disk Allocation Policies", USENIX 1996.

use std::ops::Range;
use std::rc::Rc;

use twin_cache::{Frame, Lbn};
use twin_disk::Origin;
use twin_fs::{Core, Inode, Result};

use crate::allocation::Gather;
use crate::ffs::Ffs;
use crate::space::Freed;
use crate::write_behind::{Block, WriteBehindAdvice};
use crate::writes::join_runs;

impl Ffs {
    /// Moves a file's new blocks together, if they could form clusters but are scattered.
    pub(crate) fn gather_fresh(&self, core: &Core, inode: &Rc<Inode>) {
        let wants = self.settings.reallocate && self.write_behind.clusters_at_flush();
        if !wants || self.hints.is_active() || !self.alloc().has_fresh(inode.ino) {
            return;
        }
        let most = match self.alloc().gather() {
            Gather::Clusters => u64::from(self.sb.tuning.maxcontig),
            Gather::WholeFile => u64::MAX,
        };
        let mut run: Range<u64> = 0..0;
        for frame in inode.frames.dirty_frames().iter().filter(|f| f.lbn() >= 0) {
            let lbn = frame.lbn() as u64;
            let movable = self.movable(core, inode, frame).is_some();
            if movable && lbn == run.end && run.end - run.start < most && !run.is_empty() {
                run.end += 1;
                continue;
            }
            self.gather(core, inode, run.clone());
            run = if movable { lbn..lbn + 1 } else { 0..0 };
        }
        self.gather(core, inode, run);
    }

    /// The place of a block that may be moved: a whole one, or one that the policy moves with
    /// those before it.
    fn movable(&self, core: &Core, inode: &Inode, frame: &Frame) -> Option<Freed> {
        let ptr = core.resident_ptr(inode, frame.lbn()).filter(|_| frame.is_dirty())?;
        let space = self.alloc();
        let whole = ptr.len == self.sb.geometry.block_size || space.gather() == Gather::WholeFile;
        let frags = ptr.len / self.sb.geometry.frag_size;
        (whole && space.is_fresh(inode.ino, ptr.addr)).then_some(Freed { addr: ptr.addr, frags })
    }

    /// Moves blocks together. Returns false if that is not possible.
    pub(crate) fn gather(&self, core: &Core, inode: &Rc<Inode>, range: Range<u64>) -> bool {
        if range.end < range.start + 2 || self.hints.is_active() {
            return false;
        }
        let frames = self.dirty_range(inode, range.start, range.end);
        let old: Option<Vec<Freed>> =
            frames.iter().map(|frame| self.movable(core, inode, frame)).collect();
        let Some(old) = old.filter(|old| old.len() as u64 == range.end - range.start) else {
            return false;
        };
        if old.windows(2).all(|w| w[1].addr == w[0].addr + u64::from(w[0].frags)) {
            return true;
        }
        let wanted = self.wanted(core, inode, range.start as Lbn);
        let mut space = self.alloc_mut();
        let frags = old.iter().map(|old| old.frags).sum();
        let Some(first) = space.take_cluster(&self.sb, &wanted, frags) else {
            return false;
        };
        let mut addr = first;
        for (frame, old) in frames.iter().zip(old) {
            let len = old.frags * self.sb.geometry.frag_size;
            core.set_ptr(inode, frame.lbn(), twin_fs::geometry::Ptr { addr, len, crc: 0 });
            space.free(&self.sb, inode.ino, old);
            space.note_fresh(inode.ino, addr);
            addr += u64::from(old.frags);
        }
        true
    }

    /// Writes those of the blocks just written that the write-behind policy chooses.
    pub(crate) async fn write_behind(
        &self,
        core: &Rc<Core>,
        inode: &Rc<Inode>,
        first: u64,
        end: u64,
    ) -> Result<()> {
        let geometry = &core.geometry;
        let block = u64::from(geometry.block_size);
        let size = inode.d.borrow().size;
        for lbn in first..end {
            // Only full blocks are written before the flush.
            let full = (lbn + 1) * block <= size;
            let ptr = core.resident_ptr(inode, lbn as Lbn).filter(|p| p.is_on_disk());
            let (true, Some(ptr)) = (full, ptr) else { continue };
            let written = Block {
                lbn,
                addr: ptr.addr,
                frags: self.sb.frags_per_block().into(),
                at_end: (lbn + 1) * block == size || lbn + 1 < end,
                following: self.following(core, inode, lbn, ptr.addr),
                most: u64::from(self.sb.tuning.maxcontig),
            };
            let push = self.write_behind.block_written(inode.ino, written);
            self.push(core, inode, written, push).await?;
        }
        Ok(())
    }

    /// Blocks of the file after this one that follow it on the disk, as far as is in memory.
    fn following(&self, core: &Core, inode: &Inode, lbn: u64, addr: u64) -> u64 {
        let per_block = u64::from(self.sb.frags_per_block());
        let most = u64::from(self.sb.tuning.maxcontig);
        let follows = |i: &u64| {
            let next = core.resident_ptr(inode, (lbn + i) as Lbn);
            next.is_some_and(|p| p.addr == addr + i * per_block)
        };
        (1..most).take_while(follows).count() as u64
    }

    async fn push(
        &self,
        core: &Rc<Core>,
        inode: &Rc<Inode>,
        written: Block,
        mut push: WriteBehindAdvice,
    ) -> Result<()> {
        if let Some(range) = push.gather.take() {
            let moved = self.settings.reallocate && self.gather(core, inode, range.clone());
            if moved {
                let addr = core.resident_ptr(inode, written.lbn as Lbn).map_or(0, |p| p.addr);
                self.write_behind.moved(inode.ino, addr);
                return Ok(());
            }
            // They cannot be moved: the present blocks are written where they are, and a new
            // cluster begins.
            push.now.push(range.start..range.end - 1);
            self.write_behind.end_cluster(inode.ino);
            push.now.extend(self.write_behind.block_written(inode.ino, written).now);
        }
        for range in push.now {
            let mut pins = Vec::new();
            for lbn in range.clone() {
                core.pin_parents(inode, lbn as Lbn, &mut pins).await?;
            }
            let frames = self.dirty_range(inode, range.start, range.end);
            let pieces = frames.iter().filter_map(|f| self.take_block(core, inode, f)).collect();
            let runs = join_runs(pieces, self.cluster_bytes(core));
            self.writes.send(core, runs, Origin::WriteBack);
        }
        Ok(())
    }
}
