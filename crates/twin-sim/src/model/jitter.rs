//! A device for tests of correctness: every request takes a random time, so that requests in flight
//! complete in any order. Its write cache is on by default.

use twin_rt::{MICROS, MILLIS, Nanos, Rng, Time};

use super::{Access, DeviceModel, ModelError, ModelSpec, Options, Service, Supply, chosen_size};
use crate::TimeBreakdown;

const SECTOR: u32 = 512;
const SIZE: u64 = 1 << 30;
const LEAST_NS: Nanos = 10 * MICROS;
const MOST_NS: Nanos = 20 * MILLIS;

struct Jitter {
    spec: ModelSpec,
    rng: Rng,
}

pub(super) fn make(
    name: &'static str,
    options: &Options,
) -> Result<Box<dyn DeviceModel>, ModelError> {
    let size = chosen_size(name, options, SIZE, SECTOR)?;
    let write_cache = options.write_cache.unwrap_or(true);
    let (sector, max_io, depth, queue_depth) = (SECTOR, 1 << 20, 32, 32);
    let spec = ModelSpec { name, size, sector, max_io, depth, queue_depth, write_cache };
    Ok(Box::new(Jitter { spec, rng: Rng::stream(options.seed, name) }))
}

impl DeviceModel for Jitter {
    fn spec(&self) -> ModelSpec {
        self.spec
    }

    fn serve(&mut self, now: Time, _access: &Access, supply: Supply) -> Service {
        let ready = now.max(supply.last);
        let took = self.rng.range(LEAST_NS, MOST_NS);
        let bus_ns = ready - now;
        let parts = TimeBreakdown { transfer_ns: took, bus_ns, ..TimeBreakdown::default() };
        Service { first: ready, done: ready + took, parts }
    }
}
