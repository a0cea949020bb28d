//! Pacing: where room is short, writers are let in no faster than the cleaner gains room.
//!
//! Without pacing, writers run at full speed until the last clean segment is taken. Then all of
//! them wait until the cleaner has cleaned enough for a checkpoint, so that a few operations take
//! hundreds of milliseconds and all others nothing. With it, each cleaned victim grants an
//! allowance, which is smaller the less room there is, and a writer that finds none waits for the
//! next victim.
//!
//! Contract: this file only counts. It delays, by a few victims at most, operations for which there
//! is room. Admission sees to it that there is room ([`layout`](crate::layout)), and
//! [`room`](crate::room) finds out whether room is short.

use std::cell::Cell;

/// The largest number of victims for which a writer waits.
const VICTIMS_MAX: u64 = 4;

/// What writers may make dirty while room is short.
#[derive(Default)]
pub(crate) struct Pacing {
    allowance: Cell<u64>,
    /// Number of victims that were cleaned.
    victims_done: Cell<u64>,
}

impl Pacing {
    /// Notes a cleaned victim, which grants so much allowance. The allowance never exceeds `most`.
    pub(crate) fn grant(&self, bytes: u64, most: u64) {
        self.victims_done.set(self.victims_done.get() + 1);
        self.allowance.set((self.allowance.get() + bytes).min(most));
    }

    /// Takes the allowance. Gives true if the writer may continue.
    pub(crate) fn admits(&self, bytes: u64, writer: &mut PacedWriter) -> bool {
        let arrived_at = *writer.arrived_at.get_or_insert(self.victims_done.get());
        if !writer.paid
            && (self.allowance.get() >= bytes
                || self.victims_done.get() - arrived_at >= VICTIMS_MAX)
        {
            self.allowance.set(self.allowance.get().saturating_sub(bytes));
            writer.paid = true;
        }
        writer.paid
    }
}

/// A writer that may have to wait.
#[derive(Default)]
pub(crate) struct PacedWriter {
    /// Number of victims that were cleaned when it came.
    arrived_at: Option<u64>,
    paid: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_allowance_lets_in_and_is_used_up() {
        let pacing = Pacing::default();
        pacing.grant(100, 150);
        pacing.grant(100, 150);
        let (mut first, mut second) = (PacedWriter::default(), PacedWriter::default());
        assert!(pacing.admits(140, &mut first));
        assert!(!pacing.admits(20, &mut second));
        assert!(pacing.admits(10, &mut second));
        pacing.grant(30, 150);
        assert!(pacing.admits(10, &mut second), "it has paid");
        assert_eq!(pacing.allowance.get(), 30);
    }

    #[test]
    fn nobody_waits_for_more_than_a_few_victims() {
        let pacing = Pacing::default();
        let mut writer = PacedWriter::default();
        for _ in 0..VICTIMS_MAX {
            assert!(!pacing.admits(1 << 30, &mut writer));
            pacing.grant(0, 1 << 20);
        }
        assert!(pacing.admits(1 << 30, &mut writer));
    }
}
