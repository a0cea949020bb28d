//! FSCAN: a sweep serves only what waited when it began; what arrives meanwhile waits for the next
//! sweep (Coffman, Klimko and Ryan, "Analysis of scanning policies for reducing disk seek times",
//! 1972). So no stream of requests in front of the arm keeps it from the others.

use super::sweep::{ByPlace, Elevator};
use super::{Next, Scheduler, SchedulerInput, Waiting};

#[derive(Default)]
pub(super) struct FScan {
    /// Requests of the sweep under way.
    swept: ByPlace,
    /// Requests of the next one.
    arriving: ByPlace,
    arm: Elevator,
}

impl Scheduler for FScan {
    fn push(&mut self, request: Waiting) {
        self.arriving.push(request);
    }

    fn pop(&mut self, view: &SchedulerInput<'_>) -> Option<Next> {
        if self.swept.is_empty() {
            std::mem::swap(&mut self.swept, &mut self.arriving);
        }
        let stop = self.arm.next(&self.swept, view.head_at)?;
        self.swept.take(stop.place).map(Next::from)
    }

    fn len(&self) -> usize {
        self.swept.len() + self.arriving.len()
    }
}
