//! Dirty bytes that a power failure would take, as they are over time, by file system. Where the
//! flush policy relies on memory that survives, nothing is at risk.

use crate::channel::{Channel, Unit};
use crate::{Observer, Parts};

#[derive(Default)]
pub(crate) struct AtRisk(Vec<Channel>);

impl Observer for AtRisk {
    fn begin(&mut self, parts: &Parts) {
        let of = |(name, _): &(String, _)| Channel::values("at risk", name, Unit::Bytes);
        self.0 = parts.volumes.iter().map(of).collect();
    }

    fn look(&mut self, parts: &Parts) {
        for (channel, (_, volume)) in self.0.iter_mut().zip(&parts.volumes) {
            let core = volume.core();
            let dirty = if core.memory_survives() { 0 } else { core.cache.dirty_bytes() };
            channel.add(dirty);
        }
    }

    fn channels(&mut self) -> &mut Vec<Channel> {
        &mut self.0
    }
}
