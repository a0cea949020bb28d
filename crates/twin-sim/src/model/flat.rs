//! A flat SSD: a fixed latency by kind of request, a number of channels that work side by side,
//! and a link of a fixed bandwidth each way. No translation layer, no garbage collection, no wear.

use twin_disk::IoKind;
use twin_rt::{MICROS, MILLIS, Nanos, SECS, Time};

use super::{Access, DeviceModel, ModelError, ModelSpec, Options, Service, Supply, chosen_size};
use crate::TimeBreakdown;

/// The figures of a flat SSD.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlatSsdFigures {
    /// Default size of the device in bytes.
    pub size: u64,
    /// Bytes in a sector.
    pub sector: u32,
    /// The largest request, in bytes.
    pub max_io: u32,
    /// Requests that the host may have in flight.
    pub depth: u32,
    /// Number of requests that are served in parallel.
    pub channels: u32,
    /// Time that a read occupies a channel.
    pub read_ns: Nanos,
    /// Time that a write occupies a channel.
    pub write_ns: Nanos,
    /// Time of a flush after the writes in flight have finished.
    pub flush_ns: Nanos,
    /// Bandwidth of the link in each direction, in bytes a second.
    pub link_bytes_per_s: u64,
    /// Whether writes are volatile until flushed.
    pub write_cache: bool,
}

/// A SATA SSD. Assumed, no particular product: 80 us to read and 25 us to take a write into the
/// cache are common in data sheets (10,000 to 12,000 and 40,000 requests a second one at a time);
/// the link is SATA's 6 Gbit/s less coding and framing; the depth is that of NCQ.
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

/// An NVMe SSD. Assumed, no particular product: as above, with the bandwidth of PCIe 3 x4.
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

/// Persistent memory, as a device. Assumed, no particular product: a third of a microsecond to read, a tenth to write, and 2 GB/s are
/// the order of what is published of memory modules that keep their content; a flush is a fence.
pub(super) const PMEM: FlatSsdFigures = FlatSsdFigures {
    size: 128_000_000_000,
    sector: 512,
    max_io: 1 << 20,
    depth: 64,
    channels: 8,
    read_ns: 300,
    write_ns: 100,
    flush_ns: 100,
    link_bytes_per_s: 2_000_000_000,
    write_cache: true,
};

/// A flat SSD. Its state is the time at which each channel and each direction of the link becomes
/// free.
pub struct FlatSsd {
    spec: ModelSpec,
    figures: FlatSsdFigures,
    free_at: Vec<Time>,
    /// When the link is free, from the device to the host and from the host to the device. The two
    /// are separate because a read whose data comes later must not delay a write whose data is
    /// there.
    link_free_at: [Time; 2],
    /// When the last write in flight is finished.
    written_at: Time,
}

impl FlatSsd {
    /// A device with these figures.
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
            spec: ModelSpec { name, size, sector, max_io, depth, queue_depth: depth, write_cache },
            figures: f,
            free_at: vec![Time(0); f.channels.max(1) as usize],
            link_free_at: [Time(0); 2],
            written_at: Time(0),
        })
    }

    /// Occupies the first channel to become free, from `ready` on.
    fn channel(&mut self, ready: Time, ns: Nanos) -> (Time, Time) {
        let mut best = 0;
        for (i, &at) in self.free_at.iter().enumerate() {
            // All idle channels are equal.
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
        let mut parts = TimeBreakdown::default();
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
