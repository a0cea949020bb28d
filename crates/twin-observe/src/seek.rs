//! How far the arm of a disk moves from one request that reaches the medium to the next, in cylinders.
//!
//! Requests that the drive serves from its buffer, and writes that it reports before they are on the
//! medium, wait for no arm: they are not counted, and where the arm goes for the latter is not seen.

use twin_sim::Served;

use crate::channel::{Channel, Unit};
use crate::{Observer, Parts};

#[derive(Default)]
pub(crate) struct Seeks {
    channels: Vec<Channel>,
    /// Where the arm of each disk was left.
    arms: Vec<Option<u32>>,
}

/// True if a request waited for the medium itself.
pub(crate) fn reached_medium(request: &Served) -> bool {
    request.parts.medium_ns() > 0
}

impl Observer for Seeks {
    fn unseen(&self) -> Option<&'static str> {
        Some("seek distance: the device does not say where its arm is, if it has one")
    }

    fn begin(&mut self, parts: &Parts) {
        let of = |name: &String| Channel::values("seek distance", name, Unit::Cylinders);
        self.channels = parts.disks.iter().map(of).collect();
        self.arms = vec![None; parts.disks.len()];
    }

    fn served(&mut self, disk: usize, request: &Served) {
        let Some((first, last)) = request.cylinders.filter(|_| reached_medium(request)) else {
            return;
        };
        if let Some(arm) = self.arms[disk].replace(last) {
            self.channels[disk].add(u64::from(arm.abs_diff(first)));
        }
    }

    fn channels(&mut self) -> &mut Vec<Channel> {
        &mut self.channels
    }
}
