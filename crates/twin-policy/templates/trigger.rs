//! A policy on the moment of cleaning: as soon as the device has been idle for a second, while less than half of the
//! log is clean.

mod twinfs;

use twinfs::trigger::{TriggerInput, Trigger, When};

crate::export!(trigger, "NAME", "idle for a second, and less than half is clean", AfterASecond);

const SECOND: u64 = 1_000_000_000;

struct AfterASecond;

impl Trigger for AfterASecond {
    fn new() -> Self {
        AfterASecond
    }

    fn decide(&mut self, input: &TriggerInput) -> When {
        if input.idle_since_ns == u64::MAX || input.clean_segments >= input.segments / 2 {
            return When::Wait;
        }
        match input.idle_since_ns.saturating_add(SECOND) {
            due if due <= input.now_ns => When::Now,
            due => When::At(due),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_busy_device_is_left_alone_and_an_idle_one_is_used_after_a_second() {
        let input = |idle_since_ns| TriggerInput {
            now_ns: 5 * SECOND,
            idle_since_ns,
            clean_segments: 1,
            segments: 10,
            reserve_segments: 1,
            step_ns: SECOND,
        };
        let mut policy = AfterASecond::new();
        assert_eq!(policy.decide(&input(u64::MAX)), When::Wait);
        assert_eq!(policy.decide(&input(3 * SECOND)), When::Now);
        assert_eq!(policy.decide(&input(9 * SECOND / 2)), When::At(11 * SECOND / 2));
    }
}
