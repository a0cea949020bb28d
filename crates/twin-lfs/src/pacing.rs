//! Pacing: where room is short, writers are let in no faster than the cleaner gains room.
//!
//! Without it, writers go at full speed until the last clean segment is taken, and then all wait
//! until the cleaner has gathered enough for a checkpoint: hundreds of milliseconds for whoever
//! comes then, nothing for all others. Here each victim that is done gives credit, less the less
//! room there is, and a writer who finds none waits for the next victim.
//!
//! Contract: bookkeeping. It only delays, by a few victims at the most, what has room; that there
//! is room is for admission to see to ([`layout`](crate::layout)).

use std::cell::Cell;

use twin_fs::Core;

use crate::lfs::Lfs;
use crate::sizing;

/// Victims that a writer waits for at the most.
const TURNS: u64 = 4;

/// What writers may make dirty while room is short.
#[derive(Default)]
pub(crate) struct Pacing {
    credit: Cell<u64>,
    /// Victims that were done.
    turns: Cell<u64>,
}

impl Pacing {
    /// A victim is done that gives so much credit; there is never more than `most` credit.
    pub(crate) fn gained(&self, bytes: u64, most: u64) {
        self.turns.set(self.turns.get() + 1);
        self.credit.set((self.credit.get() + bytes).min(most));
    }

    /// True if a writer may go on, who takes the credit.
    fn admits(&self, bytes: u64, turn: &mut Turn) -> bool {
        let came = *turn.came.get_or_insert(self.turns.get());
        if !turn.paid && (self.credit.get() >= bytes || self.turns.get() - came >= TURNS) {
            self.credit.set(self.credit.get().saturating_sub(bytes));
            turn.paid = true;
        }
        turn.paid
    }
}

/// A writer who may have to keep pace.
#[derive(Default)]
pub(crate) struct Turn {
    /// Turns that had been when it came.
    came: Option<u64>,
    paid: bool,
}

impl Lfs {
    /// Bytes that the log could still take if all that is dirty, or admitted, were written.
    pub(crate) fn room_left(&self, core: &Core) -> u64 {
        self.usage.log_room().saturating_sub(self.log_debt(core) + self.admission.permitted())
    }

    /// Bytes that no writer gets: the cleaner must be able to move a victim, with all its parents,
    /// in any case; and each stream may leave a segment that is not full.
    pub(crate) fn kept_back(&self) -> u64 {
        (4 + self.more_streams()) * u64::from(self.sb.segment_size)
    }

    /// With less room left than this, writers keep pace with the cleaner.
    fn short_below(&self) -> u64 {
        let ahead = u64::from(self.low_water() - sizing::reserve_segments(&self.sb));
        self.kept_back() + ahead * u64::from(self.sb.segment_size) / 2
    }

    /// True if room is short: the cleaner hurries, and writers keep pace with it.
    pub(crate) fn is_short(&self, core: &Core) -> bool {
        self.room_left(core) < self.short_below()
    }

    /// True if room is so short that writers may soon not get any until the next checkpoint.
    pub(crate) fn is_nearly_out(&self, core: &Core) -> bool {
        self.room_left(core) < (2 * self.kept_back() + self.short_below()) / 3
    }

    /// True if a writer may go on, as far as pace goes. Where the cleaner does not work there is no
    /// pace to keep: on a full volume it may have nothing to gain.
    pub(crate) fn keeps_pace(&self, core: &Core, bytes: u64, turn: &mut Turn) -> bool {
        !self.is_short(core) || !self.cleaner.is_at_work() || self.pacing.admits(bytes, turn)
    }

    /// Victims with so much garbage are done: writers may go on with as much of it as there is
    /// room, twice all of it at the most.
    pub(crate) fn give_credit(&self, core: &Core, garbage: u64) {
        let segment = u64::from(self.sb.segment_size);
        // What is empty waits for a checkpoint only.
        let room = self.room_left(core) + u64::from(self.empty_count()) * segment;
        let over = room.saturating_sub(self.kept_back());
        let whole = self.short_below() - self.kept_back();
        let credit = garbage as f64 * 2.0 * (over as f64 / whole as f64).min(1.0);
        self.pacing.gained(credit as u64, segment);
        self.space.notify();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credit_lets_in_and_is_used_up() {
        let pacing = Pacing::default();
        pacing.gained(100, 150);
        pacing.gained(100, 150);
        let (mut first, mut second) = (Turn::default(), Turn::default());
        assert!(pacing.admits(140, &mut first));
        assert!(!pacing.admits(20, &mut second));
        assert!(pacing.admits(10, &mut second));
        pacing.gained(30, 150);
        assert!(pacing.admits(10, &mut second), "it has paid");
        assert_eq!(pacing.credit.get(), 30);
    }

    #[test]
    fn nobody_waits_for_more_than_a_few_victims() {
        let pacing = Pacing::default();
        let mut turn = Turn::default();
        for _ in 0..TURNS {
            assert!(!pacing.admits(1 << 30, &mut turn));
            pacing.gained(0, 1 << 20);
        }
        assert!(pacing.admits(1 << 30, &mut turn));
    }
}
