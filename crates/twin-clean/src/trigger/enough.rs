//! Enough: in idle times, as much is cleaned as the next busy time is likely to need, and no more.
//!
//! Whoever cleans later moves less, because more has died by then. So a step is worth its writes only if the
//! segment that it gains is used before the next idle time. This policy begins when Blackwell's rule
//! does, after two seconds, and stops when as many segments are clean, above those that a log keeps back, as the largest
//! of the latest busy times used; a busy time that used up all of them counts twice, because it would have
//! used more. The expectation is halved with each busy time, and is never above a sixteenth of the log: what is kept clean
//! makes the rest of the log fuller. Before the first busy time nothing is expected, and a volume with
//! room is left alone.
//!
//! The two constants were chosen in simulations of a database, a mail server and a file server
//! (docs/cleaning.md, "When to clean"): fading by a tenth, and a quarter of the log, wrote up to 1.7 times as much.

use super::{TriggerDecision, TriggerInput, TriggerPolicy};

const IDLE_NS: u64 = 2_000_000_000;
/// The factor by which the expectation changes with each busy time.
const FADES: f64 = 0.5;
/// The divisor of the log: no busy time is expected to use more than this part of it.
const MOST: f64 = 16.0;

#[derive(Default)]
pub(super) struct Enough {
    /// Clean segments when it was last asked; `None` before.
    last: Option<u32>,
    /// Segments that this busy time has used.
    used: u32,
    /// True if this busy time has come to the segments that are kept back.
    ran_out: bool,
    /// Segments that the next busy time is expected to use.
    expected: f64,
    /// True from the moment at which an idle time is long enough until it ends.
    is_idle: bool,
}

/// The clean segments that a log keeps anyhow, about.
fn kept(input: &TriggerInput) -> u32 {
    input.reserve_segments + 4 + (input.segments / 64).min(32)
}

impl Enough {
    /// Looks at what the busy time has used since the last look.
    fn look(&mut self, input: &TriggerInput) {
        let clean = input.clean_segments;
        let last = self.last.replace(clean).unwrap_or(clean);
        if !self.is_idle {
            self.used += last.saturating_sub(clean);
            self.ran_out |= clean <= kept(input);
        }
    }

    /// The busy time has ended: what the next one is expected to use.
    fn end_busy(&mut self, segments: u32) {
        let used = f64::from(std::mem::take(&mut self.used));
        let used = if std::mem::take(&mut self.ran_out) { 2.0 * used } else { used };
        self.expected = (FADES * self.expected).max(used).min(f64::from(segments) / MOST);
        self.is_idle = true;
    }
}

impl TriggerPolicy for Enough {
    fn decide(&mut self, input: &TriggerInput) -> TriggerDecision {
        self.look(input);
        let Some(since) = input.idle_since_ns else { return TriggerDecision::Wait };
        if input.now_ns < since + IDLE_NS {
            return TriggerDecision::At(since + IDLE_NS);
        }
        if !self.is_idle {
            self.end_busy(input.segments);
        }
        match f64::from(input.clean_segments) < f64::from(kept(input)) + self.expected {
            true => TriggerDecision::Now,
            false => TriggerDecision::Wait,
        }
    }

    fn idle_ended(&mut self, idle_ns: u64) {
        self.is_idle &= idle_ns < IDLE_NS;
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{SECOND, input};
    use super::*;
    use TriggerDecision::{Now, Wait};

    /// What a log of 1000 segments keeps anyhow.
    const KEPT: u32 = 23;

    fn idle(clean: u32) -> TriggerInput {
        TriggerInput { segments: 1000, ..input(Some(3 * SECOND), clean) }
    }

    fn busy(clean: u32) -> TriggerInput {
        TriggerInput { segments: 1000, ..input(Some(0), clean) }
    }

    /// A policy that has seen an idle time with this number of clean segments, which has ended.
    fn after_idle(clean: u32) -> Enough {
        let mut policy = Enough::default();
        assert_eq!(policy.decide(&idle(clean)), Wait);
        policy.idle_ended(3 * SECOND);
        policy
    }

    /// Clean segments at which it stops in the idle time that begins now.
    fn goal(policy: &mut Enough, from: u32) -> u32 {
        (from..).find(|&clean| policy.decide(&idle(clean)) == Wait).unwrap()
    }

    #[test]
    fn a_volume_with_room_is_left_alone_before_anything_is_known() {
        let mut policy = Enough::default();
        assert_eq!(policy.decide(&idle(KEPT)), Wait);
        assert_eq!(policy.decide(&idle(KEPT - 1)), Now);
    }

    #[test]
    fn it_cleans_until_as_much_is_clean_as_the_busy_time_used() {
        let mut policy = after_idle(60);
        for clean in [58, 54, 50] {
            assert_eq!(policy.decide(&busy(clean)), TriggerDecision::At(1002 * SECOND));
        }
        assert_eq!(goal(&mut policy, 40), KEPT + 20, "ten that were seen, and ten since");
    }

    #[test]
    fn a_busy_time_that_used_all_counts_twice_and_the_expectation_fades() {
        let mut policy = after_idle(KEPT + 20);
        policy.decide(&busy(KEPT));
        assert_eq!(goal(&mut policy, KEPT), KEPT + 40);
        policy.idle_ended(3 * SECOND);
        assert_eq!(goal(&mut policy, KEPT + 15), KEPT + 25, "that was used, more than half of 40");
        policy.idle_ended(3 * SECOND);
        assert_eq!(goal(&mut policy, KEPT + 5), KEPT + 20, "half of what it was, and more than 17");
    }

    #[test]
    fn the_expectation_is_a_sixteenth_of_the_log_at_most() {
        let mut policy = after_idle(900);
        policy.decide(&busy(KEPT));
        assert_eq!(goal(&mut policy, KEPT), KEPT + 63);
    }

    #[test]
    fn short_pauses_do_not_end_a_busy_time_and_what_the_cleaner_fills_is_no_use() {
        let mut policy = after_idle(60);
        policy.decide(&busy(50));
        policy.idle_ended(SECOND);
        policy.decide(&busy(45));
        assert_eq!(policy.decide(&idle(45)), Wait, "15 were used, and 45 are clean");
        policy.idle_ended(3 * SECOND);
        policy.decide(&busy(30));
        assert_eq!(policy.decide(&idle(30)), Now);
        // The cleaner fills segments before it empties any.
        assert_eq!(policy.decide(&idle(26)), Now);
        assert_eq!(goal(&mut policy, 26), KEPT + 15);
    }
}
