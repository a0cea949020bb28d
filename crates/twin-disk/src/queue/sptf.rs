//! Shortest positioning time first (Jacobson and Wilkes 1991; Seltzer, Chen and Ousterhout 1990):
//! serves the request that the head reaches soonest, seek and rotation together. It examines every
//! waiting request, so it is meant for queues as short as a drive's.

use super::{Next, Scheduler, SchedulerInput, Waiting};

#[derive(Default)]
pub(super) struct Sptf(Vec<Waiting>);

impl Scheduler for Sptf {
    fn push(&mut self, request: Waiting) {
        self.0.push(request);
    }

    fn pop(&mut self, view: &SchedulerInput<'_>) -> Option<Next> {
        let cost = |w: &Waiting| (view.device.positioning_ns(view.now, view.head_at, w), w.seq);
        let best = (0..self.0.len()).min_by_key(|&i| cost(&self.0[i]))?;
        Some(self.0.swap_remove(best).into())
    }

    fn len(&self) -> usize {
        self.0.len()
    }
}
