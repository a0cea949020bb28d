//! Admission: how much operations under way may still make dirty.
//!
//! Contract: a layout admits an operation before it changes anything, and keeps room for the sum of
//! all admitted bytes. The operation holds its guard until it has ended; the bytes that it did make
//! dirty are counted twice until then, never less than once.

use std::cell::Cell;
use std::rc::Rc;

/// The sum of the bytes of all admitted operations.
#[derive(Default)]
pub struct Admission(Rc<Cell<u64>>);

/// Held by an admitted operation while it runs, for the bytes that it may make dirty.
pub struct AdmissionGuard {
    bytes: u64,
    admitted_bytes: Rc<Cell<u64>>,
}

impl Admission {
    /// Admits an operation that makes up to `bytes` dirty.
    pub fn admit(&self, bytes: u64) -> AdmissionGuard {
        self.0.set(self.0.get() + bytes);
        AdmissionGuard { bytes, admitted_bytes: Rc::clone(&self.0) }
    }

    /// The bytes that admitted operations may still make dirty.
    pub fn admitted_bytes(&self) -> u64 {
        self.0.get()
    }
}

impl Drop for AdmissionGuard {
    fn drop(&mut self) {
        let admitted = self.admitted_bytes.get();
        // A sum that wraps would stop every later operation, or none.
        assert!(admitted >= self.bytes, "{} of {admitted} admitted bytes are returned", self.bytes);
        self.admitted_bytes.set(admitted - self.bytes);
    }
}
