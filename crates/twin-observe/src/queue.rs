//! The length of disk queues, as a disk sees it when it begins a request: those that wait, and that one.
//!
//! Reads and writes are counted; flushes and discards do not wait in the queue. A disk of a mount begins
//! each request when it arrives: it does not say which it works on.

use twin_disk::IoKind;
use twin_sim::Served;

use crate::channel::{Channel, Unit};
use crate::{Observer, Parts};

#[derive(Default)]
pub(crate) struct Queues(Vec<Channel>);

impl Observer for Queues {
    fn begin(&mut self, parts: &Parts) {
        let of = |name: &String| Channel::values("queue length", name, Unit::Requests);
        self.0 = parts.disks.iter().map(of).collect();
    }

    fn served(&mut self, disk: usize, request: &Served) {
        if matches!(request.kind, IoKind::Read | IoKind::Write) {
            self.0[disk].add(request.waiting as u64 + 1);
        }
    }

    fn channels(&mut self) -> &mut Vec<Channel> {
        &mut self.0
    }
}
