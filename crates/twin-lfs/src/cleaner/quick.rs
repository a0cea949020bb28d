//! Whether the device is quick enough to be asked for whole segments.
//!
//! Contract: bookkeeping. Small requests, one at a time, keep a disk's arm and queue free for
//! clients, and cost a fast device most of its speed: a cleaner that falls behind makes clients
//! wait longer than its large requests would. A device that has read a segment in small steps so
//! quickly reads it whole in about a millisecond; it is asked again now and then. A clock as coarse
//! as some milliseconds tells a disk with an arm from one without, not more.

use std::cell::Cell;

use twin_rt::{MICROS, Nanos};

/// A segment read in steps within this time shows that the device is quick.
const QUICK_NS: Nanos = 2500 * MICROS;
/// Segments until it has to show that again.
const LASTS: u32 = 256;

/// What is known of the device's speed.
#[derive(Default)]
pub(super) struct Quickness(Cell<u32>);

impl Quickness {
    /// True if segments may be read whole.
    pub(super) fn is_known(&self) -> bool {
        self.0.get() > 0
    }

    /// A segment was read: in steps it took so long; `None`: whole.
    pub(super) fn read(&self, in_steps: Option<Nanos>) {
        self.0.set(match in_steps {
            Some(ns) if ns < QUICK_NS => LASTS,
            Some(_) => 0,
            None => self.0.get().saturating_sub(1),
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_quick_is_so_for_a_while() {
        let quick = Quickness::default();
        assert!(!quick.is_known(), "nothing is known yet");
        quick.read(Some(QUICK_NS));
        assert!(!quick.is_known());
        quick.read(Some(QUICK_NS - 1));
        (1..LASTS).for_each(|_| quick.read(None));
        assert!(quick.is_known());
        quick.read(None);
        assert!(!quick.is_known());
    }
}
