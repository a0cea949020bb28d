//! The order of records, and their times.
//!
//! Contract: strace writes a line when a call ends, or two halves when something else happened in between, so
//! the order of lines is the order of events: what a line says is asked and answered before the next line,
//! and times, which may be whole seconds, never go back. A call of a process begins after the answer to its
//! call before. Two things overlap what follows them: a call that makes data durable and is written in
//! halves, and one whose line is followed by lines of other processes with earlier times (as in texts of
//! `-ff` that were merged by time). So no more answers wait than there are processes.

use std::collections::VecDeque;

use twin_rt::Nanos;

use crate::record::{Outcome, Record};

/// An answer that waits for its time.
struct PendingAnswer {
    pid: u32,
    at_ns: Nanos,
    id: u64,
    outcome: Outcome,
    /// Others may be asked before it is given.
    overlaps: bool,
}

/// Records in their order.
#[derive(Default)]
pub(super) struct Order {
    ready: VecDeque<Record>,
    held: Vec<PendingAnswer>,
    latest_ns: Nanos,
    /// Times have less than a second.
    pub(super) is_fine: bool,
}

impl Order {
    /// An empty order, for times that are finer than a second or not.
    pub(super) fn new(is_fine: bool) -> Order {
        Order { is_fine, ..Order::default() }
    }

    pub(super) fn pop(&mut self) -> Option<Record> {
        self.ready.pop_front()
    }

    /// A line of a process is next, which began at this time if there are times. Gives the answers that
    /// come before it; returns its time.
    pub(super) fn begin(&mut self, pid: u32, at_ns: Option<Nanos>) -> Nanos {
        let mut at_ns = at_ns.unwrap_or(self.latest_ns).max(self.latest_ns);
        self.held.sort_by_key(|held| held.at_ns);
        for held in std::mem::take(&mut self.held) {
            let is_own = held.pid == pid;
            if self.is_fine && held.overlaps && !is_own && held.at_ns > at_ns {
                self.held.push(held);
                continue;
            }
            // Durations are finer than whole seconds, so they move what follows.
            if is_own || !self.is_fine {
                at_ns = at_ns.max(held.at_ns);
            }
            self.give(PendingAnswer { at_ns: held.at_ns.min(at_ns), ..held });
        }
        at_ns = at_ns.max(self.latest_ns);
        self.latest_ns = at_ns;
        at_ns
    }

    /// What a line made: all of it happens at its beginning but the last answer, which comes when the
    /// call has ended.
    pub(super) fn add(&mut self, pid: u32, ended_ns: Nanos, records: Vec<Record>) {
        let last = records.iter().rposition(|record| matches!(record, Record::Reply { .. }));
        let is_sync = records.iter().any(|record| match record {
            Record::Request { request, .. } => is_sync(&request.op),
            _ => false,
        });
        for (at, record) in records.into_iter().enumerate() {
            match record {
                Record::Reply { id, outcome, .. } if Some(at) == last => {
                    let at_ns = ended_ns.max(self.latest_ns);
                    self.held.push(PendingAnswer { pid, at_ns, id, outcome, overlaps: is_sync });
                }
                record => self.push(record),
            }
        }
    }

    /// The answer to a request that was made before.
    pub(super) fn answer(&mut self, pid: u32, at_ns: Nanos, id: u64) {
        let at_ns = at_ns.max(self.latest_ns);
        self.held.push(PendingAnswer { pid, at_ns, id, outcome: Outcome::Done, overlaps: false });
    }

    /// Gives all answers that wait.
    pub(super) fn finish(&mut self) {
        self.held.sort_by_key(|held| held.at_ns);
        for held in std::mem::take(&mut self.held) {
            self.give(held);
        }
    }

    fn give(&mut self, held: PendingAnswer) {
        let PendingAnswer { at_ns, id, outcome, .. } = held;
        self.push(Record::Reply { at_ns, id, outcome });
    }

    fn push(&mut self, mut record: Record) {
        if let Record::Request { at_ns, .. } | Record::Reply { at_ns, .. } = &mut record {
            *at_ns = (*at_ns).max(self.latest_ns);
            self.latest_ns = *at_ns;
        }
        self.ready.push_back(record);
    }
}

/// True for what makes data durable.
pub(super) fn is_sync(op: &twin_fs::Op) -> bool {
    matches!(op, twin_fs::Op::Fsync { .. } | twin_fs::Op::Sync)
}

#[cfg(test)]
mod tests {
    use twin_fs::{Op, Request};

    use super::*;

    fn pair(id: u64, at_ns: Nanos, op: Op) -> Vec<Record> {
        let request = Record::Request { at_ns, request: Request::root(id, op) };
        vec![request, Record::Reply { at_ns, id, outcome: Outcome::Done }]
    }

    fn all(order: &mut Order) -> Vec<(bool, u64, Nanos)> {
        order.finish();
        let of = |record| match record {
            Record::Request { at_ns, request } => (true, request.id, at_ns),
            Record::Reply { at_ns, id, .. } => (false, id, at_ns),
            Record::Node(_) => unreachable!("there are no nodes"),
        };
        std::iter::from_fn(|| order.pop()).map(of).collect()
    }

    #[test]
    fn calls_of_one_process_follow_each_other_though_times_are_whole_seconds() {
        let mut order = Order::default();
        let at = order.begin(1, Some(1000));
        order.add(1, at + 300, pair(1, at, Op::Release { ino: 3 }));
        let at = order.begin(1, Some(1000));
        order.add(1, at + 5, pair(2, at, Op::Release { ino: 4 }));
        let all = all(&mut order);
        assert_eq!(all, [(true, 1, 1000), (false, 1, 1300), (true, 2, 1300), (false, 2, 1305)]);
    }

    #[test]
    fn what_makes_data_durable_overlaps_what_others_began_before_its_end() {
        let mut order = Order { is_fine: true, ..Order::default() };
        let at = order.begin(1, Some(1000));
        order.add(1, at + 300, pair(1, at, Op::Fsync { ino: 3, data_only: false }));
        let at = order.begin(2, Some(1100));
        order.add(2, at + 5, pair(2, at, Op::Release { ino: 4 }));
        let at = order.begin(1, Some(1299));
        order.add(1, at, pair(3, at, Op::Release { ino: 3 }));
        let all = all(&mut order);
        let expected = [
            (true, 1, 1000),
            (true, 2, 1100),
            (false, 2, 1105),
            (false, 1, 1300),
            (true, 3, 1300),
            (false, 3, 1300),
        ];
        assert_eq!(all, expected);
    }

    #[test]
    fn other_answers_come_before_the_next_line_whatever_its_time() {
        let mut order = Order { is_fine: true, ..Order::default() };
        let at = order.begin(1, Some(1000));
        order.add(1, at + 300, pair(1, at, Op::Release { ino: 3 }));
        let at = order.begin(2, Some(900));
        order.add(2, at + 5, pair(2, at, Op::Release { ino: 4 }));
        let all = all(&mut order);
        assert_eq!(all, [(true, 1, 1000), (false, 1, 1000), (true, 2, 1000), (false, 2, 1005)]);
    }
}
