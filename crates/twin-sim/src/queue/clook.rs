//! C-LOOK: upwards from the position of the head; when nothing lies above, back to the lowest
//! address. Requests for one address keep their order.

use std::collections::BTreeMap;

use super::{Scheduler, SchedulerInput, Waiting};

#[derive(Default)]
pub(super) struct CLook(BTreeMap<(u64, u64), Waiting>);

impl Scheduler for CLook {
    fn push(&mut self, request: Waiting) {
        self.0.insert((request.at, request.seq), request);
    }

    fn pop(&mut self, view: &SchedulerInput<'_>) -> Option<Waiting> {
        let above = self.0.range((view.head_at, 0)..).next();
        let key = *above.or_else(|| self.0.iter().next())?.0;
        self.0.remove(&key)
    }

    fn len(&self) -> usize {
        self.0.len()
    }
}
