//! Shortest seek time first; the distance between addresses stands for the seek time.

use super::sweep::ByPlace;
use super::{Next, Scheduler, SchedulerInput, Waiting};

#[derive(Default)]
pub(super) struct Sstf(ByPlace);

impl Scheduler for Sstf {
    fn push(&mut self, request: Waiting) {
        self.0.push(request);
    }

    fn pop(&mut self, view: &SchedulerInput<'_>) -> Option<Next> {
        let head = view.head_at;
        let above = self.0.first((head, 0)..);
        let below = self.0.last(..(head, 0));
        let place = match (above, below) {
            (Some(up), Some(down)) if head - down.0 < up.0 - head => down,
            (Some(up), _) => up,
            (None, down) => down?,
        };
        self.0.take(place).map(Next::from)
    }

    fn len(&self) -> usize {
        self.0.len()
    }
}
