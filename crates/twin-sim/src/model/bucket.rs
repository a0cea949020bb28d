//! The service of an object store, as a device that knows no places: a write is an object (PUT), a read a range of one
//! (GET) or a page of a list, a discard a DELETE. What was answered is durable. What the objects are, and what they do to
//! each other, is not here: see [`SimStore`](crate::SimStore).
//!
//! Contract: the time to the first byte is drawn from a log-normal distribution, the shape that such services have in
//! measurements; then the data moves over one connection of several, and all connections share the link of the machine.
//!
//! Sources. Amazon S3, "Best practices design patterns: optimizing Amazon S3 performance": first bytes of small objects
//! after some 100 to 200 ms, a connection for each 85 to 90 MB/s, ranges of 8 to 16 MB. Express One Zone: single-digit milliseconds. Prices: the lists for us-east-1 as of
//! 2026-11; another list is given with the setting `prices`.

use twin_disk::IoKind;
use twin_rt::{MILLIS, Nanos, Rng, SECS, Time};

use super::{Access, DeviceModel, ModelError, ModelSpec, Options, Service, Supply};
use crate::TimeBreakdown;

/// What a store charges, in dollars.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Prices {
    /// For 1,000 requests that store or list.
    pub put_1000: f64,
    /// For 1,000 requests that read.
    pub get_1000: f64,
    /// For a gigabyte (10^9 bytes) that is stored for a month.
    pub month_gb: f64,
    /// For a gigabyte that is brought in.
    pub in_gb: f64,
    /// For a gigabyte that is read.
    pub out_gb: f64,
}

/// The figures of a kind of bucket.
pub(super) struct BucketFigures {
    /// The median of the time to the first byte, and the time within which 99 of 100 come.
    first_byte_ns: (Nanos, Nanos),
    prices: Prices,
}

pub(super) const STANDARD: BucketFigures = BucketFigures {
    first_byte_ns: (100 * MILLIS, 200 * MILLIS),
    prices: Prices { put_1000: 0.005, get_1000: 0.0004, month_gb: 0.023, in_gb: 0.0, out_gb: 0.0 },
};

pub(super) const EXPRESS: BucketFigures = BucketFigures {
    first_byte_ns: (5 * MILLIS, 10 * MILLIS),
    prices: Prices {
        put_1000: 0.001_13,
        get_1000: 0.000_03,
        month_gb: 0.11,
        in_gb: 0.0032,
        out_gb: 0.0006,
    },
};

/// Objects have any length.
const SECTOR: u32 = 1;
/// More than any object has: there are no places.
const SIZE: u64 = 1 << 60;
/// Connections that the machine keeps open.
const CONNECTIONS: u32 = 64;
/// Bytes a second of one connection, and of the machine's link (10 Gbit/s).
const CONNECTION_BYTES_PER_S: u64 = 87_500_000;
const LINK_BYTES_PER_S: u64 = 1_250_000_000;
/// The 99th percentile of the standard normal distribution.
const P99: f64 = 2.326_347_87;

/// The device.
struct ObjectStore {
    spec: ModelSpec,
    figures: &'static BucketFigures,
    prices: Prices,
    rng: Rng,
    /// When each connection is free, and each direction of the link.
    free_at: Vec<Time>,
    link_free_at: [Time; 2],
}

/// A bucket with these figures.
pub(super) fn make(
    name: &'static str,
    figures: &'static BucketFigures,
    options: &Options,
) -> Result<Box<dyn DeviceModel>, ModelError> {
    if options.write_cache == Some(true) {
        return Err(ModelError::NoWriteCache { name });
    }
    let (depth, queue_depth) = (CONNECTIONS, CONNECTIONS);
    let spec = ModelSpec {
        name,
        size: SIZE,
        sector: SECTOR,
        max_io: u32::MAX,
        depth,
        queue_depth,
        write_cache: false,
    };
    Ok(Box::new(ObjectStore {
        spec,
        figures,
        prices: options.prices.unwrap_or(figures.prices),
        rng: Rng::stream(options.seed, name),
        free_at: vec![Time(0); CONNECTIONS as usize],
        link_free_at: [Time(0); 2],
    }))
}

impl ObjectStore {
    /// A time to the first byte.
    fn first_byte_ns(&mut self) -> Nanos {
        let (median, p99) = self.figures.first_byte_ns;
        let sigma = (p99 as f64 / median as f64).ln() / P99;
        // Box and Muller; 1 - u is never zero.
        let (u, v) = (1.0 - self.rng.unit(), self.rng.unit());
        let normal = (-2.0 * u.ln()).sqrt() * (std::f64::consts::TAU * v).cos();
        (median as f64 * (sigma * normal).exp()) as Nanos
    }

    /// Moves data over one direction of the link, no faster than one connection, from `ready` on.
    fn moved(&mut self, direction: usize, ready: Time, len: u64) -> Time {
        let ns = |rate: u64| (u128::from(len) * u128::from(SECS) / u128::from(rate)) as Nanos;
        let link = ready.max(self.link_free_at[direction]) + ns(LINK_BYTES_PER_S);
        self.link_free_at[direction] = link;
        link.max(ready + ns(CONNECTION_BYTES_PER_S))
    }

    /// Serves a request on the connection that is free first. Gives when it began, when its first byte came and
    /// when it was done.
    fn exchange(&mut self, ready: Time, access: &Access) -> (Time, Time, Time) {
        let mut connection = 0;
        for (nth, at) in self.free_at.iter().enumerate() {
            if *at < self.free_at[connection] {
                connection = nth;
            }
        }
        let begun = ready.max(self.free_at[connection]);
        let wait = self.first_byte_ns();
        let (first, done) = match access.kind {
            IoKind::Read => (begun + wait, self.moved(0, begun + wait, access.len)),
            // The store answers when it has everything.
            IoKind::Write => (begun, self.moved(1, begun, access.len) + wait),
            IoKind::Flush | IoKind::Discard => (begun, begun + wait),
        };
        self.free_at[connection] = done;
        (begun, first, done)
    }
}

impl DeviceModel for ObjectStore {
    fn spec(&self) -> ModelSpec {
        self.spec
    }

    fn serve(&mut self, now: Time, access: &Access, supply: Supply) -> Service {
        let mut parts = TimeBreakdown::default();
        if access.kind == IoKind::Flush {
            return Service { first: now, done: now, parts };
        }
        let ready = if access.kind == IoKind::Write { now.max(supply.last) } else { now };
        parts.bus_ns = ready - now;
        let (begun, first, done) = self.exchange(ready, access);
        parts.queue_ns = begun - ready;
        parts.transfer_ns = done - begun;
        Service { first, done, parts }
    }

    fn prices(&self) -> Option<Prices> {
        Some(self.prices)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A long request.
    const MOST_BYTES: u32 = 8 << 20;

    fn bucket(figures: &'static BucketFigures) -> Box<dyn DeviceModel> {
        make("test", figures, &Options { seed: 7, ..Options::default() }).unwrap()
    }

    fn request(kind: IoKind, at: u64, len: u64) -> Access {
        Access { kind, at, len }
    }

    /// The times of requests of 4 KiB that follow each other, in milliseconds, sorted.
    fn times(kind: IoKind, figures: &'static BucketFigures) -> Vec<f64> {
        let mut device = bucket(figures);
        let mut now = Time(0);
        let mut times: Vec<f64> = (0..4000)
            .map(|nth| {
                let served =
                    device.serve(now, &request(kind, nth << 16, 4096), Supply::at_once(now));
                let took = served.done - now;
                now = served.done;
                took as f64 / MILLIS as f64
            })
            .collect();
        times.sort_by(f64::total_cmp);
        times
    }

    #[test]
    fn half_of_the_first_bytes_come_within_the_published_time_and_nearly_all_within_twice_that() {
        for (figures, median) in [(&STANDARD, 100.0), (&EXPRESS, 5.0)] {
            for kind in [IoKind::Read, IoKind::Write] {
                let times = times(kind, figures);
                assert!((times[2000] / median - 1.0).abs() < 0.05, "{}", times[2000]);
                assert!((times[3960] / median - 2.0).abs() < 0.2, "{}", times[3960]);
            }
        }
    }

    #[test]
    fn one_connection_is_slower_than_all_and_all_share_the_link() {
        let mut device = bucket(&EXPRESS);
        let read = request(IoKind::Read, 0, u64::from(MOST_BYTES));
        let alone = device.serve(Time(0), &read, Supply::at_once(Time(0))).done;
        let rate = f64::from(MOST_BYTES) / (alone.0 as f64 / SECS as f64);
        assert!(rate < CONNECTION_BYTES_PER_S as f64 && rate > 60e6, "{rate}");
        let many = 1000;
        let ends = (0..many).map(|_| device.serve(alone, &read, Supply::at_once(alone)).done);
        let last = ends.max().unwrap();
        let rate = f64::from(MOST_BYTES) * f64::from(many) / ((last - alone) as f64 / SECS as f64);
        let link = LINK_BYTES_PER_S as f64;
        assert!(rate <= link && rate > 0.95 * link, "{rate}");
    }
}
