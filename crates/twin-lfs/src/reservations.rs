//! Reservations: bytes of the log that are reserved for files, and their limit.
//!
//! Contract: a reservation is granted at once and as a whole, or refused. Live bytes count as
//! reserved ones do, so writing a block changes nothing here.

use std::cell::Cell;

use twin_fs::{FsError, Result};

/// See the module.
pub(crate) struct Reservations {
    /// Bytes reserved or live: all blocks and inodes of all files, the ifile included.
    used: Cell<u64>,
    /// The limit of `used`.
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

    /// Returns reserved space.
    pub(crate) fn release(&self, bytes: u64) {
        debug_assert!(self.used.get() >= bytes, "more space given back than was reserved");
        self.used.set(self.used.get().saturating_sub(bytes));
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

    /// Bytes that could still be reserved.
    pub(crate) fn free(&self) -> u64 {
        self.limit.get().saturating_sub(self.used.get())
    }
}
