//! Idle periods of disks: from the end of the last request to the arrival of the next. The cleaner and
//! read-ahead of the host make requests too; a drive's own read-ahead and late writing are none.

use twin_rt::Time;
use twin_sim::Served;

use crate::channel::{Channel, Unit};
use crate::response::arrived;
use crate::{Observer, Parts};

#[derive(Default)]
pub(crate) struct Idle {
    channels: Vec<Channel>,
    /// When each disk has done all that it has begun.
    done: Vec<Option<Time>>,
}

impl Observer for Idle {
    fn begin(&mut self, parts: &Parts) {
        let of = |name: &String| Channel::values("idle period", name, Unit::Nanos);
        self.channels = parts.disks.iter().map(of).collect();
        self.done = vec![None; parts.disks.len()];
    }

    fn served(&mut self, disk: usize, request: &Served) {
        let arrived = arrived(request);
        let done = self.done[disk];
        if let Some(done) = done.filter(|done| *done < arrived) {
            self.channels[disk].add(arrived - done);
        }
        self.done[disk] = Some(done.map_or(request.done, |done| done.max(request.done)));
    }

    fn channels(&mut self) -> &mut Vec<Channel> {
        &mut self.channels
    }
}
