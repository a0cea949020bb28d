//! Inodes: their tables in the cylinder groups, and the free inode numbers.
//!
//! Contract: blocks of the tables go through the cache. An inode in memory holds its block (its
//! table block), so that it can be stored there without waiting. A number is in use from
//! `mark_inode_created` on; until then the maps on the disk show it as free.

use std::rc::Rc;

use twin_cache::{Frame, FrameRequest};
use twin_disk::{Block, Buf, Class, Origin};
use twin_fs::dinode::Dinode;
use twin_fs::{Core, FsError, Ino, Inode, Picked, ROOT_INO, Result, mode};

use crate::ffs::Ffs;
use crate::inode_state::InodeState;

impl Ffs {
    /// The number under which a block of a table is in the cache.
    pub(crate) fn table_lbn(&self, ino: Ino) -> i64 {
        (self.sb.inode_place(ino).0 / u64::from(self.sb.frags_per_block())) as i64
    }

    /// True if the maps say that a number is in use or picked.
    pub(crate) fn is_used(&self, ino: Ino) -> bool {
        ino < self.sb.inodes() && self.alloc().is_inode_used(ino)
    }

    /// The block of the table that contains an inode, read if it is not in memory.
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
            let block = self.sb.geometry.block_size;
            if !self.alloc().is_inode_written(ino) {
                // The block was never written, so its content on the disk is meaningless.
                let zeros = Block::Bytes(Buf::zeroed(block as usize).freeze());
                return Ok(core.cache.insert(&self.tables, lbn, Some(zeros)));
            }
            let frame = core.cache.insert(&self.tables, lbn, None);
            let at = lbn as u64 * u64::from(block);
            let wanted = vec![FrameRequest { frame: Rc::clone(&frame), len: block, crc: None }];
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
        let (off, len) = (self.sb.inode_place(ino).1, self.sb.geometry.inode_size as usize);
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
        let table_block = self.inode_block(core, ino).await?;
        if let Some(there) = core.cached_inode(ino) {
            return Ok(there);
        }
        let geometry = &self.sb.geometry;
        let decoded = self.with_raw(&table_block, ino, |raw| {
            if Dinode::free_generation(geometry, raw).is_some() {
                return Err(None);
            }
            Dinode::decode(geometry, raw, core.frags()).map_err(Some)
        });
        let byte = geometry.byte_of(self.sb.inode_place(ino).0) + self.sb.inode_place(ino).1 as u64;
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
            // The inode may have left memory after the last snapshot, which may not be durable yet.
            InodeState::of(&inode).set_written_in(journal.last_snapshot());
        }
        InodeState::of(&inode).set_table_block(table_block);
        Ok(core.add_inode(inode))
    }

    /// Takes a free number: for a directory in the group that its policy chooses, otherwise near
    /// the directory that will contain the name.
    pub(crate) async fn pick(&self, core: &Rc<Core>, near: Ino, file_mode: u32) -> Result<Picked> {
        let ino = self.take_number(near, file_mode & mode::TYPE == mode::DIRECTORY)?;
        // Registered before the wait: a snapshot that is taken while the block is read must not
        // show the number as in use.
        self.picked.insert(ino, None);
        let frame = match self.inode_block(core, ino).await {
            Ok(frame) => frame,
            Err(error) => {
                self.unpick_number(ino);
                return Err(error);
            }
        };
        let raw = |raw: &[u8]| Dinode::free_generation(&self.sb.geometry, raw);
        let Some(last) = self.with_raw(&frame, ino, raw) else {
            // The number stays taken in memory, but not in the maps that are written.
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
            self.dir_placement.group(&space.group_summaries(), parent, near == ROOT_INO)
        });
        space.take_inode(near, group).ok_or(FsError::NoInodes)
    }

    /// Returns a picked number unused.
    pub(crate) fn unpick_number(&self, ino: Ino) {
        if self.picked.remove(ino).is_some() {
            self.alloc_mut().free_inode(ino, false);
        }
    }

    /// From now on the picked number is in use.
    pub(crate) fn mark_inode_created(&self, core: &Core, inode: &Rc<Inode>) {
        let frame = self.picked.remove(inode.ino);
        let Some(frame) = frame.flatten() else { panic!("inode {} was not picked", inode.ino) };
        InodeState::of(inode).set_table_block(frame);
        // Blocks of the table that count as written from now on must be written.
        let is_dir = inode.d.borrow().is_dir();
        let blocks = self.alloc_mut().use_inode(&self.sb, inode.ino, is_dir);
        for first in blocks {
            let lbn = self.table_lbn(first);
            let frame = core.cache.peek(&self.tables, lbn).unwrap_or_else(|| {
                let zeros =
                    Block::Bytes(Buf::zeroed(self.sb.geometry.block_size as usize).freeze());
                core.cache.insert(&self.tables, lbn, Some(zeros))
            });
            core.cache.mark_dirty(&self.tables, &frame);
        }
    }

    /// Frees the number of an inode that has no names, users or blocks.
    pub(crate) fn free_number_of(&self, core: &Core, inode: &Rc<Inode>) {
        let (is_dir, generation) = {
            let d = inode.d.borrow();
            (d.is_dir(), d.generation)
        };
        if let Some(table_block) = InodeState::of(inode).take_table_block() {
            let mut raw = vec![0; self.sb.geometry.inode_size as usize];
            Dinode::encode_free(&self.sb.geometry, inode.ino, generation, &mut raw);
            self.put_raw(core, &table_block, inode.ino, &raw);
        }
        let mut space = self.alloc_mut();
        space.free_inode(inode.ino, is_dir);
        space.note_maps_dirty();
        drop(space);
        self.orphans.remove(inode.ino);
        self.moved.forget(inode.ino);
        self.new_maps.forget(inode.ino);
        self.write_behind.forget(inode.ino);
        core.drop_inode(inode);
    }

    fn put_raw(&self, core: &Core, table_block: &Rc<Frame>, ino: Ino, raw: &[u8]) {
        let same = self.with_raw(table_block, ino, |old| old == raw);
        if !same {
            let off = self.sb.inode_place(ino).1;
            table_block.change(|b| b.bytes_mut()[off..off + raw.len()].copy_from_slice(raw));
            core.cache.mark_dirty(&self.tables, table_block);
        }
    }

    /// Stores an inode as it is now in the block of its table.
    pub(crate) fn put_inode(&self, core: &Core, inode: &Rc<Inode>) {
        let table_block = InodeState::of(inode).table_block();
        let Some(table_block) = table_block else {
            panic!("inode {} has no table block", inode.ino)
        };
        let mut raw = vec![0; self.sb.geometry.inode_size as usize];
        inode.d.borrow().encode(&self.sb.geometry, &mut raw);
        self.put_raw(core, &table_block, inode.ino, &raw);
        if !inode.frames.has_dirty() {
            core.mark_inode_clean(inode);
        }
    }

    /// True if the content of a file is in its inode, in the block of the table.
    pub(crate) fn is_inline_on_disk(&self, core: &Core, inode: &Inode) -> bool {
        let Some(table_block) = InodeState::of(inode).table_block() else { return false };
        let geometry = &self.sb.geometry;
        let old = self
            .with_raw(&table_block, inode.ino, |raw| Dinode::decode(geometry, raw, core.frags()));
        old.is_ok_and(|old| old.is_inline() && !old.is_dir() && old.nlink > 0 && old.size > 0)
    }

    /// True if the size or a pointer of an inode differs from its block of the table. Without them,
    /// the latest content cannot be found after a crash.
    pub(crate) fn has_new_mapping(&self, core: &Core, inode: &Inode) -> bool {
        let table_block = InodeState::of(inode).table_block();
        let Some(table_block) = table_block else { return true };
        let geometry = &self.sb.geometry;
        let old = self
            .with_raw(&table_block, inode.ino, |raw| Dinode::decode(geometry, raw, core.frags()));
        let d = inode.d.borrow();
        old.map_or(true, |old| {
            (old.size, &old.ptrs, old.flags, &old.inline) != (d.size, &d.ptrs, d.flags, &d.inline)
        })
    }
}
