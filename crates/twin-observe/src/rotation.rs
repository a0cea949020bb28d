//! The rotational delay of requests that reach the medium: waiting for the sector to come round.

use twin_sim::Served;

use crate::channel::{Channel, Unit};
use crate::seek::reached_medium;
use crate::{Observer, Parts};

#[derive(Default)]
pub(crate) struct Rotations(Vec<Channel>);

impl Observer for Rotations {
    fn unseen(&self) -> Option<&'static str> {
        Some("rotational delay: the device does not say how its medium turns")
    }

    fn begin(&mut self, parts: &Parts) {
        let of = |name: &String| Channel::values("rotational delay", name, Unit::Nanos);
        self.0 = parts.disks.iter().map(of).collect();
    }

    fn served(&mut self, disk: usize, request: &Served) {
        if request.cylinders.is_some() && reached_medium(request) {
            self.0[disk].add(request.parts.rotation_ns);
        }
    }

    fn channels(&mut self) -> &mut Vec<Channel> {
        &mut self.0
    }
}
