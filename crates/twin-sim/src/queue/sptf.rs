//! Shortest positioning time first (Jacobson and Wilkes 1991; Seltzer, Chen and Ousterhout 1990):
//! serves the request that the head reaches soonest, seek and rotation together. It examines every
//! waiting request, so it is meant for queues as short as a drive's.

use super::{Scheduler, SchedulerInput, Waiting};
use crate::model::Access;

#[derive(Default)]
pub(super) struct Sptf(Vec<Waiting>);

impl Scheduler for Sptf {
    fn push(&mut self, request: Waiting) {
        self.0.push(request);
    }

    fn pop(&mut self, view: &SchedulerInput<'_>) -> Option<Waiting> {
        let cost = |w: &Waiting| {
            let access = Access { kind: w.kind, at: w.at, len: w.len };
            (view.model.positioning_ns(view.now, &access), w.seq)
        };
        let best = (0..self.0.len()).min_by_key(|&i| cost(&self.0[i]))?;
        Some(self.0.swap_remove(best))
    }

    fn len(&self) -> usize {
        self.0.len()
    }
}
