//! On demand: nothing is cleaned until writers need the space.

use super::{TriggerDecision, TriggerInput, TriggerPolicy};

pub(super) struct OnDemand;

impl TriggerPolicy for OnDemand {
    fn decide(&mut self, _: &TriggerInput) -> TriggerDecision {
        TriggerDecision::Wait
    }
}
