//! How the time of a replay is divided among its operations.
//!
//! Contract: every instant is counted once. While operations are under way, each gets an equal share of the
//! time that passes; while none is, the time belongs to nobody. So the shares of all operations and the time
//! of nobody add up to the whole.

use twin_rt::{Nanos, Time};

/// The account of a replay's time.
pub(super) struct Elapsed {
    now: Time,
    under_way: u64,
    /// What an operation that was under way from the beginning on would have got by now, in nanoseconds.
    each: f64,
    /// Time in which no operation was under way.
    idle_ns: Nanos,
}

impl Elapsed {
    /// An account that begins at this time, without operations.
    pub(super) fn new(now: Time) -> Elapsed {
        Elapsed { now, under_way: 0, each: 0.0, idle_ns: 0 }
    }

    fn advance(&mut self, now: Time) {
        let passed = now.0.saturating_sub(self.now.0);
        self.now = self.now.max(now);
        match self.under_way {
            0 => self.idle_ns += passed,
            all => self.each += passed as f64 / all as f64,
        }
    }

    /// An operation begins; its [`end`](Self::end) wants the result.
    pub(super) fn begin(&mut self, now: Time) -> f64 {
        self.advance(now);
        self.under_way += 1;
        self.each
    }

    /// An operation has ended that began with `begun`: its share in nanoseconds.
    pub(super) fn end(&mut self, now: Time, begun: f64) -> f64 {
        self.advance(now);
        self.under_way = self.under_way.saturating_sub(1);
        self.each - begun
    }

    /// The time of nobody, up to `now`.
    pub(super) fn idle_ns(&mut self, now: Time) -> Nanos {
        self.advance(now);
        self.idle_ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_at_the_same_time_share_it_and_all_adds_up() {
        let mut elapsed = Elapsed::new(Time(100));
        let first = elapsed.begin(Time(110));
        let second = elapsed.begin(Time(120));
        let shares = [elapsed.end(Time(150), first), elapsed.end(Time(160), second)];
        let alone = elapsed.begin(Time(200));
        let last = elapsed.end(Time(230), alone);
        assert_eq!((shares, last), ([25.0, 25.0], 30.0));
        assert_eq!(elapsed.idle_ns(Time(235)), 10 + 40 + 5);
    }
}
