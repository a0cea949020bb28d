//! Inodes: their tables in the cylinder groups, and the numbers that are free.
//!
//! Contract: blocks of the tables go through the cache. An inode in memory holds the block that it
//! lies in (its anchor), so that it can be put there without waiting. A number is in use from
//! `born` on; until then the maps on the disk do not have it.

use std::rc::Rc;

use twin_cache::{Frame, Wanted};
use twin_disk::{Block, Buf, Class, Origin};
use twin_fs::dinode::Dinode;
use twin_fs::{Core, FsError, Ino, Inode, Picked, ROOT_INO, Result, mode};

use crate::ffs::Ffs;

impl Ffs {
    /// The number under which a block of a table is in the cache.
    fn table_lbn(&self, ino: Ino) -> i64 {
        (self.sb.inode_place(ino).0 / u64::from(self.sb.frags_per_block())) as i64
    }

    /// True if the maps say that a number is in use or picked.
    pub(crate) fn is_used(&self, ino: Ino) -> bool {
        ino < self.sb.inodes() && self.alloc().is_inode_used(ino)
    }

    /// The block of the table that an inode lies in, read if need be.
    pub(crate) async fn inode_block(&self, core: &Rc<Core>, ino: Ino) -> Result<Rc<Frame>> {
        let lbn = self.table_lbn(ino);
        loop {
            if let Some(frame) = core.cache.get(&self.tables, lbn) {
                frame.wait().await?;
                if frame.is_attached() {
                    return Ok(frame);
                }
                continue;
            }
            let block = self.sb.shape.block_size;
            if !self.alloc().is_inode_written(ino) {
                // It was never written: what lies there is of no interest.
                let zeros = Block::Bytes(Buf::zeroed(block as usize).freeze());
                return Ok(core.cache.insert(&self.tables, lbn, Some(zeros)));
            }
            let frame = core.cache.insert(&self.tables, lbn, None);
            let at = lbn as u64 * u64::from(block);
            let wanted = vec![Wanted { frame: Rc::clone(&frame), len: block, crc: None }];
            let (device, origin) = (&*core.device, Origin::User);
            let bytes = block as usize;
            twin_cache::load(
                &core.cache,
                &self.tables,
                device,
                at,
                wanted,
                bytes,
                Class::Meta,
                origin,
            )
            .await?;
        }
    }

    /// Looks at an inode's bytes in its block.
    fn with_raw<T>(&self, frame: &Frame, ino: Ino, f: impl FnOnce(&[u8]) -> T) -> T {
        let (off, len) = (self.sb.inode_place(ino).1, self.sb.shape.inode_size as usize);
        frame.with(|block| match block {
            Block::Bytes(bytes) => f(&bytes[off..off + len]),
            other => f(&other.slice(off, len).to_bytes()),
        })
    }

    /// Reads an inode that is not in memory.
    pub(crate) async fn read_inode(&self, core: &Rc<Core>, ino: Ino) -> Result<Rc<Inode>> {
        if ino < ROOT_INO || !self.is_used(ino) {
            return Err(FsError::NotFound);
        }
        let anchor = self.inode_block(core, ino).await?;
        if let Some(there) = core.cached_inode(ino) {
            return Ok(there);
        }
        let shape = &self.sb.shape;
        let decoded = self.with_raw(&anchor, ino, |raw| {
            if Dinode::free_generation(shape, raw).is_some() {
                return Err(None);
            }
            Dinode::decode(shape, raw, core.frags).map_err(Some)
        });
        let byte = shape.byte_of(self.sb.inode_place(ino).0) + self.sb.inode_place(ino).1 as u64;
        let d = match decoded {
            Ok(d) => d,
            Err(None) => return Err(FsError::NotFound),
            Err(Some(what)) => return Err(FsError::corrupt(byte, what)),
        };
        if d.ino != ino {
            let what = format!("inode {ino} says that it is inode {}", d.ino);
            return Err(FsError::corrupt(byte, what));
        }
        let inode = Inode::new(d);
        if let Some(journal) = &self.journal {
            // It may have left memory since the last snapshot, which may not be durable.
            inode.written_in.set(journal.last_snapshot());
        }
        *inode.anchor.borrow_mut() = Some(anchor);
        Ok(core.add_inode(inode))
    }

    /// Takes a free number: for a directory in the group that its policy says, otherwise near the
    /// directory that will have the name.
    pub(crate) async fn pick(&self, core: &Rc<Core>, near: Ino, file_mode: u32) -> Result<Picked> {
        let ino = self.take_number(near, file_mode & mode::TYPE == mode::DIRECTORY)?;
        // A snapshot that is taken while the block is read must not see the number in use.
        self.picked.insert(ino, None);
        let frame = match self.inode_block(core, ino).await {
            Ok(frame) => frame,
            Err(error) => {
                self.unpick_number(ino);
                return Err(error);
            }
        };
        let raw = |raw: &[u8]| Dinode::free_generation(&self.sb.shape, raw);
        let Some(last) = self.with_raw(&frame, ino, raw) else {
            // It stays taken, but not in the maps that are written.
            let what = format!("inode {ino} is free by its group's map but in use");
            return Err(FsError::inconsistent(what));
        };
        self.picked.insert(ino, Some(frame));
        Ok(Picked { ino, generation: last.wrapping_add(1) })
    }

    /// `ffs_valloc` of 4.4BSD.
    fn take_number(&self, near: Ino, is_dir: bool) -> Result<Ino> {
        let near = near.min(self.sb.inodes() - 1);
        let mut space = self.alloc_mut();
        let group = is_dir.then(|| {
            let parent = self.sb.inode_group(near);
            self.dir_placement.group(&space.group_views(), parent, near == ROOT_INO)
        });
        space.take_inode(near, group).ok_or(FsError::NoInodes)
    }

    /// Takes back a pick.
    pub(crate) fn unpick_number(&self, ino: Ino) {
        if self.picked.remove(ino).is_some() {
            self.alloc_mut().free_inode(ino, false);
        }
    }

    /// A picked number is in use from now on.
    pub(crate) fn bear(&self, core: &Core, inode: &Rc<Inode>) {
        let frame = self.picked.remove(inode.ino);
        let Some(frame) = frame.flatten() else { panic!("inode {} was not picked", inode.ino) };
        *inode.anchor.borrow_mut() = Some(frame);
        // Blocks of the table that count as written from now on must be.
        let is_dir = inode.d.borrow().is_dir();
        let blocks = self.alloc_mut().use_inode(&self.sb, inode.ino, is_dir);
        for first in blocks {
            let lbn = self.table_lbn(first);
            let frame = core.cache.peek(&self.tables, lbn).unwrap_or_else(|| {
                let zeros = Block::Bytes(Buf::zeroed(self.sb.shape.block_size as usize).freeze());
                core.cache.insert(&self.tables, lbn, Some(zeros))
            });
            core.cache.mark_dirty(&self.tables, &frame);
        }
    }

    /// Frees the number of an inode that has lost everything.
    pub(crate) fn free_number_of(&self, core: &Core, inode: &Rc<Inode>) {
        let (is_dir, generation) = {
            let d = inode.d.borrow();
            (d.is_dir(), d.generation)
        };
        if let Some(anchor) = inode.anchor.borrow_mut().take() {
            let mut raw = vec![0; self.sb.shape.inode_size as usize];
            Dinode::encode_free(&self.sb.shape, inode.ino, generation, &mut raw);
            self.put_raw(core, &anchor, inode.ino, &raw);
        }
        let mut space = self.alloc_mut();
        space.free_inode(inode.ino, is_dir);
        space.note_maps_dirty();
        drop(space);
        self.orphans.remove(inode.ino);
        self.write_behind.forget(inode.ino);
        core.drop_inode(inode);
    }

    fn put_raw(&self, core: &Core, anchor: &Rc<Frame>, ino: Ino, raw: &[u8]) {
        let same = self.with_raw(anchor, ino, |old| old == raw);
        if !same {
            let off = self.sb.inode_place(ino).1;
            anchor.change(|b| b.bytes_mut()[off..off + raw.len()].copy_from_slice(raw));
            core.cache.mark_dirty(&self.tables, anchor);
        }
    }

    /// Puts an inode as it is now into the block of its table.
    pub(crate) fn put_inode(&self, core: &Core, inode: &Rc<Inode>) {
        let anchor = inode.anchor.borrow().clone();
        let Some(anchor) = anchor else { panic!("inode {} has no table block", inode.ino) };
        let mut raw = vec![0; self.sb.shape.inode_size as usize];
        inode.d.borrow().encode(&self.sb.shape, &mut raw);
        self.put_raw(core, &anchor, inode.ino, &raw);
        if !inode.frames.has_dirty() {
            core.mark_inode_clean(inode);
        }
    }

    /// True if the size or a pointer of an inode differ from what its table's block says: without
    /// them its latest content cannot be found.
    pub(crate) fn has_new_shape(&self, core: &Core, inode: &Inode) -> bool {
        let anchor = inode.anchor.borrow().clone();
        let Some(anchor) = anchor else { return true };
        let shape = &self.sb.shape;
        let old = self.with_raw(&anchor, inode.ino, |raw| Dinode::decode(shape, raw, core.frags));
        let d = inode.d.borrow();
        old.map_or(true, |old| {
            (old.size, &old.ptrs, old.flags, &old.inline) != (d.size, &d.ptrs, d.flags, &d.inline)
        })
    }
}
