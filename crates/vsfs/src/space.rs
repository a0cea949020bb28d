//! The data blocks: which are in use, and which are promised.
//!
//! Contract: nothing waits. An operation reserves the blocks that it may need before it makes anything
//! dirty, and is told then that the volume is full. What was reserved is always found, because `used`
//! counts the blocks of files and the reservations together.

use std::cell::{Cell, RefCell};

use twin_disk::BlockDevice;
use twin_fs::{FsError, Result, Room};

use crate::bitmap::Bitmap;
use crate::format::Superblock;

/// See the module.
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

    /// Of a new volume.
    pub(crate) fn empty(sb: &Superblock) -> Space {
        Space::new(sb, Bitmap::empty(sb, sb.data_bitmap, sb.data_blocks()))
    }

    /// Reads the data bitmap.
    ///
    /// # Errors
    /// If the device fails.
    pub(crate) async fn read(device: &dyn BlockDevice, sb: &Superblock) -> Result<Space> {
        let bitmap = Bitmap::read(device, sb, sb.data_bitmap, sb.data_blocks()).await?;
        Ok(Space::new(sb, bitmap))
    }

    /// Reserves space, all or nothing.
    pub(crate) fn reserve(&self, bytes: u64) -> Result<()> {
        if bytes > self.limit_bytes.saturating_sub(self.used_bytes.get()) {
            return Err(FsError::NoSpace);
        }
        self.used_bytes.set(self.used_bytes.get() + bytes);
        Ok(())
    }

    /// Gives reserved space back.
    pub(crate) fn unreserve(&self, bytes: u64) {
        debug_assert!(bytes <= self.used_bytes.get(), "more space given back than was reserved");
        self.used_bytes.set(self.used_bytes.get().saturating_sub(bytes));
    }

    /// Takes a block whose space was reserved, if possible behind block `previous`: files that are
    /// written in one go lie in one piece. None is found only if the bitmap was damaged.
    pub(crate) fn take(&self, previous: u64) -> Option<u64> {
        let near = (previous + 1).saturating_sub(self.first.into());
        let near = u32::try_from(near).unwrap_or(0);
        let index = self.bitmap.borrow_mut().take(near)?;
        Some(u64::from(self.first + index))
    }

    /// A block is free again, and may be used again at once: this layout promises nothing of a
    /// crash. False if it was not in use, which only damage can bring about.
    pub(crate) fn free(&self, block: u64) -> bool {
        let index = block.checked_sub(self.first.into()).and_then(|n| u32::try_from(n).ok());
        let mut bitmap = self.bitmap.borrow_mut();
        let used = index.filter(|&index| bitmap.get(index));
        used.inspect(|&index| bitmap.set(index, false)).is_some()
    }

    /// What could still be reserved, and what in all.
    pub(crate) fn room(&self) -> Room {
        let free_bytes = self.limit_bytes.saturating_sub(self.used_bytes.get());
        Room { free_bytes, limit_bytes: self.limit_bytes }
    }

    /// True if the disk has another bitmap.
    pub(crate) fn is_dirty(&self) -> bool {
        self.bitmap.borrow().is_dirty()
    }

    /// Blocks of the bitmap that the disk lacks.
    pub(crate) fn take_dirty(&self) -> Vec<(u64, Vec<u8>)> {
        self.bitmap.borrow_mut().take_dirty()
    }
}
