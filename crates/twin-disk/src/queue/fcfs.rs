//! First come, first served.

use std::collections::VecDeque;

use super::{Next, Scheduler, SchedulerInput, Waiting};

#[derive(Default)]
pub(super) struct Fcfs(VecDeque<Waiting>);

impl Scheduler for Fcfs {
    fn push(&mut self, request: Waiting) {
        self.0.push_back(request);
    }

    fn pop(&mut self, _view: &SchedulerInput<'_>) -> Option<Next> {
        self.0.pop_front().map(Next::from)
    }

    fn len(&self) -> usize {
        self.0.len()
    }
}
