//! Two seconds: a device that users have left alone for so long is left alone longer.
//!
//! Blackwell, Harris and Seltzer, "Heuristic Cleaning Algorithms in Log-Structured File Systems",
//! USENIX 1995, section 5.1: an idle time of two seconds was longer than four in 95% of cases.

use super::{Answer, Moment, WhenPolicy};

const IDLE_NS: u64 = 2_000_000_000;

pub(super) struct Idle;

impl WhenPolicy for Idle {
    fn ask(&mut self, moment: &Moment) -> Answer {
        match moment.idle_since_ns {
            Some(since) if moment.now_ns >= since + IDLE_NS => Answer::Now,
            Some(since) => Answer::At(since + IDLE_NS),
            None => Answer::Wait,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{SECOND, moment};
    use super::*;

    #[test]
    fn it_waits_two_seconds_and_then_cleans() {
        assert_eq!(Idle.ask(&moment(Some(SECOND), 50)), Answer::At(1001 * SECOND));
        assert_eq!(Idle.ask(&moment(Some(2 * SECOND), 50)), Answer::Now);
    }
}
