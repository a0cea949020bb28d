//! C-SCAN: upwards to the end of the disk, then back to its start, where the next sweep begins
//! (Seaman, Lind and Wilson, "On teleprocessing system design, part IV", 1966). The order is that of
//! C-LOOK; the arm's way is longer.

use super::sweep::ByPlace;
use super::{Next, Scheduler, SchedulerInput, Waiting, Way};

#[derive(Default)]
pub(super) struct CScan(ByPlace);

impl Scheduler for CScan {
    fn push(&mut self, request: Waiting) {
        self.0.push(request);
    }

    fn pop(&mut self, view: &SchedulerInput<'_>) -> Option<Next> {
        let (place, way) = match self.0.first((view.head_at, 0)..) {
            Some(above) => (above, Way::Straight),
            None => (self.0.first(..)?, Way::ByEndAndStart),
        };
        let request = self.0.take(place)?;
        Some(Next { request, way })
    }

    fn len(&self) -> usize {
        self.0.len()
    }
}
