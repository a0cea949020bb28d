//! Answers to the kernel's own writes, which are held for a moment and sent together.
//!
//! A kernel that collects writes sends one request for each run of its dirty pages, in the order of
//! the file. A caller that waits for all of them (an fsync) waits for one page after the other, so
//! that each answer would wake it for one step. If a batch is answered together, from the last
//! request to the first, the caller wakes once.
//!
//! Contract: an answer is held only while more packets may be waiting to be read. At most [`MOST`]
//! answers are held, for at most [`MOST_BYTES`] of data. The session sends all of them before it
//! sleeps. This module only keeps the list; it neither reads nor writes.

use std::cell::{Cell, RefCell};

/// The most answers that are held.
const MOST: usize = 32;
/// The most bytes of written data that the held answers stand for.
const MOST_BYTES: u64 = 256 << 10;

#[derive(Default)]
pub(super) struct ReplyBatch {
    /// Requests, and how many bytes they wrote.
    writes: RefCell<Vec<(u64, u64)>>,
    bytes: Cell<u64>,
}

impl ReplyBatch {
    /// Holds the answer to this request, which wrote `bytes`. Returns false if all held answers
    /// should be sent now.
    pub(super) fn hold(&self, unique: u64, bytes: u64) -> bool {
        let mut writes = self.writes.borrow_mut();
        writes.push((unique, bytes));
        self.bytes.set(self.bytes.get() + bytes);
        writes.len() < MOST && self.bytes.get() < MOST_BYTES
    }

    /// Removes the answer to send next, beginning with the last: the request, and the bytes that it
    /// wrote.
    pub(super) fn next(&self) -> Option<(u64, u64)> {
        self.bytes.set(0);
        self.writes.borrow_mut().pop()
    }
}
