//! A device for unit tests: every request is finished at once. Its write cache is off by default.

use twin_rt::Time;

use super::{Access, DeviceModel, ModelError, ModelSpec, Options, Service, Supply, chosen_size};
use crate::TimeBreakdown;

const SECTOR: u32 = 512;
const SIZE: u64 = 1 << 30;

struct Instant(ModelSpec);

pub(super) fn make(
    name: &'static str,
    options: &Options,
) -> Result<Box<dyn DeviceModel>, ModelError> {
    let size = chosen_size(name, options, SIZE, SECTOR)?;
    let write_cache = options.write_cache.unwrap_or(false);
    let (sector, max_io, depth, queue_depth) = (SECTOR, 1 << 30, u32::MAX, u32::MAX);
    let spec = ModelSpec { name, size, sector, max_io, depth, queue_depth, write_cache };
    Ok(Box::new(Instant(spec)))
}

impl DeviceModel for Instant {
    fn spec(&self) -> ModelSpec {
        self.0
    }

    fn serve(&mut self, now: Time, _access: &Access, supply: Supply) -> Service {
        let done = now.max(supply.last);
        let parts = TimeBreakdown { bus_ns: done - now, ..TimeBreakdown::default() };
        Service { first: now, done, parts }
    }
}
