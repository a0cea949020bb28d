//! Thresholds: cleaning begins when clean segments are few and ends when they are not.
//!
//! Rosenblum and Ousterhout, "The Design and Implementation of a Log-Structured File System", SOSP
//! 1991, section 3.4: Sprite began at a few tens of clean segments and ended at 50 to 100. Here it
//! is relative to what writers need: begins at twice the reserve, ends at four times.

use super::{Answer, Moment, WhenPolicy};

#[derive(Default)]
pub(super) struct Threshold {
    cleans: bool,
}

impl WhenPolicy for Threshold {
    fn ask(&mut self, moment: &Moment) -> Answer {
        let low = moment.reserve_segments.max(1) * 2;
        let level = if self.cleans { low * 2 } else { low };
        self.cleans = moment.clean_segments < level;
        if self.cleans { Answer::Now } else { Answer::Wait }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::moment;
    use super::*;

    #[test]
    fn it_begins_low_and_ends_high() {
        let mut policy = Threshold::default();
        assert_eq!(policy.ask(&moment(None, 8)), Answer::Wait);
        assert_eq!(policy.ask(&moment(None, 7)), Answer::Now);
        assert_eq!(policy.ask(&moment(None, 15)), Answer::Now);
        assert_eq!(policy.ask(&moment(None, 16)), Answer::Wait);
        assert_eq!(policy.ask(&moment(None, 15)), Answer::Wait);
    }
}
