//! Admission: which operations run, how much they may make dirty, and how long an operation that
//! finds no room waits.
//!
//! Contract: this file only counts; `layout` waits.

use std::cell::Cell;
use std::rc::Rc;

use twin_fs::AdmissionGuard;
use twin_rt::{Nanos, SECS};

/// Number of rounds of the cleaner without gain after which an operation that waits for room gets
/// ENOSPC. A round that gains less than a segment looks like one without gain.
const FRUITLESS_ROUNDS: u32 = 64;

/// The same for an operation that begins after another got ENOSPC and nothing was freed since. A
/// kernel that writes out collected data sends many at a time, and each would wait as long as all
/// before it.
const MORE_ROUNDS: u32 = 2;

/// The longest time for which an operation waits for room. Without a limit, operations that need
/// less could take what the cleaner gains again and again.
pub(crate) const LONGEST_WAIT_NS: Nanos = 10 * SECS;

/// What an operation that waits for room has seen of the cleaner's work.
#[derive(Default)]
pub(crate) struct AdmissionWait {
    /// Rounds of the cleaner and admitted operations when it last looked.
    seen: (u64, u64),
    /// The most room that it has seen.
    most: u64,
    fruitless_rounds: u32,
}

impl AdmissionWait {
    /// True if another operation got ENOSPC and nothing was freed since.
    pub(crate) fn small() -> AdmissionWait {
        AdmissionWait {
            fruitless_rounds: FRUITLESS_ROUNDS - MORE_ROUNDS,
            ..AdmissionWait::default()
        }
    }

    /// Looks again. Gives true while waiting makes sense.
    pub(crate) fn keep_waiting(&mut self, rounds: u64, begun: u64, room: u64) -> bool {
        if self.seen == (0, 0) {
            (self.seen, self.most) = ((rounds, begun), room);
        } else if begun != self.seen.1 || room > self.most {
            *self = AdmissionWait { seen: (rounds, begun), most: room, fruitless_rounds: 0 };
        } else if rounds != self.seen.0 {
            self.seen.0 = rounds;
            self.fruitless_rounds += 1;
        }
        self.fruitless_rounds < FRUITLESS_ROUNDS
    }
}

/// The operations that are admitted, and those that wait.
#[derive(Default)]
pub(crate) struct Admission {
    /// Bytes that admitted operations may still make dirty.
    bytes: twin_fs::Admission,
    /// Operations admitted so far.
    admitted: Cell<u64>,
    /// Operations that wait for clean segments.
    waiting: Rc<Cell<u32>>,
    /// Live bytes when an operation last got ENOSPC; `None` if something was freed since.
    refused_at: Cell<Option<u64>>,
}

/// An operation that waits for clean segments, until it is dropped.
pub(crate) struct WaitingGuard(Rc<Cell<u32>>);

impl Drop for WaitingGuard {
    fn drop(&mut self) {
        self.0.set(self.0.get() - 1);
    }
}

impl Admission {
    /// Admits an operation that makes up to `bytes` dirty.
    pub(crate) fn admit(&self, bytes: u64) -> AdmissionGuard {
        self.admitted.set(self.admitted.get() + 1);
        self.bytes.admit(bytes)
    }

    /// Bytes that admitted operations may still make dirty.
    pub(crate) fn admitted_bytes(&self) -> u64 {
        self.bytes.admitted_bytes()
    }

    /// Operations admitted so far.
    pub(crate) fn admitted(&self) -> u64 {
        self.admitted.get()
    }

    /// An operation begins to wait for clean segments.
    pub(crate) fn begin_waiting(&self) -> WaitingGuard {
        self.waiting.set(self.waiting.get() + 1);
        WaitingGuard(Rc::clone(&self.waiting))
    }

    /// True if operations wait for clean segments.
    pub(crate) fn any_waits(&self) -> bool {
        self.waiting.get() > 0
    }

    /// Notes that an operation got ENOSPC, and how many bytes were live then.
    pub(crate) fn note_refused(&self, live_bytes: u64) {
        self.refused_at.set(Some(live_bytes));
    }

    /// Notes that there may be room again.
    pub(crate) fn forget_refused(&self) {
        self.refused_at.set(None);
    }

    /// Live bytes when an operation last got ENOSPC.
    pub(crate) fn refused_at(&self) -> Option<u64> {
        self.refused_at.get()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waiting_ends_after_rounds_that_gain_nothing() {
        let mut admission_wait = AdmissionWait::default();
        for round in 0..u64::from(FRUITLESS_ROUNDS) {
            assert!(
                admission_wait.keep_waiting(round, 5, 100)
                    && admission_wait.keep_waiting(round, 5, 100)
            );
        }
        assert!(!admission_wait.keep_waiting(u64::from(FRUITLESS_ROUNDS), 5, 100));
    }

    #[test]
    fn room_and_operations_that_begin_make_it_wait_on() {
        let mut admission_wait = AdmissionWait::default();
        for round in 0..10 * u64::from(FRUITLESS_ROUNDS) {
            assert!(admission_wait.keep_waiting(round, round / 50, 100));
        }
        let mut admission_wait = AdmissionWait::default();
        for round in 0..10 * u64::from(FRUITLESS_ROUNDS) {
            assert!(admission_wait.keep_waiting(round, 5, 100 + round / 50));
        }
    }
}
