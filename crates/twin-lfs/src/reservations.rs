//! Reservations: bytes of the log that are promised to files, and the most that may be.
//!
//! Contract: a reservation is granted at once or refused, whole. What is live counts like what is
//! reserved, so a block that is written takes nothing more.

use std::cell::Cell;

use twin_fs::{FsError, Result};

/// See the module.
pub(crate) struct Reservations {
    /// Bytes reserved or live: all blocks and inodes of all files, the ifile included.
    used: Cell<u64>,
    /// The most that `used` may become.
    limit: Cell<u64>,
}

impl Reservations {
    /// Nothing reserved yet.
    pub(crate) fn new(limit: u64) -> Reservations {
        Reservations { used: Cell::new(0), limit: Cell::new(limit) }
    }

    /// Reserves space: all or nothing.
    pub(crate) fn reserve(&self, bytes: u64) -> Result<()> {
        let used = self.used.get() + bytes;
        if bytes > 0 && used > self.limit.get() {
            return Err(FsError::NoSpace);
        }
        self.used.set(used);
        Ok(())
    }

    /// Gives reserved space back.
    pub(crate) fn release(&self, bytes: u64) {
        debug_assert!(self.used.get() >= bytes, "more space given back than was reserved");
        self.used.set(self.used.get().saturating_sub(bytes));
    }

    /// Says what is in use on a volume that has been opened.
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

    /// Bytes that could still be reserved.
    pub(crate) fn free(&self) -> u64 {
        self.limit.get().saturating_sub(self.used.get())
    }
}
