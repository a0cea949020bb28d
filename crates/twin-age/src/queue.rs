//! The base of the workloads of this crate: they go on by steps, each of which queues some
//! operations of one client.

use std::collections::VecDeque;

use twin_fs::{Cred, Op, Request};
use twin_rt::Nanos;
use twin_trace::{Outcome, Record};

/// Operations with their answers that are ready.
#[derive(Default)]
pub(crate) struct Queue {
    records: VecDeque<Record>,
    /// Number of operations issued so far.
    pub(crate) requests: u64,
}

impl Queue {
    /// Adds an operation and its answer, if it has one, both at this time.
    pub(crate) fn op(&mut self, at_ns: Nanos, op: Op, outcome: Option<Outcome>) {
        self.requests += 1;
        let id = self.requests;
        let request = Request { id, client: 1, cred: Cred::root(), op };
        self.records.push_back(Record::Request { at_ns, request });
        if let Some(outcome) = outcome {
            self.records.push_back(Record::Reply { at_ns, id, outcome });
        }
    }
}

/// A workload that goes on by steps.
pub(crate) trait Steps {
    /// The queue that the steps fill.
    fn queue(&mut self) -> &mut Queue;

    /// Does the next step, which may queue nothing; false at the end.
    fn step(&mut self) -> bool;

    /// The next record; `None` at the end.
    fn next_queued(&mut self) -> Option<Record> {
        loop {
            if let Some(record) = self.queue().records.pop_front() {
                return Some(record);
            }
            if !self.step() {
                return None;
            }
        }
    }
}

/// Makes a workload that has `header` and `next_queued` a [`Source`](twin_trace::Source) of one client.
macro_rules! source_by_steps {
    ($workload:ty) => {
        impl twin_trace::Source for $workload {
            fn header(&self) -> &twin_trace::Header {
                &self.header
            }

            fn next_record(
                &mut self,
            ) -> Result<Option<twin_trace::Record>, twin_trace::TraceError> {
                Ok(self.next_queued())
            }

            fn has_one_client(&self) -> bool {
                true
            }
        }
    };
}

pub(crate) use source_by_steps;
