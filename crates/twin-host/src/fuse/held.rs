//! Answers to writes of the kernel's own, held back for a moment and sent together.
//!
//! A kernel that collects writes sends its dirty pages in a request for each run of them, in the
//! order of the file, and a caller that waits for all of them (an fsync) waits for one page after the
//! other: each answer would wake it up for one step. Answered together, from the last to the
//! first, a whole batch is one step.
//!
//! Contract: an answer is held only while more packets may be waiting to be read, and never more
//! of them than [`MOST`] or for more data than [`MOST_BYTES`]; who holds one sends all before it
//! sleeps. Bookkeeping: it neither reads nor writes.

use std::cell::{Cell, RefCell};

/// Answers held at most.
const MOST: usize = 32;
/// Data that the answers held are for, at most, in bytes.
const MOST_BYTES: u64 = 256 << 10;

#[derive(Default)]
pub(super) struct Held {
    /// Requests, and how many bytes they wrote.
    writes: RefCell<Vec<(u64, u64)>>,
    bytes: Cell<u64>,
}

impl Held {
    /// Holds the answer to this request, of which `bytes` were written. False if all that is held
    /// should be sent now.
    pub(super) fn hold(&self, unique: u64, bytes: u64) -> bool {
        let mut writes = self.writes.borrow_mut();
        writes.push((unique, bytes));
        self.bytes.set(self.bytes.get() + bytes);
        writes.len() < MOST && self.bytes.get() < MOST_BYTES
    }

    /// Takes out the answer to send next, the last first: a request, and the bytes it wrote.
    pub(super) fn next(&self) -> Option<(u64, u64)> {
        self.bytes.set(0);
        self.writes.borrow_mut().pop()
    }
}
