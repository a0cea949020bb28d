//! A flat SSD: a fixed latency by kind of request, a number of channels that work side by side,
//! and a link of a fixed bandwidth each way. No translation layer, no garbage collection, no wear.

use twin_disk::IoKind;
use twin_rt::{MICROS, MILLIS, Nanos, SECS, Time};

use super::{Access, DeviceModel, ModelError, ModelSpec, Options, Service, Supply, chosen_size};
use crate::Parts;

/// The figures of a flat SSD.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlatSsdFigures {
    /// Bytes on the device, unless chosen otherwise.
    pub size: u64,
    /// Bytes in a sector.
    pub sector: u32,
    /// The largest request, in bytes.
    pub max_io: u32,
    /// Requests that the host may have in flight.
    pub depth: u32,
    /// Requests that are worked on side by side.
    pub channels: u32,
    /// Time in a channel for a read.
    pub read_ns: Nanos,
    /// Time in a channel for a write.
    pub write_ns: Nanos,
    /// Time for a flush, on top of waiting for the writes under way.
    pub flush_ns: Nanos,
    /// What the link moves each way, in bytes a second.
    pub link_bytes_per_s: u64,
    /// Writes are volatile until flushed.
    pub write_cache: bool,
}

/// A SATA SSD. Assumed, no particular product: 80 us to read and 25 us to take a write into its
/// cache are common in data sheets (10,000 to 12,000 and 40,000 requests a second one at a time);
/// the link is SATA's 6 Gbit/s less its coding and framing; depth is NCQ's.
pub(super) const SATA: FlatSsdFigures = FlatSsdFigures {
    size: 512_000_000_000,
    sector: 512,
    max_io: 1 << 20,
    depth: 32,
    channels: 8,
    read_ns: 80 * MICROS,
    write_ns: 25 * MICROS,
    flush_ns: MILLIS,
    link_bytes_per_s: 550_000_000,
    write_cache: true,
};

/// An NVMe SSD. Assumed, no particular product: as above, with PCIe 3 x4's bandwidth.
pub(super) const NVME: FlatSsdFigures = FlatSsdFigures {
    size: 1_024_000_000_000,
    sector: 512,
    max_io: 1 << 20,
    depth: 256,
    channels: 64,
    read_ns: 70 * MICROS,
    write_ns: 12 * MICROS,
    flush_ns: 500 * MICROS,
    link_bytes_per_s: 3_200_000_000,
    write_cache: true,
};

/// MQSim's default configuration (ssdconfig.xml): 8 channels of 4 chips, 75 us to read a page,
/// 333 MT/s of one byte a channel, a write cache. A channel serves one request at a time here, so
/// the chips behind it are the parallelism: 32. Its 750 us to program a page stay hidden behind
/// the cache: a write takes as long as its transfer over one channel (4 KiB at 333 MB/s, 12 us);
/// a flush waits for one program. Size: 8 x 4 x 2 dies x 2 planes x 2048 blocks x 256 pages x
/// 8192 bytes, less 7% over-provisioning, in whole MiB.
pub(super) const MQSIM: FlatSsdFigures = FlatSsdFigures {
    size: (8 * 4 * 2 * 2 * 2048 * 256 * 8192 / 100 * 93) >> 20 << 20,
    sector: 512,
    max_io: 1 << 20,
    depth: 256,
    channels: 32,
    read_ns: 75 * MICROS,
    write_ns: 12 * MICROS,
    flush_ns: 750 * MICROS,
    link_bytes_per_s: 8 * 333_000_000,
    write_cache: true,
};

/// A flat SSD. Its state is when each channel and each direction of the link are free.
pub struct FlatSsd {
    spec: ModelSpec,
    figures: FlatSsdFigures,
    free_at: Vec<Time>,
    /// From the device to the host, and from the host to the device: a read that will have its
    /// data later must not hold up a write that has it now.
    link_free_at: [Time; 2],
    /// When the last write under way is done.
    written_at: Time,
}

impl FlatSsd {
    /// A device with these figures.
    ///
    /// # Errors
    /// If it cannot have these options.
    pub fn new(
        name: &'static str,
        figures: &FlatSsdFigures,
        options: &Options,
    ) -> Result<FlatSsd, ModelError> {
        let mut f = *figures;
        if let Some(own) = options.flat {
            (f.read_ns, f.write_ns, f.flush_ns) = (own.read_ns, own.write_ns, own.flush_ns);
            f.link_bytes_per_s = own.link_bytes_per_s.max(1);
        }
        let size = chosen_size(name, options, f.size, f.sector)?;
        let write_cache = options.write_cache.unwrap_or(f.write_cache);
        let (sector, max_io, depth) = (f.sector, f.max_io, f.depth);
        Ok(FlatSsd {
            spec: ModelSpec { name, size, sector, max_io, depth, write_cache },
            figures: f,
            free_at: vec![Time(0); f.channels.max(1) as usize],
            link_free_at: [Time(0); 2],
            written_at: Time(0),
        })
    }

    /// Occupies the channel that is free first, from `ready` on.
    fn channel(&mut self, ready: Time, ns: Nanos) -> (Time, Time) {
        let mut best = 0;
        for (i, &at) in self.free_at.iter().enumerate() {
            // The first idle one is as good as any.
            if at <= ready {
                best = i;
                break;
            }
            if at < self.free_at[best] {
                best = i;
            }
        }
        let start = ready.max(self.free_at[best]);
        self.free_at[best] = start + ns;
        (start, start + ns)
    }

    /// Moves data over one direction of the link, from `ready` on.
    fn link(&mut self, direction: usize, ready: Time, len: u64) -> (Time, Time) {
        let start = ready.max(self.link_free_at[direction]);
        let ns = u128::from(len) * u128::from(SECS) / u128::from(self.figures.link_bytes_per_s);
        let end = start + ns as Nanos;
        self.link_free_at[direction] = end;
        (start, end)
    }
}

impl DeviceModel for FlatSsd {
    fn spec(&self) -> ModelSpec {
        self.spec
    }

    fn serve(&mut self, now: Time, access: &Access, supply: Supply) -> Service {
        let mut parts = Parts::default();
        let (first, done) = match access.kind {
            IoKind::Read => {
                let (start, ready) = self.channel(now, self.figures.read_ns);
                let (moving, done) = self.link(0, ready, access.len);
                parts.queue_ns = (start - now) + (moving - ready);
                (moving, done)
            }
            IoKind::Write => {
                parts.bus_ns = supply.last - now;
                let ready = now.max(supply.last);
                let (moving, here) = self.link(1, ready, access.len);
                let (start, done) = self.channel(here, self.figures.write_ns);
                parts.queue_ns = (moving - ready) + (start - here);
                self.written_at = self.written_at.max(done);
                (now, done)
            }
            IoKind::Flush if self.spec.write_cache => {
                let done = now.max(self.written_at) + self.figures.flush_ns;
                parts.flush_ns = done - now;
                (now, done)
            }
            IoKind::Flush => (now, now),
            IoKind::Discard => {
                let (start, done) = self.channel(now, self.figures.write_ns);
                parts.queue_ns = start - now;
                (now, done)
            }
        };
        parts.transfer_ns = (done - now) - parts.total_ns();
        Service { first, done, parts }
    }
}
