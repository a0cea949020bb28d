//! The blocks of a directory in memory.

use std::rc::Rc;

use twin_cache::{Frame, Lbn};
use twin_disk::{Block, Buf, Origin};

use super::Directories;
use crate::inodes::Inode;
use crate::{FsError, Ino, Result};

impl Directories {
    /// The inode with this number, which must be a directory.
    pub(crate) async fn directory(&self, ino: Ino) -> Result<Rc<Inode>> {
        let inode = self.files.inode(ino).await?;
        let is_dir = inode.d.borrow().is_dir();
        if is_dir { Ok(inode) } else { Err(FsError::NotDirectory) }
    }

    /// A block of a directory. A block that was read from the device for this call is checked.
    pub(crate) async fn dir_block(&self, dir: &Inode, lbn: u64) -> Result<Rc<Frame>> {
        let fresh = self.core.cache.peek(&dir.frames, lbn as Lbn).is_none();
        let frame = self.core.block(dir, lbn as Lbn, Origin::User).await?;
        let frame = frame.ok_or_else(|| {
            FsError::inconsistent(format!("directory {} has a hole at block {lbn}", dir.ino))
        })?;
        if fresh {
            self.check_dir_block(dir, &frame).inspect_err(|_| {
                // A bad block must not stay in memory, where the next caller would take it for
                // checked.
                self.core.cache.remove(&dir.frames, lbn as Lbn);
            })?;
        }
        Ok(frame)
    }

    fn check_dir_block(&self, dir: &Inode, frame: &Frame) -> Result<()> {
        let lbn = frame.lbn() as u64;
        let first = (lbn == 0).then_some(dir.ino);
        let len = self.dir_len(dir, lbn);
        let checked = with_bytes(frame, |bytes| {
            self.core.features.directories.validate(&bytes[..len], first)
        });
        checked
            .map_err(|e| FsError::inconsistent(format!("directory {}, block {lbn}: {e}", dir.ino)))
    }

    /// The length of the largest entry that can be added to a block, which is checked before if it was not yet: the cleaner
    /// brings blocks into memory, too, and in formats without checksums they may be damaged.
    pub(super) fn dir_room(&self, dir: &Inode, frame: &Frame) -> Result<usize> {
        let len = self.dir_len(dir, frame.lbn() as u64);
        let look = || with_bytes(frame, |bytes| self.core.features.directories.room(&bytes[..len]));
        if let Some(room) = noted_room(frame, len) {
            debug_assert_eq!(room, look(), "directory {}, block {}", dir.ino, frame.lbn());
            return Ok(room);
        }
        self.check_dir_block(dir, frame)?;
        let room = look();
        note_room(frame, len, room);
        Ok(room)
    }

    /// The number of bytes of a block that are part of the directory.
    pub(crate) fn dir_len(&self, dir: &Inode, lbn: u64) -> usize {
        let block = u64::from(self.core.geometry.block_size);
        (dir.d.borrow().size.saturating_sub(lbn * block)).min(block) as usize
    }

    pub(crate) fn dir_blocks(&self, dir: &Inode) -> u64 {
        self.core.geometry.blocks_for(dir.d.borrow().size)
    }

    /// The contents of a new block of a directory, without entries.
    pub(super) fn empty_dir_block(&self) -> Block {
        let mut buf = Buf::zeroed(self.core.geometry.block_size as usize);
        let unit = self.core.geometry.dir_unit();
        self.core.features.directories.init(&mut buf[..unit]);
        Block::Bytes(buf.freeze())
    }
}

/// The room in the first `len` bytes of a block that was checked, if it is known since the block last changed. It is in
/// the frame's note, one more than it is, with the length for which it holds.
pub(super) fn noted_room(frame: &Frame, len: usize) -> Option<usize> {
    let (for_len, room) = (frame.note() >> 32, frame.note() as u32);
    (for_len == len as u64).then_some(room.checked_sub(1)? as usize)
}

/// Keeps the room in the first `len` bytes of a block that was checked.
pub(super) fn note_room(frame: &Frame, len: usize, room: usize) {
    frame.set_note((len as u64) << 32 | (room as u64 + 1));
}

/// Calls `f` with the bytes of a frame.
pub(crate) fn with_bytes<T>(frame: &Frame, f: impl FnOnce(&[u8]) -> T) -> T {
    frame.with(|block| match block {
        Block::Bytes(bytes) => f(bytes),
        other => f(&other.to_bytes()),
    })
}
