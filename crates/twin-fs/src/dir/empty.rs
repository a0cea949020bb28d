//! Testing whether a directory is empty, and shrinking an empty one.

use std::rc::Rc;

use twin_cache::{Frame, Lbn};

use super::Directories;
use super::blocks::with_bytes;
use super::index_file::INDEX_FROM_BLOCKS;
use crate::Result;
use crate::inodes::Inode;

impl Directories {
    /// Loads the blocks that [`is_empty_dir`](Self::is_empty_dir) needs. The caller holds them.
    pub(crate) async fn pin_entries(&self, dir: &Inode) -> Result<Vec<Rc<Frame>>> {
        let mut pinned = Vec::new();
        if !self.core.features.indexed_directories && dir.d.borrow().is_dir() {
            for lbn in 0..self.dir_blocks(dir) {
                pinned.push(self.dir_block(dir, lbn).await?);
            }
        }
        Ok(pinned)
    }

    /// True if a directory has no entries except `.` and `..`. The caller holds the blocks of
    /// [`pin_entries`](Self::pin_entries). The function does not wait, so no other operation can
    /// add an entry between the answer and the caller's change.
    pub(crate) fn is_empty_dir(&self, dir: &Inode) -> bool {
        if self.core.features.indexed_directories {
            return dir.d.borrow().entries == 0;
        }
        (0..self.dir_blocks(dir)).all(|lbn| {
            let len = self.dir_len(dir, lbn);
            let empty = |frame: Rc<Frame>| {
                with_bytes(&frame, |bytes| self.core.features.directories.is_empty(&bytes[..len]))
            };
            // A block that is not in memory was added, for a new name, after the others were pinned.
            let frame = self.core.cache.peek(&dir.frames, lbn as Lbn).filter(|f| f.is_valid());
            frame.is_some_and(empty)
        })
    }

    /// Frees the index of a large directory that has become empty, and all its blocks except the
    /// first one.
    pub(crate) async fn shrink_empty_dir(&self, dir: &Rc<Inode>) -> Result<()> {
        let unit = self.core.geometry.dir_unit() as u64;
        let index_ino = {
            let d = dir.d.borrow();
            let wide = self.core.features.indexed_directories;
            if !wide || d.entries != 0 || d.size <= INDEX_FROM_BLOCKS * unit {
                return Ok(());
            }
            d.index_ino
        };
        if index_ino != 0 {
            let index = self.files.any_inode(index_ino).await?;
            // Clearing the number is one step with making the index an orphan in `free_hidden`.
            dir.d.borrow_mut().index_ino = 0;
            self.core.mark_inode_dirty(dir);
            self.orphans.free_hidden(&index).await?;
        }
        dir.room.borrow_mut().clear();
        self.files.set_size(dir, unit, 0, &|| Ok(())).await
    }
}
