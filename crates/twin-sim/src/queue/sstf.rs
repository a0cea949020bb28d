//! Shortest seek time first; the distance between addresses stands for the seek time.

use std::collections::BTreeMap;

use super::{Scheduler, SchedulerInput, Waiting};

#[derive(Default)]
pub(super) struct Sstf(BTreeMap<(u64, u64), Waiting>);

impl Scheduler for Sstf {
    fn push(&mut self, request: Waiting) {
        self.0.insert((request.at, request.seq), request);
    }

    fn pop(&mut self, view: &SchedulerInput<'_>) -> Option<Waiting> {
        let head = view.head_at;
        let above = self.0.range((head, 0)..).next().map(|(key, _)| *key);
        let below = self.0.range(..(head, 0)).next_back().map(|(key, _)| *key);
        let key = match (above, below) {
            (Some(up), Some(down)) if head - down.0 < up.0 - head => down,
            (Some(up), _) => up,
            (None, down) => down?,
        };
        self.0.remove(&key)
    }

    fn len(&self) -> usize {
        self.0.len()
    }
}
