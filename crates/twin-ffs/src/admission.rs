//! Admission: bounds how much running operations may still make dirty.

use std::cell::Cell;
use std::rc::Rc;

/// The sum of the bytes of all admissions.
#[derive(Default)]
pub(crate) struct Admission {
    admitted_bytes: Rc<Cell<u64>>,
}

/// Held while an admitted operation runs, for the bytes that it may make dirty.
pub struct AdmissionGuard {
    bytes: u64,
    admitted_bytes: Rc<Cell<u64>>,
}

impl Drop for AdmissionGuard {
    fn drop(&mut self) {
        self.admitted_bytes.set(self.admitted_bytes.get() - self.bytes);
    }
}

impl Admission {
    /// Admits an operation that makes up to `bytes` dirty.
    pub(crate) fn admit(&self, bytes: u64) -> AdmissionGuard {
        self.admitted_bytes.set(self.admitted_bytes.get() + bytes);
        AdmissionGuard { bytes, admitted_bytes: Rc::clone(&self.admitted_bytes) }
    }

    /// The bytes that admitted operations may still make dirty.
    pub(crate) fn admitted_bytes(&self) -> u64 {
        self.admitted_bytes.get()
    }
}
