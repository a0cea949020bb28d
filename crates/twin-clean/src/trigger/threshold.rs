//! Thresholds: cleaning begins when few segments are clean and ends when enough are.
//!
//! Rosenblum and Ousterhout, "The Design and Implementation of a Log-Structured File System", SOSP
//! 1991, section 3.4: Sprite began at a few tens of clean segments and ended at 50 to 100. Here the
//! limits are relative to the reserve that writers need: cleaning begins at twice the reserve and
//! ends at four times.

use super::{TriggerDecision, TriggerInput, TriggerPolicy};

#[derive(Default)]
pub(super) struct Threshold {
    cleans: bool,
}

impl TriggerPolicy for Threshold {
    fn decide(&mut self, input: &TriggerInput) -> TriggerDecision {
        let low = input.reserve_segments.max(1) * 2;
        let level = if self.cleans { low * 2 } else { low };
        self.cleans = input.clean_segments < level;
        if self.cleans { TriggerDecision::Now } else { TriggerDecision::Wait }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::input;
    use super::*;

    #[test]
    fn it_begins_low_and_ends_high() {
        let mut policy = Threshold::default();
        assert_eq!(policy.decide(&input(None, 8)), TriggerDecision::Wait);
        assert_eq!(policy.decide(&input(None, 7)), TriggerDecision::Now);
        assert_eq!(policy.decide(&input(None, 15)), TriggerDecision::Now);
        assert_eq!(policy.decide(&input(None, 16)), TriggerDecision::Wait);
        assert_eq!(policy.decide(&input(None, 15)), TriggerDecision::Wait);
    }
}
