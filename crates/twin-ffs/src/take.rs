//! Takes dirty blocks as they are at one moment, for their writes.
//!
//! Contract: nothing here waits except for loading indirect blocks (`pin_parents`), so that a
//! taker sees complete operations. A taken block is clean and stays in memory until the device has
//! it.

use std::rc::Rc;

use twin_cache::{Frame, Lbn};
use twin_disk::{Block, Buf, Class};
use twin_fs::geometry::Parent;
use twin_fs::{Core, Inode, Result};

use crate::ffs::Ffs;
use crate::writes::Piece;

/// Selects among the dirty blocks of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DirtyBlocks {
    /// Data of regular files.
    Data,
    /// Directories, links and hidden files, and all indirect blocks.
    Meta,
    All,
}

impl Ffs {
    /// Holds the indirect blocks that lead to a file's dirty blocks.
    pub(crate) async fn pin_parents(
        &self,
        core: &Core,
        inode: &Inode,
        pins: &mut Vec<Rc<Frame>>,
    ) -> Result<()> {
        let mut last = None;
        for lbn in inode.frames.dirty_blocks() {
            if let Parent::Indirect(up, _) = core.geometry.parent(lbn)
                && last.replace(up) != Some(up)
            {
                core.pin_parents(inode, lbn, pins).await?;
            }
        }
        Ok(())
    }

    /// Takes dirty blocks of a file, as pieces. Blocks whose place is not known in memory stay
    /// dirty.
    pub(crate) fn take_blocks(&self, core: &Core, inode: &Inode, which: DirtyBlocks) -> Vec<Piece> {
        let frames = inode.frames.dirty_frames();
        let wanted = |frame: &&Rc<Frame>| match which {
            DirtyBlocks::All => true,
            DirtyBlocks::Data => inode.class(frame.lbn()) == Class::Data,
            DirtyBlocks::Meta => inode.class(frame.lbn()) == Class::Meta,
        };
        frames.iter().filter(wanted).filter_map(|f| self.take_block(core, inode, f)).collect()
    }

    /// Takes a dirty block.
    pub(crate) fn take_block(
        &self,
        core: &Core,
        inode: &Inode,
        frame: &Rc<Frame>,
    ) -> Option<Piece> {
        let ptr = core.resident_ptr(inode, frame.lbn()).filter(|p| p.is_on_disk())?;
        let block = frame.with(|b| b.slice(0, ptr.len as usize));
        core.cache.mark_clean(&inode.frames, frame);
        let class = inode.class(frame.lbn());
        self.count(|s| match class {
            Class::Data => s.data_bytes += u64::from(ptr.len),
            _ => s.meta_bytes += u64::from(ptr.len),
        });
        if class == Class::Data && self.alloc().is_unwritten(inode.ino) {
            self.writes.note_unflushed();
        }
        if frame.lbn() < 0 {
            // From here on a pointer on the disk may lead to the blocks, whether or not the inode
            // is written too.
            self.alloc_mut().forget_fresh(inode.ino);
        }
        let at = self.sb.geometry.byte_of(ptr.addr);
        Some(Piece { at, block, frames: Some(Rc::clone(frame)), class, ino: inode.ino })
    }

    /// Takes a dirty block of the inode tables.
    pub(crate) fn take_table_block(&self, core: &Core, frame: &Rc<Frame>) -> Piece {
        let len = self.sb.geometry.block_size;
        core.cache.mark_clean(&self.tables, frame);
        self.count(|s| s.meta_bytes += u64::from(len));
        let at = frame.lbn() as u64 * u64::from(len);
        let (block, frames) = (frame.block(), Some(Rc::clone(frame)));
        Piece { at, block, frames, class: Class::Meta, ino: 0 }
    }

    /// Takes all dirty blocks of the inode tables.
    pub(crate) fn take_tables(&self, core: &Core) -> Vec<Piece> {
        let frames = self.tables.dirty_frames();
        frames.iter().map(|frame| self.take_table_block(core, frame)).collect()
    }

    /// Takes the changed maps of groups. With `committing`, freed fragments are already free in
    /// them.
    pub(crate) fn take_maps(&self, committing: bool) -> Vec<Piece> {
        let picked = |numbers| self.picked.within(numbers);
        let maps = self.alloc_mut().take_maps(&self.sb, committing, picked);
        let run = |(group, raw): (u32, Vec<u8>)| Piece {
            at: self.sb.geometry.byte_of(self.sb.cg_addr(group)),
            block: Block::Bytes(Buf::copy_of(&raw).freeze()),
            frames: None,
            class: Class::Meta,
            ino: 0,
        };
        let runs: Vec<Piece> = maps.into_iter().map(run).collect();
        let bytes = runs.len() as u64 * u64::from(self.sb.geometry.block_size);
        self.count(|s| s.meta_bytes += bytes);
        runs
    }

    /// The size of requests that a flush makes.
    pub(crate) fn flush_bytes(&self, core: &Core) -> u64 {
        match self.write_behind.clusters_at_flush() {
            true => self.cluster_bytes(core),
            false => self.sb.geometry.block_size.into(),
        }
    }

    /// The numbers of logical blocks of a range that are in memory, dirty and whole.
    pub(crate) fn dirty_range(&self, inode: &Inode, first: u64, end: u64) -> Vec<Rc<Frame>> {
        let resident = inode.frames.resident(first as Lbn..end as Lbn);
        resident.into_iter().filter(|f| f.is_dirty()).collect()
    }
}
