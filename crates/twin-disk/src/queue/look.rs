//! LOOK: the elevator. It goes on in one direction until no request is left there, then turns.

use super::sweep::{ByPlace, Elevator};
use super::{Next, Scheduler, SchedulerInput, Waiting};

#[derive(Default)]
pub(super) struct Look {
    waiting: ByPlace,
    arm: Elevator,
}

impl Scheduler for Look {
    fn push(&mut self, request: Waiting) {
        self.waiting.push(request);
    }

    fn pop(&mut self, view: &SchedulerInput<'_>) -> Option<Next> {
        let stop = self.arm.next(&self.waiting, view.head_at)?;
        self.waiting.take(stop.place).map(Next::from)
    }

    fn len(&self) -> usize {
        self.waiting.len()
    }
}
