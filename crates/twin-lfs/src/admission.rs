//! Admission: which operations run, what they may make dirty, and how long those that find no room go
//! on waiting.
//!
//! Contract: bookkeeping; `layout` waits.

use std::cell::Cell;
use std::rc::Rc;

use twin_rt::{Nanos, SECS};

/// Rounds of the cleaner that may gain nothing before an operation that waits for room is told that there is
/// none. A round that gains less than a segment looks like one that gains nothing.
const BARREN_ROUNDS: u32 = 64;

/// The same for an operation that comes when another was told so lately, and nothing was freed since:
/// many come at a time when a kernel writes out what it has collected, and each would wait for as long
/// as all before it.
const MORE_ROUNDS: u32 = 2;

/// The longest that an operation waits for room. Others who need less may take what the cleaner gains,
/// again and again.
pub(crate) const LONGEST_WAIT_NS: Nanos = 10 * SECS;

/// What an operation that waits for room has seen of the cleaner's work.
#[derive(Default)]
pub(crate) struct Patience {
    /// Rounds, and operations that began, when it last looked.
    seen: (u64, u64),
    /// The most room that there was.
    most: u64,
    barren: u32,
}

impl Patience {
    /// Of an operation that comes when there was none.
    pub(crate) fn small() -> Patience {
        Patience { barren: BARREN_ROUNDS - MORE_ROUNDS, ..Patience::default() }
    }

    /// Looks again: true while it makes sense to wait on.
    pub(crate) fn lasts(&mut self, rounds: u64, begun: u64, room: u64) -> bool {
        if self.seen == (0, 0) {
            (self.seen, self.most) = ((rounds, begun), room);
        } else if begun != self.seen.1 || room > self.most {
            *self = Patience { seen: (rounds, begun), most: room, barren: 0 };
        } else if rounds != self.seen.0 {
            self.seen.0 = rounds;
            self.barren += 1;
        }
        self.barren < BARREN_ROUNDS
    }
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

/// The operations that were admitted, and those that wait to be.
#[derive(Default)]
pub(crate) struct Admission {
    /// Bytes that admitted operations may still make dirty.
    permitted: Rc<Cell<u64>>,
    /// Operations admitted so far.
    admitted: Cell<u64>,
    /// Operations that wait for clean segments.
    waiting: Rc<Cell<u32>>,
    /// Live bytes when an operation was last told that the cleaner gains no room.
    refused_at: Cell<Option<u64>>,
}

/// An operation that waits for clean segments, until it is dropped.
pub(crate) struct Waits(Rc<Cell<u32>>);

impl Drop for Waits {
    fn drop(&mut self) {
        self.0.set(self.0.get() - 1);
    }
}

impl Admission {
    /// Admits an operation that makes up to `bytes` dirty.
    pub(crate) fn admit(&self, bytes: u64) -> Permit {
        self.admitted.set(self.admitted.get() + 1);
        self.permitted.set(self.permitted.get() + bytes);
        Permit { bytes, permitted: Rc::clone(&self.permitted) }
    }

    /// Bytes that admitted operations may still make dirty.
    pub(crate) fn permitted(&self) -> u64 {
        self.permitted.get()
    }

    /// Operations admitted so far.
    pub(crate) fn admitted(&self) -> u64 {
        self.admitted.get()
    }

    /// An operation begins to wait for clean segments.
    pub(crate) fn wait_begins(&self) -> Waits {
        self.waiting.set(self.waiting.get() + 1);
        Waits(Rc::clone(&self.waiting))
    }

    /// True if operations wait for clean segments.
    pub(crate) fn any_waits(&self) -> bool {
        self.waiting.get() > 0
    }

    /// An operation was told that the cleaner gains no room, at so many live bytes.
    pub(crate) fn note_refused(&self, live_bytes: u64) {
        self.refused_at.set(Some(live_bytes));
    }

    /// There may be room again.
    pub(crate) fn forget_refused(&self) {
        self.refused_at.set(None);
    }

    /// Live bytes when an operation was last told so.
    pub(crate) fn refused_at(&self) -> Option<u64> {
        self.refused_at.get()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waiting_ends_after_rounds_that_gain_nothing() {
        let mut patience = Patience::default();
        for round in 0..u64::from(BARREN_ROUNDS) {
            assert!(patience.lasts(round, 5, 100) && patience.lasts(round, 5, 100));
        }
        assert!(!patience.lasts(u64::from(BARREN_ROUNDS), 5, 100));
    }

    #[test]
    fn room_and_operations_that_begin_make_it_wait_on() {
        let mut patience = Patience::default();
        for round in 0..10 * u64::from(BARREN_ROUNDS) {
            assert!(patience.lasts(round, round / 50, 100));
        }
        let mut patience = Patience::default();
        for round in 0..10 * u64::from(BARREN_ROUNDS) {
            assert!(patience.lasts(round, 5, 100 + round / 50));
        }
    }
}
