//! A device with the times that were measured on a real one, as `twinfs calibrate` writes them down.
//!
//! Contract: a request takes a time drawn from the distribution measured for its kind and size, one request
//! at a time. Between measured sizes the times are interpolated, beyond the largest they grow at the rate of
//! the last two. Requests in flight together are spaced as far apart as the measured throughput at depth
//! demands. A flush waits for the writes in flight and then takes a time drawn from the distribution for as
//! many bytes written since the last one. A request that finds the device idle takes longer by what was
//! measured for as long a pause: drives, and still more the processes that stand for drives in a virtual
//! machine, fall asleep. Requests that took far longer than others of their size are stalls: as many requests
//! of the kind have one as had one when it was measured, evenly spread, so that neither a single stall nor the
//! luck of a draw decides a short run. The same seed gives the same times. The model knows nothing of places on the
//! device, and no garbage collection: what the real device did of it is in the distributions.

use std::rc::Rc;

use twin_disk::IoKind;
use twin_rt::{Nanos, Rng, Time};

use super::{Access, DeviceModel, ModelError, ModelSpec, Options, Service, Supply, chosen_size};
use crate::TimeBreakdown;

const SECTOR: u32 = 512;
/// The size unless another is asked for: any size has the same times.
const SIZE: u64 = 64 << 30;
/// The number of requests in flight. What more would bring is in the spacing.
const DEPTH: u32 = 128;

/// Times measured for one size, in nanoseconds, in ascending order: the mean of each of equally many equally
/// large parts of the sorted times, so that drawing one of them at random keeps the mean.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sample {
    /// Bytes of the request; for a flush, bytes written since the last one.
    pub bytes: u64,
    /// The times. Not empty.
    pub times_ns: Vec<Nanos>,
}

/// The least time between two requests of a kind, however many are in flight.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Spacing {
    /// The part that does not depend on the size.
    pub request_ns: Nanos,
    /// The part for each byte, in picoseconds.
    pub byte_ps: u64,
}

impl Spacing {
    fn ns(self, bytes: u64) -> Nanos {
        self.request_ns + bytes.saturating_mul(self.byte_ps) / 1000
    }
}

/// The measured times of one kind of request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Times {
    /// The measured times, in ascending order of request size.
    pub samples: Vec<Sample>,
    /// When many are in flight.
    pub spacing: Spacing,
    /// The requests that took far longer than others of their size.
    pub stalls: Stalls,
}

/// Requests of a kind that took far longer than others of their size, and which `Times::samples` does not
/// contain.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stalls {
    /// How many requests of the kind were measured.
    pub of: u64,
    /// How many of them stalled.
    pub count: u64,
    /// By how much longer these took, in equally large parts: the mean of each, in ascending order.
    pub longer_ns: Vec<Nanos>,
}

impl Stalls {
    /// How many of the first `requests` have stalled: the nearest to the measured share.
    fn among(&self, requests: u64) -> u64 {
        let (count, of) = (u128::from(self.count), u128::from(self.of.max(1)));
        ((2 * u128::from(requests) * count + of) / (2 * of)) as u64
    }

    /// By how much longer the stall of this number takes: the one in the middle first, then all of them
    /// about equally often in any row of stalls (multiples of the golden ratio).
    fn longer(&self, number: u64) -> Nanos {
        const GOLDEN: f64 = 0.618_033_988_749_895;
        let at = (0.5 + number as f64 * GOLDEN).fract();
        self.longer_ns.get((at * self.longer_ns.len() as f64) as usize).copied().unwrap_or(0)
    }
}

/// The stalls of a kind of request in a run.
#[derive(Clone, Copy, Debug, Default)]
struct Stalled {
    requests: u64,
    stalls: u64,
}

impl Stalled {
    /// What the next request takes longer: nothing, unless it stalls.
    fn next(&mut self, of: &Stalls) -> Nanos {
        self.requests += 1;
        if of.among(self.requests) <= self.stalls {
            return 0;
        }
        self.stalls += 1;
        of.longer(self.stalls - 1)
    }
}

impl Times {
    /// The time at the share `at` (0 to 1) of the distribution for this size.
    fn at(&self, bytes: u64, at: f64) -> Nanos {
        let time = |sample: &Sample| {
            let last = sample.times_ns.len().saturating_sub(1);
            let nth = (at * sample.times_ns.len() as f64) as usize;
            sample.times_ns.get(nth.min(last)).copied().unwrap_or(0)
        };
        let above = self.samples.partition_point(|sample| sample.bytes < bytes);
        let (low, high) = match (above.checked_sub(1), self.samples.get(above)) {
            (_, None) if self.samples.len() > 1 => (above - 2, above - 1),
            (Some(below), Some(_)) => (below, above),
            // Smaller than the smallest, or only one size was measured.
            _ => return self.samples.first().map_or(0, time),
        };
        let (low, high) = (&self.samples[low], &self.samples[high]);
        let share = (bytes - low.bytes) as f64 / (high.bytes - low.bytes).max(1) as f64;
        let (from, to) = (time(low), time(high));
        // A larger request is never faster, whatever the noise of the measurement says.
        from + (to.saturating_sub(from) as f64 * share) as Nanos
    }
}

/// The additional times of requests after the device was idle for this many nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pause {
    /// How long nothing was in flight.
    pub idle_ns: Nanos,
    /// The additional time of a read.
    pub read_ns: Nanos,
    /// The additional time of a write.
    pub write_ns: Nanos,
    /// The additional time of a flush.
    pub flush_ns: Nanos,
}

impl Pause {
    fn of(self, kind: IoKind) -> Nanos {
        match kind {
            IoKind::Read => self.read_ns,
            IoKind::Write => self.write_ns,
            IoKind::Flush => self.flush_ns,
            IoKind::Discard => 0,
        }
    }
}

/// The measured figures of a device.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MeasuredFigures {
    /// The largest request, in bytes.
    pub max_io: u32,
    /// The times of reads.
    pub reads: Times,
    /// The times of writes.
    pub writes: Times,
    /// Flushes, by the bytes written before.
    pub flushes: Times,
    /// The additional times after pauses, in ascending order of the pause. Without any, pauses add
    /// nothing.
    pub pauses: Vec<Pause>,
    /// The additional time of a request of a mount, compared with a process that does nothing else.
    pub mounted_ns: Nanos,
}

impl MeasuredFigures {
    /// The additional time of a request after nothing was in flight for `idle` nanoseconds:
    /// interpolated between the measured pauses, and beyond the longest the same as after it.
    fn after_pause(&self, kind: IoKind, idle: Nanos) -> Nanos {
        let above = self.pauses.partition_point(|pause| pause.idle_ns <= idle);
        let below = above.checked_sub(1).map_or(Pause::default(), |at| self.pauses[at]);
        let Some(above) = self.pauses.get(above) else { return below.of(kind) };
        let share = (idle - below.idle_ns) as f64 / (above.idle_ns - below.idle_ns).max(1) as f64;
        let (from, to) = (below.of(kind) as f64, above.of(kind) as f64);
        (from + (to - from) * share) as Nanos
    }
}

struct Measured {
    spec: ModelSpec,
    figures: Rc<MeasuredFigures>,
    rng: Rng,
    /// When the next read, and the next write, may begin.
    free_at: [Time; 2],
    /// When the last write in flight is finished.
    written_at: Time,
    /// When the last request in flight is finished.
    idle_from: Time,
    /// Bytes written since the last flush.
    dirty: u64,
    /// The stalls of reads, writes and flushes.
    stalled: [Stalled; 3],
}

/// The place of flushes beside the two directions of transfers.
const FLUSHES: usize = 2;

pub(super) fn make(
    name: &'static str,
    options: &Options,
) -> Result<Box<dyn DeviceModel>, ModelError> {
    let figures = options.measured.clone().ok_or(ModelError::NotMeasured { name })?;
    let size = chosen_size(name, options, SIZE, SECTOR)?;
    let write_cache = options.write_cache.unwrap_or(true);
    let max_io = figures.max_io.max(SECTOR);
    let spec = ModelSpec {
        name,
        size,
        sector: SECTOR,
        max_io,
        depth: DEPTH,
        queue_depth: DEPTH,
        write_cache,
    };
    Ok(Box::new(Measured {
        spec,
        figures,
        rng: Rng::stream(options.seed, name),
        free_at: [Time(0); 2],
        written_at: Time(0),
        idle_from: Time(0),
        dirty: 0,
        stalled: [Stalled::default(); 3],
    }))
}

impl Measured {
    /// Transfers data in one direction: when it may begin, and when it is done. It takes longer by `extra`.
    fn transfer(
        &mut self,
        direction: usize,
        ready: Time,
        bytes: u64,
        extra: Nanos,
    ) -> (Time, Time) {
        let figures = Rc::clone(&self.figures);
        let times = if direction == 0 { &figures.reads } else { &figures.writes };
        let start = ready.max(self.free_at[direction]);
        self.free_at[direction] = start + times.spacing.ns(bytes);
        let stall = self.stalled[direction].next(&times.stalls);
        (start, start + times.at(bytes, self.rng.unit()) + stall + extra)
    }

    /// The additional time of this request, compared with one in a dense row of a single process.
    fn extra(&self, now: Time, kind: IoKind) -> Nanos {
        // Nothing is in flight, so the device has been idle since its last request was done.
        let idle = (now > self.idle_from).then(|| now - self.idle_from);
        let waking = idle.map_or(0, |idle| self.figures.after_pause(kind, idle));
        waking + self.figures.mounted_ns
    }
}

impl DeviceModel for Measured {
    fn spec(&self) -> ModelSpec {
        self.spec
    }

    fn serve(&mut self, now: Time, access: &Access, supply: Supply) -> Service {
        let mut parts = TimeBreakdown::default();
        let extra = self.extra(now, access.kind);
        let (first, done) = match access.kind {
            IoKind::Read => {
                let (start, done) = self.transfer(0, now, access.len, extra);
                parts.queue_ns = start - now;
                (start, done)
            }
            IoKind::Write => {
                let ready = now.max(supply.last);
                let (start, done) = self.transfer(1, ready, access.len, extra);
                (parts.bus_ns, parts.queue_ns) = (ready - now, start - ready);
                self.written_at = self.written_at.max(done);
                self.dirty = self.dirty.saturating_add(access.len);
                (now, done)
            }
            IoKind::Flush if self.spec.write_cache => {
                let stall = self.stalled[FLUSHES].next(&self.figures.flushes.stalls);
                let took = self.figures.flushes.at(self.dirty, self.rng.unit()) + stall + extra;
                let done = now.max(self.written_at) + took;
                self.dirty = 0;
                parts.flush_ns = done - now;
                (now, done)
            }
            IoKind::Flush | IoKind::Discard => (now, now),
        };
        parts.transfer_ns = (done - now) - parts.total_ns();
        self.idle_from = self.idle_from.max(done);
        Service { first, done, parts }
    }
}

/// Figures for tests that go over all models.
#[cfg(test)]
pub(crate) fn figures_for_tests() -> MeasuredFigures {
    let sample = |bytes, us: &[u64]| Sample {
        bytes,
        times_ns: us.iter().map(|us| us * twin_rt::MICROS).collect(),
    };
    let spacing = Spacing { request_ns: 10 * twin_rt::MICROS, byte_ps: 1000 };
    let times = |samples: Vec<Sample>| Times { samples, spacing, stalls: Stalls::default() };
    MeasuredFigures {
        max_io: 1 << 20,
        reads: times(vec![sample(4096, &[50, 60, 100]), sample(8192, &[100, 120, 200])]),
        writes: times(vec![sample(4096, &[30])]),
        flushes: times(vec![sample(0, &[5]), sample(1 << 20, &[1005])]),
        ..MeasuredFigures::default()
    }
}

#[cfg(test)]
mod tests {
    use super::figures_for_tests as figures;
    use super::*;
    use twin_rt::MICROS;

    fn device() -> Box<dyn DeviceModel> {
        let measured = Some(Rc::new(figures()));
        make("measured", &Options { measured, size: Some(1 << 20), ..Options::default() }).unwrap()
    }

    fn took(device: &mut dyn DeviceModel, now: Time, kind: IoKind, len: u64) -> Nanos {
        let access = Access { kind, at: 0, len };
        let service = device.serve(now, &access, Supply::at_once(now));
        assert_eq!(service.parts.total_ns(), service.done - now);
        service.done - now
    }

    #[test]
    fn times_between_two_sizes_are_interpolated_and_beyond_them_they_grow() {
        let reads = figures().reads;
        assert_eq!(reads.at(4096, 0.0), 50 * MICROS);
        assert_eq!(reads.at(6144, 0.5), 90 * MICROS);
        assert_eq!(reads.at(12288, 0.99), 300 * MICROS);
        assert_eq!(reads.at(512, 0.0), 50 * MICROS);
        assert_eq!(figures().writes.at(1 << 20, 0.5), 30 * MICROS);
    }

    #[test]
    fn draws_keep_the_mean_of_what_was_measured() {
        let mut device = device();
        let each = |i: u64| took(&mut *device, Time(i * 1_000_000), IoKind::Read, 4096);
        let mean = (1..=3000).map(each).sum::<Nanos>() / 3000;
        assert!(mean.abs_diff(70 * MICROS) < MICROS, "{mean}");
    }

    /// One stall in 2,000 flushes once made every flush longer, as the mean of a part that was drawn once in
    /// twenty.
    #[test]
    fn stalls_have_their_true_share_and_none_befalls_a_short_run() {
        let (of, count) = (2000, 1);
        let longer_ns = vec![100_000 * MICROS];
        let mut figures = figures();
        figures.reads = Times {
            samples: vec![Sample { bytes: 4096, times_ns: vec![50 * MICROS] }],
            ..figures.reads
        };
        figures.reads.stalls = Stalls { of, count, longer_ns };
        let measured = Some(Rc::new(figures));
        let options = Options { measured, size: Some(1 << 20), ..Options::default() };
        let mut device = make("measured", &options).unwrap();
        let mut each = |i: u64| took(&mut *device, Time(i * 1_000_000_000), IoKind::Read, 4096);
        let first: Nanos = (0..900).map(&mut each).max().unwrap();
        assert_eq!(first, 50 * MICROS, "fewer than half of 2,000 have none");
        let mut all: Vec<Nanos> = (900..20_900).map(each).collect();
        assert_eq!(all.iter().sum::<Nanos>() / 20_000, (50 + 50) * MICROS, "100 ms / 2,000");
        all.sort_unstable();
        assert_eq!(all[10_000], 50 * MICROS, "the median does not move");
    }

    #[test]
    fn stalls_of_all_lengths_come_in_turn() {
        let longer_ns: Vec<Nanos> = (1..=10).collect();
        let stalls = Stalls { of: 100, count: 10, longer_ns };
        assert_eq!(stalls.longer(0), 6, "the one in the middle first");
        let mean = (0..1000).map(|n| stalls.longer(n)).sum::<Nanos>() as f64 / 1000.0;
        assert!((mean - 5.5).abs() < 0.02, "{mean}");
        assert_eq!(Stalled::default().next(&Stalls::default()), 0);
    }

    #[test]
    fn requests_in_flight_together_are_spaced() {
        let mut device = device();
        let last = (0..100).map(|_| took(&mut *device, Time(0), IoKind::Write, 4096)).max();
        // 99 spacings of 10 us and 4096 ns, then the write's own time.
        assert_eq!(last, Some(99 * (10 * MICROS + 4096) + 30 * MICROS));
    }

    #[test]
    fn a_request_after_a_pause_takes_longer() {
        let pause = |idle_us: u64, us: u64| Pause {
            idle_ns: idle_us * MICROS,
            read_ns: us * MICROS,
            write_ns: 2 * us * MICROS,
            flush_ns: 3 * us * MICROS,
        };
        let pauses = vec![pause(100, 10), pause(300, 20)];
        let figures = MeasuredFigures { pauses, mounted_ns: 7 * MICROS, ..figures() };
        let measured = Some(Rc::new(figures));
        let options = Options { measured, size: Some(1 << 20), ..Options::default() };
        let mut device = make("measured", &options).unwrap();
        // In flight until 100 us, or half a pause, then the longest measured, a longer one, none.
        let mut at = |us, kind| took(&mut *device, Time(us * MICROS), kind, 4096) / MICROS;
        assert_eq!(at(50, IoKind::Write), 30 + 7 + 10);
        assert_eq!(at(297, IoKind::Write), 30 + 7 + 2 * 15);
        assert_eq!(at(664, IoKind::Write), 30 + 7 + 2 * 20);
        assert_eq!(at(9741, IoKind::Write), 30 + 7 + 2 * 20);
        assert_eq!(at(9760, IoKind::Write), 30 + 7);
    }

    #[test]
    fn a_flush_waits_for_writes_and_takes_longer_after_more_of_them() {
        let mut device = device();
        assert_eq!(took(&mut *device, Time(0), IoKind::Flush, 0), 5 * MICROS);
        for _ in 0..128 {
            took(&mut *device, Time(1_000_000_000), IoKind::Write, 4096);
        }
        let after = took(&mut *device, Time(2_000_000_000), IoKind::Flush, 0);
        assert_eq!(after, 505 * MICROS);
        assert_eq!(took(&mut *device, Time(3_000_000_000), IoKind::Flush, 0), 5 * MICROS);
    }
}
