//! What a store was asked and has answered, by the classes in which stores charge.
//!
//! Contract: a request counts when it was answered, also if its condition did not hold or there was nothing; one without
//! an answer, or told to try again, counts as unanswered alone. Bytes are those of objects, without what the protocol
//! adds.

use std::ops::{Add, Sub};

/// Requests and bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Objects or ranges read.
    pub gets: u64,
    /// Objects written, or refused by their condition.
    pub puts: u64,
    /// Objects removed.
    pub deletes: u64,
    /// Pages of lists.
    pub lists: u64,
    /// Bytes that were read.
    pub out_bytes: u64,
    /// Bytes that were sent to be written.
    pub in_bytes: u64,
    /// Requests without an answer, or told to try again, each of which was repeated or given up.
    pub unanswered: u64,
}

impl Add for Counts {
    type Output = Counts;
    fn add(self, more: Counts) -> Counts {
        Counts {
            gets: self.gets + more.gets,
            puts: self.puts + more.puts,
            deletes: self.deletes + more.deletes,
            lists: self.lists + more.lists,
            out_bytes: self.out_bytes + more.out_bytes,
            in_bytes: self.in_bytes + more.in_bytes,
            unanswered: self.unanswered + more.unanswered,
        }
    }
}

impl Sub for Counts {
    type Output = Counts;
    /// What was added since `before`.
    fn sub(self, before: Counts) -> Counts {
        Counts {
            gets: self.gets - before.gets,
            puts: self.puts - before.puts,
            deletes: self.deletes - before.deletes,
            lists: self.lists - before.lists,
            out_bytes: self.out_bytes - before.out_bytes,
            in_bytes: self.in_bytes - before.in_bytes,
            unanswered: self.unanswered - before.unanswered,
        }
    }
}
