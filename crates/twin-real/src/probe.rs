//! Requests to a device without a file system, through our own way to devices, as a mount uses it.
//!
//! Times are in microseconds. Places are random, from a seed.

use std::path::Path;

use twin_disk::{Block, BlockDevice, Buf, Bytes, Class, DeviceInfo, Io, IoError, Origin};
use twin_host::{Bar, FileDevice, Host, HostOptions, IdlePoll, ImageOptions, real_clock};
use twin_rt::Rng;

/// Nanoseconds for which a host looks for completions before it sleeps, as a mount does by default.
pub(crate) const SPIN_NS: u64 = 200_000;
/// The largest write.
const LARGEST: usize = 1 << 20;

/// A device, or a file as one, to which single requests are made.
pub struct Probe {
    host: Host,
    device: FileDevice,
    clock: Box<dyn Fn() -> f64>,
    rng: Rng,
    content: Bytes,
    bar: Bar,
    /// Rows of requests end after these seconds.
    most_s: f64,
}

/// However slow the device is, a row has these many requests.
const FEWEST: usize = 8;

impl Probe {
    /// Opens it on a host of its own, which looks for completions for `spin_ns` before it sleeps. Random places
    /// are those of the seed.
    ///
    /// # Errors
    /// If the host cannot be started, or the file is none that can be read and written directly.
    pub fn open(path: &Path, spin_ns: u64, seed: u64) -> Result<Probe, String> {
        // What looks for completions as a mount does wakes up as in a mount, too.
        let idle_poll = if spin_ns > 0 { IdlePoll::Auto } else { IdlePoll::No };
        let host = Host::start(HostOptions { spin_ns, idle_poll, ..HostOptions::default() });
        let host = host.map_err(|e| e.to_string())?;
        let device = FileDevice::open(&host, path, &ImageOptions::default());
        let device = device.map_err(|e| e.to_string())?;
        let content = Buf::copy_of(&vec![0x5a; LARGEST]).freeze();
        let (clock, rng) = (Box::new(real_clock()), Rng::stream(seed, "places"));
        let (bar, most_s) = (Bar::hidden(), f64::INFINITY);
        Ok(Probe { host, device, clock, rng, content, bar, most_s })
    }

    /// Counts timed requests on this bar.
    #[must_use]
    pub fn counted(self, bar: Bar) -> Probe {
        Probe { bar, ..self }
    }

    /// Ends rows of requests after `most_s` seconds: a slow device has fewer of them.
    #[must_use]
    pub fn limited(self, most_s: f64) -> Probe {
        Probe { most_s, ..self }
    }

    /// True if a row that has begun then, and has these times, has to end.
    fn is_over(&self, begun: f64, times: &[f64]) -> bool {
        times.len() >= FEWEST && self.now() - begun > self.most_s
    }

    /// What the device says of itself.
    pub fn info(&self) -> DeviceInfo {
        self.device.info()
    }

    /// Seconds since some instant.
    pub fn now(&self) -> f64 {
        (self.clock)()
    }

    /// Runs requests until they have ended.
    ///
    /// # Errors
    /// Those of the host, and of the requests.
    pub fn run<T>(
        &mut self,
        requests: impl AsyncFnOnce(&mut Probe) -> Result<T, IoError>,
    ) -> Result<T, String> {
        let host = self.host.clone();
        let ended = host.rt().block_on(requests(self));
        ended.map_err(|e| e.to_string())?.map_err(|e| e.to_string())
    }

    /// Waits for so many nanoseconds.
    pub async fn sleep(&self, ns: u64) {
        self.host.rt().sleep(ns).await;
    }

    /// Makes a request, untimed.
    ///
    /// # Errors
    /// If it fails.
    pub async fn submit(&self, io: Io) -> Result<(), IoError> {
        self.device.submit(io).await.map(drop)
    }

    /// A read at a random place.
    pub fn read(&mut self, len: u64) -> Io {
        Io::read(self.place(len), len, Class::Data, Origin::User)
    }

    /// A write at a random place.
    pub fn write(&mut self, len: u64) -> Io {
        let at = self.place(len);
        self.write_at(at, len)
    }

    /// A write.
    pub fn write_at(&self, at: u64, len: u64) -> Io {
        let block = Block::Bytes(self.content.slice(0, len as usize));
        Io::write(at, vec![block], Class::Data, Origin::User)
    }

    /// A flush.
    pub fn flush() -> Io {
        Io::flush(Origin::User)
    }

    fn place(&mut self, len: u64) -> u64 {
        self.rng.below(self.device.info().size / len) * len
    }

    /// The time of a request.
    ///
    /// # Errors
    /// If it fails.
    pub async fn time(&self, io: Io) -> Result<f64, IoError> {
        let start = self.now();
        self.device.submit(io).await?;
        let us = (self.now() - start) * 1e6;
        self.bar.add(1);
        Ok(us)
    }

    /// Times of requests one after the other.
    ///
    /// # Errors
    /// If one fails.
    pub async fn alone(
        &mut self,
        count: usize,
        io: impl Fn(&mut Probe) -> Io,
    ) -> Result<Vec<f64>, IoError> {
        let (mut times, begun) = (Vec::with_capacity(count), self.now());
        while times.len() < count && !self.is_over(begun, &times) {
            let io = io(self);
            times.push(self.time(io).await?);
        }
        Ok(times)
    }

    /// Times of flushes, each behind so many bytes of writes.
    ///
    /// # Errors
    /// If a request fails.
    pub async fn flushes(&mut self, dirty: u64, count: usize) -> Result<Vec<f64>, IoError> {
        let largest = LARGEST as u64;
        let (mut times, begun) = (Vec::with_capacity(count), self.now());
        while times.len() < count && !self.is_over(begun, &times) {
            for _ in 0..dirty.div_ceil(largest) {
                let write = self.write(dirty.min(largest));
                self.submit(write).await?;
            }
            times.push(self.time(Probe::flush()).await?);
        }
        Ok(times)
    }

    /// Requests a second with so many in flight.
    ///
    /// # Errors
    /// If one fails.
    pub async fn rate(
        &mut self,
        depth: usize,
        count: usize,
        io: impl Fn(&mut Probe) -> Io,
    ) -> Result<f64, IoError> {
        let mut requests: Vec<Io> = (0..count).map(|_| io(self)).collect();
        let start = self.now();
        let (each, device) = (count / depth, &self.device);
        let mut lanes = Vec::with_capacity(depth);
        for _ in 0..depth {
            let lane = requests.split_off(requests.len() - each);
            lanes.push(async move {
                for io in lane {
                    device.submit(io).await?;
                }
                Ok::<(), IoError>(())
            });
        }
        let ended: Result<Vec<()>, IoError> = twin_rt::join_all(lanes).await.into_iter().collect();
        ended?;
        Ok((each * depth) as f64 / (self.now() - start))
    }
}
