//! On demand: nothing is cleaned before it must be.

use super::{Answer, Moment, WhenPolicy};

pub(super) struct OnDemand;

impl WhenPolicy for OnDemand {
    fn ask(&mut self, _: &Moment) -> Answer {
        Answer::Wait
    }
}
