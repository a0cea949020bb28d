//! Memory for blocks: clean, dirty and free bytes of each host as they are over time, and the share of
//! look-ups that found their block, by file system.

use crate::channel::{Channel, Unit};
use crate::{Observer, Parts};

/// Clean, dirty and free bytes of each memory, then the hit ratio of each volume.
#[derive(Default)]
pub(crate) struct Caches {
    channels: Vec<Channel>,
    /// Look-ups of each volume before the run: those that found their block, and all.
    before: Vec<(u64, u64)>,
}

const OF_POOL: [&str; 3] = ["clean", "dirty", "unused"];

fn lookups(volume: &twin_fs::Volume) -> (u64, u64) {
    let stats = volume.core().cache.stats();
    (stats.hits, stats.hits + stats.misses)
}

impl Observer for Caches {
    fn begin(&mut self, parts: &Parts) {
        for pool in &parts.pools {
            let of = |what| Channel::values(what, &pool.name, Unit::Bytes);
            self.channels.extend(OF_POOL.map(of));
        }
        for (name, volume) in &parts.volumes {
            self.channels.push(Channel::ratio("hit ratio", name, Unit::Percent));
            self.before.push(lookups(volume));
        }
    }

    fn look(&mut self, parts: &Parts) {
        for (number, pool) in parts.pools.iter().enumerate() {
            let resident = pool.sum(parts, |volume| volume.core().cache.resident_bytes());
            let dirty = pool.sum(parts, |volume| volume.core().cache.dirty_bytes());
            let free = pool.bound_bytes(parts).saturating_sub(resident);
            let at = number * OF_POOL.len();
            for (channel, bytes) in
                self.channels[at..].iter_mut().zip([resident.saturating_sub(dirty), dirty, free])
            {
                channel.add(bytes);
            }
        }
        let ratios = &mut self.channels[parts.pools.len() * OF_POOL.len()..];
        for ((channel, (_, volume)), before) in
            ratios.iter_mut().zip(&parts.volumes).zip(&self.before)
        {
            let (hits, all) = lookups(volume);
            channel.set(hits - before.0, all - before.1);
        }
    }

    fn channels(&mut self) -> &mut Vec<Channel> {
        &mut self.channels
    }
}
