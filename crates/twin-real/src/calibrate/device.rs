//! The device under a directory: distributions of times by kind, size and number in flight.
//!
//! Through our own way to devices, as a mount uses it. Requests go to random places of a file that is
//! written in full, and sparse writes to a file without blocks; or to random places of all of a device,
//! whose contents are lost.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};

use twin_disk::IoError;
use twin_lab::{Device, Pause, Stalls, Transfers, distributions};
use twin_mount::content::must_be_blank;
use twin_rt::MICROS;

use super::bench::Bench;
use super::rounds::kept;
use crate::probe::{Probe, SPIN_NS};
use crate::runner::median;

const FILE: u64 = 256 << 20;
const SMALL: u64 = 4096;
const LARGE: u64 = 1 << 20;
/// Sizes of requests, and how many are measured a round.
const SIZES: [(u64, usize); 5] =
    [(SMALL, 250), (16 << 10, 80), (64 << 10, 60), (256 << 10, 30), (LARGE, 12)];
/// Bytes written before a flush, and how many flushes are measured a round. Small ones decide what a sync
/// takes, so there are thousands of them: a stall among few says nothing of its share.
const DIRTY: [(u64, usize); 4] = [(SMALL, 500), (64 << 10, 60), (LARGE, 20), (16 << 20, 3)];
/// Sizes of writes into a sparse file, each flushed, and how many a round.
const SPARSE: [(u64, usize); 3] = [(SMALL, 10), (64 << 10, 10), (LARGE, 5)];
/// Numbers of requests in flight.
const DEPTHS: [usize; 6] = [1, 2, 4, 8, 16, 32];
/// Requests for each of them, a round.
const AT_DEPTH: usize = 256;
/// Large requests in flight, and how many a round, for the bandwidth.
const LARGE_AT_ONCE: usize = 4;
const LARGE_COUNT: usize = 32;
/// Pauses before requests in microseconds, and how many of each kind are measured a round. The first are
/// those with which the others are compared.
const PAUSES: [(u64, usize); 6] =
    [(0, 20), (100, 16), (300, 12), (1000, 10), (3000, 8), (10_000, 6)];
/// With fewer requests of a kind after a pause nothing is known of it.
const FEWEST_PAUSES: usize = 8;
/// Kinds of requests before which there are pauses.
const PAUSED: [&str; 3] = [READ, WRITE, FLUSH];
const READ: &str = "paused read";
const WRITE: &str = "paused write";
const FLUSH: &str = "paused flush";
/// How long nothing was in flight.
const IDLE: &str = "nothing in flight";
/// A row of requests of one kind and size takes no longer than this: a disk that turns is measured in fewer.
const ROW_S: f64 = 0.4;
/// Into so many parts a distribution is divided.
const PARTS: usize = 20;

/// Steps of a round.
pub(super) const STEPS: u64 = 1;

/// The results of all rounds, by kind and bytes.
pub(super) struct Samples {
    target: Target,
    rounds: u64,
    /// The most bytes that a request can have.
    max_request: u32,
    times: BTreeMap<(&'static str, u64), Vec<Vec<f64>>>,
    rates: BTreeMap<(&'static str, usize), Vec<f64>>,
    bandwidth: BTreeMap<&'static str, Vec<f64>>,
}

/// What is measured.
pub(super) enum Target {
    /// The device under the directory in which the calibration works.
    Under,
    /// This device, all of it.
    Whole(PathBuf),
}

impl Samples {
    /// Nothing is measured yet.
    pub(super) fn new(target: Target) -> Samples {
        Samples {
            target,
            rounds: 0,
            max_request: 0,
            times: BTreeMap::new(),
            rates: BTreeMap::new(),
            bandwidth: BTreeMap::new(),
        }
    }

    /// What can hold a volume to be measured: written in full, and its contents may be lost.
    ///
    /// # Errors
    /// If the file cannot be made.
    pub(super) fn image(&self, bench: &Bench<'_>) -> Result<PathBuf, String> {
        match &self.target {
            Target::Under => full_file(bench),
            Target::Whole(path) => Ok(path.clone()),
        }
    }

    /// Medians of each kind and size, by round.
    pub(super) fn figures(&self) -> Vec<Vec<f64>> {
        let medians = |rounds: &Vec<Vec<f64>>| rounds.iter().cloned().map(median).collect();
        let of_work = self.times.iter().filter(|((kind, _), _)| *kind != IDLE);
        of_work.map(|(_, rounds)| medians(rounds)).collect()
    }

    /// Forgets the rounds that do not stay.
    pub(super) fn keep(&mut self, stays: &[bool]) {
        let times = self.times.values_mut();
        times.for_each(|rounds| *rounds = kept(std::mem::take(rounds), stays));
        let rates = self.rates.values_mut().chain(self.bandwidth.values_mut());
        rates.for_each(|rounds| *rounds = kept(std::mem::take(rounds), stays));
    }

    /// Measures all once.
    pub(super) fn round(&mut self, bench: &Bench<'_>) -> Result<(), String> {
        let path = self.image(bench)?;
        let mut probe = Probe::open(&path, SPIN_NS, self.rounds)?.limited(ROW_S);
        self.max_request = probe.info().max_io;
        let measured = probe.run(async |probe| self.requests(probe).await);
        measured.map_err(|e| format!("{}: {e}", path.display()))?;
        drop(probe);
        // A device has no holes.
        if matches!(self.target, Target::Under) {
            sparse(bench, self)?;
        }
        self.rounds += 1;
        bench.step()
    }

    /// A round of all but sparse writes.
    async fn requests(&mut self, probe: &mut Probe) -> Result<(), IoError> {
        for (bytes, count) in SIZES {
            let times = probe.alone(count, |probe| probe.read(bytes)).await?;
            self.times.entry(("read", bytes)).or_default().push(times);
            let times = probe.alone(count, |probe| probe.write(bytes)).await?;
            self.times.entry(("write", bytes)).or_default().push(times);
        }
        for (bytes, count) in DIRTY {
            let times = probe.flushes(bytes, count).await?;
            self.times.entry(("flush", bytes)).or_default().push(times);
        }
        for (pause, _) in PAUSES {
            for kind in PAUSED.into_iter().chain([IDLE]) {
                self.times.entry((kind, pause)).or_default().push(Vec::new());
            }
        }
        for (pause, count) in PAUSES {
            self.after_pause(probe, pause, count).await?;
        }
        for depth in DEPTHS {
            let rate = probe.rate(depth, AT_DEPTH, |probe| probe.read(SMALL)).await?;
            self.rates.entry(("read", depth)).or_default().push(rate);
            let rate = probe.rate(depth, AT_DEPTH, |probe| probe.write(SMALL)).await?;
            self.rates.entry(("write", depth)).or_default().push(rate);
        }
        let (at_once, count) = (LARGE_AT_ONCE, LARGE_COUNT);
        let rate = probe.rate(at_once, count, |probe| probe.read(LARGE)).await?;
        self.bandwidth.entry("read").or_default().push(rate * LARGE as f64);
        let rate = probe.rate(at_once, count, |probe| probe.write(LARGE)).await?;
        self.bandwidth.entry("write").or_default().push(rate * LARGE as f64);
        Ok(())
    }

    /// Times of a read, a write and a flush of it, each after a pause of so many microseconds, again and
    /// again.
    async fn after_pause(
        &mut self,
        probe: &mut Probe,
        pause: u64,
        count: usize,
    ) -> Result<(), IoError> {
        for _ in 0..count {
            for kind in PAUSED {
                let io = match kind {
                    READ => probe.read(SMALL),
                    WRITE => probe.write(SMALL),
                    _ => Probe::flush(),
                };
                let before = probe.now();
                if pause > 0 {
                    probe.sleep(pause * MICROS).await;
                }
                let idle = (probe.now() - before) * 1e6;
                let took = probe.time(io).await?;
                for (kind, us) in [(kind, took), (IDLE, idle)] {
                    let rounds = self.times.get_mut(&(kind, pause_of(idle)));
                    rounds
                        .and_then(|rounds| rounds.last_mut())
                        .into_iter()
                        .for_each(|all| all.push(us));
                }
            }
        }
        Ok(())
    }
}

/// Checks that a device can be measured: nobody uses it, it is large enough, and it is blank unless its
/// contents may be lost.
///
/// # Errors
/// In words, if not.
pub(super) fn check(device: &Path, force: bool) -> Result<(), String> {
    let probe = Probe::open(device, SPIN_NS, 0)?;
    let bytes = probe.info().size;
    if bytes < FILE {
        return Err(format!(
            "{} has {bytes} bytes: too small a device to be measured, which takes {FILE}",
            device.display()
        ));
    }
    if force { Ok(()) } else { must_be_blank(device) }
}

/// The file on the device, made in the first round.
fn full_file(bench: &Bench<'_>) -> Result<PathBuf, String> {
    let full = bench.dir().join("full");
    if !full.exists() {
        bench.runner.full_file(&full, FILE, None)?;
    }
    Ok(full)
}

/// The device. `request_us` is the processor's time for a request, which is not part of the device's
/// times.
pub(super) fn device(bench: &mut Bench<'_>, samples: Samples, request_us: f64) -> Device {
    let max_request = samples.max_request;
    let mut list = |kind: &'static str, sizes: &[(u64, usize)]| {
        let of = |bytes| samples.times.get(&(kind, bytes)).cloned().unwrap_or_default();
        let measured = sizes.iter().map(|&(bytes, _)| (bytes, of(bytes)));
        let measured: Vec<_> = measured.filter(|(_, rounds)| !rounds.is_empty()).collect();
        for (bytes, rounds) in &measured {
            let medians: Vec<f64> = rounds.iter().cloned().map(median).collect();
            bench.judge(&format!("{kind} of {bytes} bytes"), &medians);
        }
        let without_processor = |us: f64| (us - request_us).max(0.1);
        let times = |(bytes, rounds): (u64, Vec<Vec<f64>>)| {
            (bytes, rounds.concat().into_iter().map(without_processor).collect())
        };
        let (list, stalls) = distributions(measured.into_iter().map(times), PARTS);
        let usual_us = list.first().map_or(0.0, twin_lab::Distribution::median);
        bench.judge_stalls(kind, &stalls, usual_us);
        (list, stalls)
    };
    let (read, write) = (list("read", &SIZES), list("write", &SIZES));
    let ((flush, flush_stalls), (write_sparse, _)) =
        (list("flush", &DIRTY), list("sparse", &SPARSE));
    let transfers = |kind: &'static str, (alone, stalls): (_, Stalls)| {
        let rate = |depth| samples.rates.get(&(kind, depth)).cloned().unwrap_or_default();
        let rate_4k = DEPTHS.map(|depth| (format!("{depth:02}"), median(rate(depth)).round()));
        let bandwidth = samples.bandwidth.get(kind).cloned().unwrap_or_default();
        let bytes_per_s = median(bandwidth).round();
        Transfers { alone, rate_4k: rate_4k.into(), bytes_per_s, stalls }
    };
    let (read, write) = (transfers("read", read), transfers("write", write));
    let after_pause = after_pauses(&samples);
    Device {
        max_request,
        read,
        write,
        flush,
        flush_stalls,
        write_sparse,
        after_pause,
        ..Device::default()
    }
}

/// The pause as which one of this length in microseconds counts: a sleep lasts longer than it should, on a busy
/// machine many times as long.
fn pause_of(us: f64) -> u64 {
    let pauses = PAUSES.iter().rev().map(|&(pause, _)| pause);
    pauses.into_iter().find(|&pause| us >= pause as f64).unwrap_or(0)
}

/// What requests take longer after each pause than without one: differences of medians over all rounds. Pauses that
/// hardly came are left out.
fn after_pauses(samples: &Samples) -> Vec<Pause> {
    let all = |kind, pause| samples.times.get(&(kind, pause)).cloned().unwrap_or_default().concat();
    let of = |kind, pause| median(all(kind, pause));
    let tenth = |us: f64| (us * 10.0).round() / 10.0;
    let longer = |kind, pause| tenth((of(kind, pause) - of(kind, 0)).max(0.0));
    let pause = |&(pause, _): &(u64, usize)| Pause {
        idle_us: tenth(of(IDLE, pause)),
        read_us: longer(READ, pause),
        write_us: longer(WRITE, pause),
        flush_us: longer(FLUSH, pause),
    };
    let known = |(pause, _): &&(u64, usize)| {
        PAUSED.iter().all(|kind| all(kind, *pause).len() >= FEWEST_PAUSES)
    };
    PAUSES[1..].iter().filter(known).map(pause).collect()
}

/// Writes into a file that has no blocks there, each flushed.
fn sparse(bench: &Bench<'_>, samples: &mut Samples) -> Result<(), String> {
    let path = bench.dir().join("sparse");
    let said = |error: std::io::Error| format!("{}: {error}", path.display());
    let file = File::create_new(&path).map_err(said)?;
    file.set_len(FILE).map_err(said)?;
    drop(file);
    let mut probe = Probe::open(&path, SPIN_NS, samples.rounds)?;
    probe.run(async |probe| {
        for (bytes, count) in SPARSE {
            let mut times = Vec::with_capacity(count);
            for _ in 0..count {
                let write = probe.write(bytes);
                times.push(probe.time(write).await? + probe.time(Probe::flush()).await?);
            }
            samples.times.entry(("sparse", bytes)).or_default().push(times);
        }
        Ok(())
    })?;
    drop(probe);
    std::fs::remove_file(&path).map_err(said)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pause_counts_as_what_it_was_and_not_as_what_it_should_have_been() {
        assert_eq!([3.0, 99.0, 120.0, 3900.0, 90_000.0].map(pause_of), [0, 0, 100, 3000, 10_000]);
    }

    #[test]
    fn pauses_are_ascending_on_a_machine_that_sleeps_long() {
        let mut samples = Samples::new(Target::Under);
        for (pause, took) in [(0, 40.0), (300, 60.0), (3000, 90.0)] {
            for kind in PAUSED {
                samples.times.insert((kind, pause), vec![vec![took; 5], vec![took + 2.0; 5]]);
            }
            samples.times.insert((IDLE, pause), vec![vec![pause as f64 + 50.0; 30]]);
        }
        samples.times.insert((READ, 1000), vec![vec![70.0; 3]]);
        let found = after_pauses(&samples);
        assert_eq!(found.iter().map(|pause| pause.idle_us).collect::<Vec<_>>(), [350.0, 3050.0]);
        assert_eq!((found[0].read_us, found[1].flush_us), (20.0, 50.0), "hardly any of 1,000 us");
    }
}
