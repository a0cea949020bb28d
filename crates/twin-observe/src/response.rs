//! How long requests of a disk take, from their arrival to their end: the one time that a mounted device
//! says too. In a simulation a request ends when the medium, or the drive's buffer, has finished it.

use twin_rt::Time;
use twin_sim::Served;

use crate::channel::{Channel, Unit};
use crate::{Observer, Parts};

#[derive(Default)]
pub(crate) struct Responses(Vec<Channel>);

/// When a request reached its disk.
pub(crate) fn arrived(request: &Served) -> Time {
    Time(request.begun.0.saturating_sub(request.parts.queue_ns))
}

impl Observer for Responses {
    fn begin(&mut self, parts: &Parts) {
        let of = |name: &String| Channel::values("response time", name, Unit::Nanos);
        self.0 = parts.disks.iter().map(of).collect();
    }

    fn served(&mut self, disk: usize, request: &Served) {
        self.0[disk].add(request.done.since(arrived(request)));
    }

    fn channels(&mut self) -> &mut Vec<Channel> {
        &mut self.0
    }
}
