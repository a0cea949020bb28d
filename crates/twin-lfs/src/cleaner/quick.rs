//! Whether the device is quick enough to be asked for whole segments.
//!
//! Contract: this file only measures. Small requests, one at a time, keep the arm and the queue of
//! a disk free for clients, but they cost a fast device most of its speed, and a cleaner that falls
//! behind makes clients wait longer than its large requests would. A device that has read a segment
//! in small steps so quickly reads it whole in about a millisecond; it is asked again now and then.
//! A clock as coarse as some milliseconds tells a disk with an arm from one without, not more.

use std::cell::Cell;

use twin_rt::{MICROS, Nanos};

/// A segment read in steps within this time shows that the device is quick.
const QUICK_NS: Nanos = 2500 * MICROS;
/// Number of segments after which the device is measured again.
const LASTS: u32 = 256;

/// What is known of the device's speed.
#[derive(Default)]
pub(super) struct DeviceSpeed(Cell<u32>);

impl DeviceSpeed {
    /// True if segments may be read whole.
    pub(super) fn is_known(&self) -> bool {
        self.0.get() > 0
    }

    /// Notes the time that a segment took in steps; `None` if it was read whole.
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
        let quick = DeviceSpeed::default();
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
