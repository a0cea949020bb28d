//! The data blocks: the ones in use, and the reserved ones.
//!
//! Contract: nothing waits. An operation reserves the blocks that it may need before it makes
//! anything dirty, and fails then if the volume is full. A reserved block is always found, because
//! `used` counts the blocks of files and the reservations together.

use std::cell::{Cell, RefCell};

use twin_disk::BlockDevice;
use twin_fs::{FsError, Result, Room};

use crate::bitmap::Bitmap;
use crate::format::Superblock;

const RELEASED_TOO_MUCH: &str = "more space was given back than files had: check the volume";

/// The space of a volume. See the module.
pub(crate) struct Space {
    bitmap: RefCell<Bitmap>,
    /// Bytes of blocks that files have or that are reserved.
    used_bytes: Cell<u64>,
    limit_bytes: u64,
    /// The first data block.
    first: u32,
}

impl Space {
    fn new(sb: &Superblock, bitmap: Bitmap) -> Space {
        let bytes = |blocks: u32| sb.byte_of(blocks.into());
        Space {
            used_bytes: Cell::new(bytes(bitmap.used())),
            limit_bytes: bytes(sb.data_blocks()),
            first: sb.data,
            bitmap: RefCell::new(bitmap),
        }
    }

    /// The space of a new volume.
    pub(crate) fn empty(sb: &Superblock) -> Space {
        Space::new(sb, Bitmap::empty(sb, sb.data_bitmap, sb.data_blocks()))
    }

    /// Reads the data bitmap.
    pub(crate) async fn read(device: &dyn BlockDevice, sb: &Superblock) -> Result<Space> {
        let bitmap = Bitmap::read(device, sb, sb.data_bitmap, sb.data_blocks()).await?;
        Ok(Space::new(sb, bitmap))
    }

    /// Reserves space, or fails and reserves nothing.
    pub(crate) fn reserve(&self, bytes: u64) -> Result<()> {
        if bytes > self.limit_bytes.saturating_sub(self.used_bytes.get()) {
            return Err(FsError::NoSpace);
        }
        self.used_bytes.set(self.used_bytes.get() + bytes);
        Ok(())
    }

    /// Releases reserved space.
    ///
    /// # Errors
    /// If more comes back than was in use, because the bitmap of a damaged volume shows less.
    pub(crate) fn release(&self, bytes: u64) -> Result<()> {
        let used = self.used_bytes.get().checked_sub(bytes);
        let used = used.ok_or_else(|| FsError::inconsistent(RELEASED_TOO_MUCH))?;
        self.used_bytes.set(used);
        Ok(())
    }

    /// Takes a block whose space was reserved, if possible behind block `previous`, so that a file
    /// that is written in one go is contiguous. It fails only if the bitmap was damaged.
    pub(crate) fn take(&self, previous: u64) -> Option<u64> {
        let near = (previous + 1).saturating_sub(self.first.into());
        let near = u32::try_from(near).unwrap_or(0);
        let index = self.bitmap.borrow_mut().take(near)?;
        Some(u64::from(self.first + index))
    }

    /// Frees a block, which may be reused at once, because this layout promises nothing about a
    /// crash. Returns false if it was not in use, which is a sign of damage.
    pub(crate) fn free(&self, block: u64) -> bool {
        let index = block.checked_sub(self.first.into()).and_then(|n| u32::try_from(n).ok());
        let mut bitmap = self.bitmap.borrow_mut();
        let used = index.filter(|&index| bitmap.get(index));
        used.inspect(|&index| bitmap.set(index, false)).is_some()
    }

    /// The bytes that can still be reserved, and those that can be reserved in all.
    pub(crate) fn room(&self) -> Room {
        let free_bytes = self.limit_bytes.saturating_sub(self.used_bytes.get());
        Room { free_bytes, limit_bytes: self.limit_bytes }
    }

    /// The share of blocks in use in each of equal ranges, of which there are a thousand at most.
    pub(crate) fn used_by_range(&self) -> Vec<f64> {
        const MOST: u32 = 1000;
        let bitmap = self.bitmap.borrow();
        let len = bitmap.len().div_ceil(MOST).max(1);
        let used = |range: u32| {
            let blocks = range * len..bitmap.len().min((range + 1) * len);
            let all = blocks.len().max(1) as f64;
            blocks.filter(|&block| bitmap.get(block)).count() as f64 / all
        };
        (0..bitmap.len().div_ceil(len)).map(used).collect()
    }

    /// True if the disk has an older bitmap.
    pub(crate) fn is_dirty(&self) -> bool {
        self.bitmap.borrow().is_dirty()
    }

    /// Blocks of the bitmap that differ from those on the disk.
    pub(crate) fn take_dirty(&self) -> Vec<(u64, Vec<u8>)> {
        self.bitmap.borrow_mut().take_dirty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_of_a_request_is_reserved_or_nothing() {
        let sb = Superblock::plan([7; 16], 64 * 4096, 4096, 80).unwrap();
        let space = Space::empty(&sb);
        let all = u64::from(sb.data_blocks()) * 4096;
        assert_eq!(space.reserve(all + 1), Err(FsError::NoSpace));
        assert_eq!(space.room(), Room { free_bytes: all, limit_bytes: all });
        space.reserve(all).unwrap();
        assert_eq!((space.reserve(1), space.room().free_bytes), (Err(FsError::NoSpace), 0));
        space.release(4096).unwrap();
        assert_eq!(space.room().free_bytes, 4096);
        assert!(space.release(all).is_err(), "more than was in use");
    }

    #[test]
    fn a_file_that_is_written_in_one_go_is_contiguous() {
        let sb = Superblock::plan([7; 16], 64 * 4096, 4096, 80).unwrap();
        let space = Space::empty(&sb);
        let first = space.take(0).unwrap();
        assert_eq!([space.take(first), space.take(first + 1)], [Some(first + 1), Some(first + 2)]);
        assert!(space.free(first + 1) && !space.free(first + 1));
        assert_eq!(space.take(first), Some(first + 1));
    }
}
