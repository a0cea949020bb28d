//! Reservations: how many bytes of the log files may still take, so that write-back never finds a full
//! volume.
//!
//! The life of a reservation:
//!
//! 1. An operation calls [`reserve`](Reservations::reserve) for all that it may make dirty: new blocks,
//!    their indirect blocks, an inode. It gets all or nothing, and may still refuse with `ENOSPC`,
//!    because nothing has changed yet.
//! 2. The operation changes blocks in memory. A block that gets a place counts as before: bytes that
//!    are reserved and bytes that are live are one sum here, so a log write changes nothing, and
//!    neither does the cleaner.
//! 3. What the operation reserved and did not need, it gives back with
//!    [`release`](Reservations::release).
//! 4. When a block leaves its file, `free_block` releases its bytes, at once: the old copy on the
//!    device stays readable until a checkpoint, but that is the cleaner's room, not a file's.
//!
//! Only an opening volume calls [`set_used`](Reservations::set_used), with the live bytes that the usage
//! table of the device has, and [`set_limit`](Reservations::set_limit), when it is known how many
//! streams fill segments. A table that was damaged may have too few live bytes. Then a release finds
//! less than it gives back, and the volume must stop: with a sum that is too small it would promise
//! space that the log does not have, and write-back would fail with data that was acknowledged.
//!
//! On a volume with snapshots, garbage in [pinned](crate::segment_usage) segments cannot be had. It is not a part of
//! `used`, because it comes and goes with the live bytes of its segments; whoever asks says how much it is.
//!
//! Contract: nothing waits. Whether the log has *room now* is another question, which
//! [`admission`](crate::admission) and [`room`](crate::room) answer.

use std::cell::Cell;

use twin_fs::{FsError, Result};

const RELEASED_TOO_MUCH: &str = "more space was given back than files had: check the volume";

/// Bytes that are reserved or live, and their limit. See the module.
pub(crate) struct Reservations {
    /// Bytes reserved or live: all blocks and inodes of all files, the ifile included.
    used: Cell<u64>,
    /// The limit of `used`.
    limit: Cell<u64>,
}

impl Reservations {
    pub(crate) fn new(limit: u64) -> Reservations {
        Reservations { used: Cell::new(0), limit: Cell::new(limit) }
    }

    /// Reserves space: all or nothing. Snapshots hold `held` bytes besides, which nobody can have.
    pub(crate) fn reserve(&self, bytes: u64, held: u64) -> Result<()> {
        let used = self.used.get() + bytes;
        if bytes > 0 && used + held > self.limit.get() {
            return Err(FsError::NoSpace);
        }
        self.used.set(used);
        Ok(())
    }

    /// Returns reserved space.
    ///
    /// # Errors
    /// If more comes back than was in use; see the module.
    pub(crate) fn release(&self, bytes: u64) -> Result<()> {
        let used = self.used.get().checked_sub(bytes);
        let used = used.ok_or_else(|| FsError::inconsistent(RELEASED_TOO_MUCH))?;
        self.used.set(used);
        Ok(())
    }

    /// Sets what is in use on a volume that was opened.
    pub(crate) fn set_used(&self, bytes: u64) {
        self.used.set(bytes);
    }

    pub(crate) fn used(&self) -> u64 {
        self.used.get()
    }

    pub(crate) fn set_limit(&self, bytes: u64) {
        self.limit.set(bytes);
    }

    pub(crate) fn limit(&self) -> u64 {
        self.limit.get()
    }

    /// Bytes that could still be reserved, while snapshots hold `held` bytes besides.
    pub(crate) fn free(&self, held: u64) -> u64 {
        self.limit.get().saturating_sub(self.used.get() + held)
    }
}
