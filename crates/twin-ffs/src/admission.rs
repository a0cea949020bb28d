//! Admission: how much operations that run may still make dirty.

use std::cell::Cell;
use std::rc::Rc;

/// Counts the bytes of all permits.
#[derive(Default)]
pub(crate) struct Admission {
    permitted: Rc<Cell<u64>>,
}

/// Held while an admitted operation runs: the bytes that it may make dirty.
pub struct Permit {
    bytes: u64,
    permitted: Rc<Cell<u64>>,
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.permitted.set(self.permitted.get() - self.bytes);
    }
}

impl Admission {
    /// Admits an operation that makes up to `bytes` dirty.
    pub(crate) fn admit(&self, bytes: u64) -> Permit {
        self.permitted.set(self.permitted.get() + bytes);
        Permit { bytes, permitted: Rc::clone(&self.permitted) }
    }

    /// Bytes that admitted operations may still make dirty.
    pub(crate) fn permitted(&self) -> u64 {
        self.permitted.get()
    }
}
