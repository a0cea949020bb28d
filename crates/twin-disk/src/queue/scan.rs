//! SCAN: the elevator that goes to the end of the disk before it turns (Denning, "Effects of
//! scheduling on file memory operations", 1967). The order of waiting requests is that of LOOK; what
//! differs is the way of the arm, and with it the time.

use super::sweep::{ByPlace, Elevator};
use super::{Next, Scheduler, SchedulerInput, Waiting, Way};

#[derive(Default)]
pub(super) struct Scan {
    waiting: ByPlace,
    arm: Elevator,
}

impl Scheduler for Scan {
    fn push(&mut self, request: Waiting) {
        self.waiting.push(request);
    }

    fn pop(&mut self, view: &SchedulerInput<'_>) -> Option<Next> {
        let stop = self.arm.next(&self.waiting, view.head_at)?;
        let way = match (stop.turns, self.arm.goes_down()) {
            (false, _) => Way::Straight,
            (true, true) => Way::ByTheEnd,
            (true, false) => Way::ByTheStart,
        };
        let request = self.waiting.take(stop.place)?;
        Some(Next { request, way })
    }

    fn len(&self) -> usize {
        self.waiting.len()
    }
}
