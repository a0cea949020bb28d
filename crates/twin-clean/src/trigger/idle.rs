//! Idle: two seconds without user requests predict a longer idle time.
//!
//! Blackwell, Harris and Seltzer, "Heuristic Cleaning Algorithms in Log-Structured File Systems",
//! USENIX 1995, section 5.1: an idle time of two seconds was longer than four in 95% of cases.

use super::{TriggerDecision, TriggerInput, TriggerPolicy};

const IDLE_NS: u64 = 2_000_000_000;

pub(super) struct Idle;

impl TriggerPolicy for Idle {
    fn decide(&mut self, input: &TriggerInput) -> TriggerDecision {
        match input.idle_since_ns {
            Some(since) if input.now_ns >= since + IDLE_NS => TriggerDecision::Now,
            Some(since) => TriggerDecision::At(since + IDLE_NS),
            None => TriggerDecision::Wait,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{SECOND, input};
    use super::*;

    #[test]
    fn it_waits_two_seconds_and_then_cleans() {
        assert_eq!(Idle.decide(&input(Some(SECOND), 50)), TriggerDecision::At(1001 * SECOND));
        assert_eq!(Idle.decide(&input(Some(2 * SECOND), 50)), TriggerDecision::Now);
    }
}
