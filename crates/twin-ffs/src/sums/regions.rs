//! Regions in memory: their checksums, and whether they are in doubt.
//!
//! Contract: bookkeeping without waiting. A region that is in doubt stays in memory; of the others some are
//! kept. Its version grows with each write, so that whoever waited can see that it was written.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use twin_rt::Time;

/// Regions that are kept in memory beside those in doubt: 16 MiB of checksums.
const KEPT: usize = 4096;

struct Region {
    sums: Vec<u32>,
    in_doubt: bool,
    /// Writes under way.
    writes: u32,
    version: u64,
    /// When it was last written.
    last: Time,
}

/// See the module.
#[derive(Default)]
pub(super) struct Regions {
    all: BTreeMap<u32, Region>,
    /// Those in doubt.
    doubts: BTreeSet<u32>,
    versions: u64,
}

impl Regions {
    pub(super) fn has(&self, region: u32) -> bool {
        self.all.contains_key(&region)
    }

    /// The number of regions in doubt.
    pub(super) fn doubts(&self) -> usize {
        self.doubts.len()
    }

    /// Adds a region at rest, unless it is there.
    pub(super) fn insert(&mut self, region: u32, sums: Vec<u32>) {
        if self.has(region) {
            return;
        }
        if self.all.len() >= self.doubts.len() + KEPT {
            // The one that was needed first: those of a request that is under way are among the last.
            let idle = self.all.iter().filter(|(_, r)| !r.in_doubt && r.writes == 0);
            let oldest = idle.min_by_key(|(_, r)| r.version).map(|(&number, _)| number);
            oldest.map(|number| self.all.remove(&number));
        }
        let (last, version) = (Time(0), self.next());
        self.all.insert(region, Region { sums, in_doubt: false, writes: 0, version, last });
    }

    /// Adds a region that is in doubt on the device.
    pub(super) fn insert_in_doubt(&mut self, region: u32, sums: Vec<u32>, now: Time) {
        self.insert(region, sums);
        self.set_in_doubt(region, now);
    }

    /// Adds a region in which nothing is compared.
    pub(super) fn insert_unknown(&mut self, region: u32) {
        self.insert(region, Vec::new());
        self.set_in_doubt(region, Time(0));
    }

    fn next(&mut self) -> u64 {
        self.versions += 1;
        self.versions
    }

    pub(super) fn is_in_doubt(&self, region: u32) -> bool {
        self.doubts.contains(&region)
    }

    pub(super) fn set_in_doubt(&mut self, region: u32, now: Time) {
        if let Some(found) = self.all.get_mut(&region) {
            (found.in_doubt, found.last) = (true, now);
            self.doubts.insert(region);
        }
    }

    /// A write to regions in doubt begins.
    pub(super) fn begin(&mut self, regions: Range<u32>) {
        for region in regions {
            let version = self.next();
            if let Some(found) = self.all.get_mut(&region) {
                (found.writes, found.version) = (found.writes + 1, version);
            }
        }
    }

    /// It has ended.
    pub(super) fn end(&mut self, regions: Range<u32>, now: Time) {
        for region in regions {
            if let Some(found) = self.all.get_mut(&region) {
                (found.writes, found.last) = (found.writes - 1, now);
            }
        }
    }

    /// Regions in doubt without writes under way that were not written for a while, with their versions.
    pub(super) fn idle(&self, now: Time, idle_ns: u64) -> Vec<(u32, u64)> {
        let found = self.doubts.iter().filter_map(|number| Some((*number, self.all.get(number)?)));
        let idle = found.filter(|(_, r)| r.writes == 0 && now.since(r.last) >= idle_ns);
        idle.map(|(number, region)| (number, region.version)).collect()
    }

    /// Says that a region is at rest, if it was not written since it had this version.
    pub(super) fn rest(&mut self, region: u32, version: u64) -> bool {
        let Some(found) = self.all.get_mut(&region) else { return false };
        let is_at_rest = found.writes == 0 && found.version == version;
        if is_at_rest {
            found.in_doubt = false;
            self.doubts.remove(&region);
        }
        is_at_rest
    }

    pub(super) fn is_at_rest(&self, region: u32) -> bool {
        self.all.get(&region).is_none_or(|found| !found.in_doubt && found.writes == 0)
    }

    pub(super) fn version(&self, region: u32) -> u64 {
        self.all.get(&region).map_or(0, |found| found.version)
    }

    pub(super) fn versions(&self, regions: Range<u32>) -> Vec<u64> {
        regions.map(|region| self.version(region)).collect()
    }

    /// True if something is being written to one of the regions.
    pub(super) fn is_busy(&self, mut regions: Range<u32>) -> bool {
        regions.any(|region| self.all.get(&region).is_some_and(|found| found.writes > 0))
    }

    pub(super) fn sums(&self, region: u32) -> Option<Vec<u32>> {
        self.all.get(&region).map(|found| found.sums.clone())
    }

    /// A checksum; 0 if it is not known.
    pub(super) fn sum(&self, region: u32, nth: usize) -> u32 {
        self.all.get(&region).and_then(|found| found.sums.get(nth)).copied().unwrap_or(0)
    }

    pub(super) fn set(&mut self, region: u32, nth: usize, sum: u32) {
        if let Some(at) = self.all.get_mut(&region).and_then(|found| found.sums.get_mut(nth)) {
            *at = sum;
        }
    }
}
