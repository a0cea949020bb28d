//! C-LOOK: upwards from the position of the head; when nothing lies above, back to the lowest
//! address. Requests for one address keep their order.

use super::sweep::ByPlace;
use super::{Next, Scheduler, SchedulerInput, Waiting};

#[derive(Default)]
pub(super) struct CLook(ByPlace);

impl Scheduler for CLook {
    fn push(&mut self, request: Waiting) {
        self.0.push(request);
    }

    fn pop(&mut self, view: &SchedulerInput<'_>) -> Option<Next> {
        let place = self.0.first((view.head_at, 0)..).or_else(|| self.0.first(..))?;
        self.0.take(place).map(Next::from)
    }

    fn len(&self) -> usize {
        self.0.len()
    }
}
