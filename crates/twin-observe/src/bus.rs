//! Busses: for what share of the time each is taken, and how long devices wait for it.
//!
//! A tenancy counts in the interval in which it is given, with its whole length.

use twin_rt::{Nanos, Time};
use twin_sim::bus::Span;

use crate::channel::{Channel, Unit, since};
use crate::{Observer, Parts};

/// Two channels a bus: waits and use.
#[derive(Default)]
pub(crate) struct Buses {
    channels: Vec<Channel>,
    taken_ns: Vec<Nanos>,
    begun: Time,
}

impl Observer for Buses {
    fn unseen(&self) -> Option<&'static str> {
        Some("busses: the host does not say when a device has its bus")
    }

    fn begin(&mut self, parts: &Parts) {
        let of = |name: &String| {
            [
                Channel::values("wait for the bus", name, Unit::Nanos),
                Channel::ratio("bus use", name, Unit::Percent),
            ]
        };
        self.channels = parts.buses.iter().flat_map(of).collect();
        self.taken_ns = vec![0; parts.buses.len()];
        self.begun = now(parts);
    }

    fn bus_given(&mut self, bus: usize, wait_ns: Nanos, span: Span) {
        self.channels[2 * bus].add(wait_ns);
        self.taken_ns[bus] += span.end - span.start;
    }

    fn look(&mut self, parts: &Parts) {
        let passed = since(now(parts), self.begun);
        for (bus, taken_ns) in self.taken_ns.iter().enumerate() {
            self.channels[2 * bus + 1].set(*taken_ns, passed);
        }
    }

    fn channels(&mut self) -> &mut Vec<Channel> {
        &mut self.channels
    }
}

fn now(parts: &Parts) -> Time {
    parts.volumes.first().map_or(Time(0), |(_, volume)| volume.core().rt.now())
}
