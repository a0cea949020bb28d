//! A device for unit tests: whatever is asked is done at once. Its write cache is off unless told
//! otherwise.

use twin_rt::Time;

use super::{Access, DeviceModel, ModelError, ModelSpec, Options, Service, Supply, chosen_size};
use crate::Parts;

const SECTOR: u32 = 512;
const SIZE: u64 = 1 << 30;

struct Instant(ModelSpec);

pub(super) fn make(
    name: &'static str,
    options: &Options,
) -> Result<Box<dyn DeviceModel>, ModelError> {
    let size = chosen_size(name, options, SIZE, SECTOR)?;
    let write_cache = options.write_cache.unwrap_or(false);
    let (sector, max_io, depth) = (SECTOR, 1 << 30, u32::MAX);
    Ok(Box::new(Instant(ModelSpec { name, size, sector, max_io, depth, write_cache })))
}

impl DeviceModel for Instant {
    fn spec(&self) -> ModelSpec {
        self.0
    }

    fn serve(&mut self, now: Time, _access: &Access, supply: Supply) -> Service {
        let done = now.max(supply.last);
        let parts = Parts { bus_ns: done - now, ..Parts::default() };
        Service { first: now, done, parts }
    }
}
