//! Studies of caches: the misses of replacement policies over the size of the cache, for a trace, and the
//! time that a disk takes for them.
//!
//! The policies are those that mounts and simulations use. [`Accesses`] are the reads and writes of a
//! trace to blocks, or to whole objects; [`Study`] runs every policy with every size on them, one run a
//! thread, with the same results as on one thread.

mod device;
mod load;
mod packed;
mod report;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use serde::Serialize;
use twin_cache::study::{self, Blocks, LruSizes, Objects, Observer, Weights};
use twin_cache::{Capacity, Policy, Rules};
use twin_report::Report;
use twin_settings::{RegistryEntry, outside};
use twin_sim::model;

use device::{Device, Places};
use packed::{CHUNK, Packed};

pub use load::{Accesses, Input, LoadError, Loaded, load};
pub use report::report;

/// A replacement policy with its name.
pub type PolicyEntry = RegistryEntry<Policy>;
/// A disk model with its name.
pub type DiskEntry = RegistryEntry<model::Known>;

/// What is studied.
#[derive(Clone)]
pub struct Study {
    /// The accesses.
    pub accesses: Arc<Accesses>,
    /// The policies.
    pub policies: Vec<&'static PolicyEntry>,
    /// The sizes of the cache in bytes.
    pub sizes: Vec<u64>,
    /// The rules for objects of different sizes.
    pub rules: Rules,
    /// The disk below the cache.
    pub disk: Option<&'static DiskEntry>,
}

/// What a policy did with a size of the cache.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    /// The policy.
    pub policy: &'static str,
    /// The size of the cache in bytes.
    #[serde(rename = "size_bytes")]
    pub size: u64,
    /// The number of accesses.
    pub requests: u64,
    /// Those that did not find their block or object.
    pub misses: u64,
    /// What the disk did, if there is one.
    #[serde(flatten)]
    pub device: Option<DeviceRow>,
}

/// What the disk did for a cache.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct DeviceRow {
    /// Reads of the disk; neighbours that are missed one after the other are read together.
    pub device_reads: u64,
    /// Writes of the disk: of what was evicted while it was dirty, and of all that is dirty at the end.
    pub device_writes: u64,
    /// The time of the reads, one after the other.
    pub read_ms: f64,
    /// The time of the writes.
    pub write_ms: f64,
    /// The time of both.
    pub device_ms: f64,
}

impl Row {
    /// The share of accesses that were misses.
    pub(crate) fn miss_ratio(&self) -> f64 {
        self.misses as f64 / self.requests.max(1) as f64
    }
}

/// One run: a policy with all sizes, or with one.
enum Job {
    All(usize),
    One(usize, usize),
}

impl Study {
    /// That it can be run.
    ///
    /// # Errors
    /// If a size holds no block, or the disk cannot hold what the trace touches.
    pub fn check(&self) -> Result<(), String> {
        let unit = if self.accesses.sizes.is_some() { 1 } else { self.accesses.block_bytes };
        if let Some(size) = self.sizes.iter().find(|size| **size < unit) {
            return Err(format!("a cache of {size} bytes does not hold one block of {unit}"));
        }
        if let Some(disk) = self.disk {
            Places::new(&self.accesses, &*device::model_of(disk)?)?;
        }
        Ok(())
    }

    /// The number of accesses that all runs make together.
    pub fn work(&self) -> u64 {
        self.jobs().len() as u64 * self.accesses.len() as u64
    }

    /// The number of accesses that a study without shared passes would make.
    pub fn simulated(&self) -> u64 {
        (self.policies.len() * self.sizes.len() * self.accesses.len()) as u64
    }

    fn jobs(&self) -> Vec<Job> {
        let at_once = self.accesses.sizes.is_none() && self.disk.is_none();
        let mut jobs = Vec::new();
        for (at, policy) in self.policies.iter().enumerate() {
            if at_once && policy.is_lru() && self.sizes.len() < 200 {
                jobs.push(Job::All(at));
            } else {
                jobs.extend((0..self.sizes.len()).map(|size| Job::One(at, size)));
            }
        }
        jobs
    }

    /// Runs all on up to `threads` threads; the rows are in the order of the policies and sizes. Calls
    /// `progress` from any thread with the number of accesses that were made since the last call, and `found` with
    /// the place of each row.
    ///
    /// # Errors
    /// As [`check`](Self::check), and if a policy from outside failed.
    pub fn run(
        &self,
        threads: usize,
        progress: &(dyn Fn(u64) + Sync),
        found: &(dyn Fn(usize, &Row) + Sync),
    ) -> Result<Vec<Row>, String> {
        self.check()?;
        let jobs = self.jobs();
        let next = match self.policies.iter().any(|policy| policy.needs_future()) {
            true => self.accesses.numbers.next_equal(self.accesses.blocks),
            false => Packed::default(),
        };
        let (at, rows) = (AtomicUsize::new(0), Mutex::new(vec![None; self.rows()]));
        let failed = Mutex::new(None);
        let work = || {
            while let Some(job) = jobs.get(at.fetch_add(1, Ordering::Relaxed)) {
                let _ = outside::take_fault_of_run();
                for (place, row) in self.job(job, &next, progress) {
                    found(place, &row);
                    rows.lock().unwrap_or_else(PoisonError::into_inner)[place] = Some(row);
                }
                if let Some(words) = outside::take_fault_of_run() {
                    failed.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(words);
                }
            }
        };
        std::thread::scope(|scope| {
            for _ in 1..threads.clamp(1, jobs.len().max(1)) {
                scope.spawn(work);
            }
            work();
        });
        if let Some(words) = failed.into_inner().unwrap_or_else(PoisonError::into_inner) {
            return Err(words);
        }
        let rows = rows.into_inner().unwrap_or_else(PoisonError::into_inner);
        Ok(rows.into_iter().flatten().collect())
    }

    /// The number of rows: a policy with each size, and then the next one.
    pub fn rows(&self) -> usize {
        self.policies.len() * self.sizes.len()
    }

    /// The report on those policies of which every size has ended, by the places of their rows.
    pub fn partial(&self, title: &str, ended: &BTreeMap<usize, Row>) -> Report {
        let count = self.sizes.len();
        let of = |policy: usize| (policy * count..(policy + 1) * count).map(|at| ended.get(&at));
        let (mut policies, mut rows) = (Vec::new(), Vec::new());
        for (at, policy) in self.policies.iter().enumerate() {
            if let Some(all) = of(at).collect::<Option<Vec<&Row>>>() {
                policies.push(*policy);
                rows.extend(all.into_iter().cloned());
            }
        }
        match policies.is_empty() {
            true => Report::answer("cache", format!("Caches for {title}")),
            false => report(title, &Study { policies, ..self.clone() }, &rows),
        }
    }

    fn job(&self, job: &Job, next: &Packed, progress: &(dyn Fn(u64) + Sync)) -> Vec<(usize, Row)> {
        match *job {
            Job::All(policy) => self.all_sizes(policy, progress),
            Job::One(policy, size) => {
                let row = match &self.accesses.sizes {
                    Some(weights) => self.one(policy, size, Objects(weights), next, progress),
                    None => self.one(policy, size, Blocks, next, progress),
                };
                vec![(policy * self.sizes.len() + size, row)]
            }
        }
    }

    fn row(&self, policy: usize, size: usize, misses: u64) -> Row {
        let requests = self.accesses.len() as u64;
        let (policy, size) = (self.policies[policy].name, self.sizes[size]);
        Row { policy, size, requests, misses, device: None }
    }

    /// The blocks, or bytes of objects, that a size holds.
    fn units(&self, size: usize) -> u64 {
        let unit = if self.accesses.sizes.is_some() { 1 } else { self.accesses.block_bytes };
        self.sizes[size] / unit
    }

    /// LRU for all sizes in one pass.
    fn all_sizes(&self, policy: usize, progress: &(dyn Fn(u64) + Sync)) -> Vec<(usize, Row)> {
        // With more frames than blocks nothing changes any more.
        let frames = |size| self.units(size).min(u64::from(self.accesses.blocks)).max(1) as u32;
        let mut sizes: Vec<u32> = (0..self.sizes.len()).map(frames).collect();
        sizes.sort_unstable();
        sizes.dedup();
        let mut lru = LruSizes::new(&sizes, self.accesses.blocks);
        let mut step = Vec::new();
        for at in 0..self.accesses.numbers.chunks() {
            self.accesses.numbers.chunk(at, &mut step);
            lru.feed(step.iter().copied());
            progress(step.len() as u64);
        }
        let misses = lru.misses();
        let row = |size: usize| {
            let at = sizes.binary_search(&frames(size)).unwrap_or_default();
            (policy * self.sizes.len() + size, self.row(policy, size, misses[at]))
        };
        (0..self.sizes.len()).map(row).collect()
    }

    fn one<W: Weights>(
        &self,
        policy: usize,
        size: usize,
        weights: W,
        next: &Packed,
        progress: &(dyn Fn(u64) + Sync),
    ) -> Row {
        let units = self.units(size);
        let mean = self.accesses.mean_weight();
        let capacity = Capacity { units, mean, rules: self.rules };
        let made = self.policies[policy].make(capacity);
        let mut run = study::Study::new(made, capacity, self.accesses.blocks, weights);
        let next = self.policies[policy].needs_future().then_some(next);
        let device = self.disk.and_then(|disk| Device::new(disk, &self.accesses).ok());
        let device = match device {
            None => {
                feed(&mut run, &self.accesses.numbers, next, &mut (), progress);
                None
            }
            Some(mut device) => {
                feed(&mut run, &self.accesses.numbers, next, &mut device, progress);
                Some(device.finish())
            }
        };
        Row { device, ..self.row(policy, size, run.misses()) }
    }
}

fn feed<W: Weights, O: Observer>(
    run: &mut study::Study<W>,
    accesses: &Packed,
    next: Option<&Packed>,
    observer: &mut O,
    progress: &(dyn Fn(u64) + Sync),
) {
    let (mut step, mut further) = (Vec::new(), Vec::new());
    for at in 0..accesses.chunks() {
        accesses.chunk(at, &mut step);
        let blocks = step.iter().copied();
        match next {
            Some(next) => {
                next.chunk(at, &mut further);
                let place = |offset: usize| (at * CHUNK + offset) as u32;
                let next = further.iter().enumerate().map(|(offset, more)| match more {
                    0 => u32::MAX,
                    more => place(offset) + more,
                });
                run.feed_with_future(blocks.zip(next), observer);
            }
            None => run.feed(blocks, observer),
        }
        progress(step.len() as u64);
    }
}

/// Sizes over which a curve is drawn if none are given: shares of what the trace touches, in whole
/// blocks.
pub fn default_sizes(accesses: &Accesses) -> Vec<u64> {
    const SHARES: [f64; 11] = [0.001, 0.003, 0.01, 0.02, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0];
    let all = accesses.footprint_bytes();
    let block = if accesses.sizes.is_some() { 512 } else { accesses.block_bytes };
    let size = |share: &f64| ((all as f64 * share) as u64 / block).max(1) * block;
    let mut sizes: Vec<u64> = SHARES.iter().map(size).collect();
    sizes.dedup();
    sizes
}

#[cfg(test)]
mod tests;
