//! LOOK: the elevator. It goes on in one direction until no request is left there, then turns.

use std::collections::BTreeMap;

use super::{Scheduler, SchedulerInput, Waiting};

#[derive(Default)]
pub(super) struct Look {
    waiting: BTreeMap<(u64, u64), Waiting>,
    down: bool,
}

impl Scheduler for Look {
    fn push(&mut self, request: Waiting) {
        self.waiting.insert((request.at, request.seq), request);
    }

    fn pop(&mut self, view: &SchedulerInput<'_>) -> Option<Waiting> {
        let above = self.waiting.range((view.head_at, 0)..).next().map(|(key, _)| *key);
        let below = self.waiting.range(..(view.head_at, 0)).next_back().map(|(key, _)| *key);
        let key = if self.down { below.or(above) } else { above.or(below) }?;
        self.down = key.0 < view.head_at;
        self.waiting.remove(&key)
    }

    fn len(&self) -> usize {
        self.waiting.len()
    }
}
