//! The writes that a drive has reported and not yet written: which sectors wait, and which go to
//! the medium next.
//!
//! Contract: every sector that is [put](WriteCache::put) is taken by [`WriteCache::next`] exactly
//! once, unless it is put again or [dropped](WriteCache::forget) before. Sectors that touch are
//! taken together, at most [`SWEEP`] at once. A drive that reorders takes them upwards from the
//! place where the last sweep ended and begins again at the lowest (C-LOOK); another one takes them
//! in the order of arrival. The cache does not know the medium: its owner starts each sweep and
//! says when it ends.

use std::collections::BTreeMap;

use twin_rt::Time;

/// The most sectors of one sweep, 1 MiB: a read waits for no more than that. Assumed.
const SWEEP: u64 = 2048;

/// Consecutive sectors that wait.
#[derive(Clone, Copy, Debug)]
struct Extent {
    to: u64,
    /// When the last of them was in the cache.
    ready: Time,
    /// The number of the oldest write among them.
    number: u64,
}

/// Sectors to write in one go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Sweep {
    pub(super) from: u64,
    pub(super) to: u64,
    /// When all of them were in the cache.
    pub(super) ready: Time,
}

/// Writes on their way to the medium.
pub(super) struct WriteCache {
    capacity: u64,
    reorders: bool,
    /// The waiting extents by first sector; they neither overlap nor touch.
    waiting: BTreeMap<u64, Extent>,
    /// Number of sectors that are not on the medium yet.
    sectors: u64,
    /// The sweep that was taken last, and when it ends: it occupies the cache until then.
    under_way: Option<(Sweep, Time)>,
    /// The sector behind the last sweep.
    position: u64,
    count: u64,
}

impl WriteCache {
    /// An empty cache for `capacity` sectors.
    pub(super) fn new(capacity: u64, reorders: bool) -> WriteCache {
        WriteCache {
            capacity,
            reorders,
            waiting: BTreeMap::new(),
            sectors: 0,
            under_way: None,
            position: 0,
            count: 0,
        }
    }

    /// Number of sectors that the cache can hold.
    pub(super) fn capacity(&self) -> u64 {
        self.capacity
    }

    /// True if no sectors wait; a last sweep may still be under way.
    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// True if the cache has room for `sectors` more sectors at `now`.
    pub(super) fn fits(&self, now: Time, sectors: u64) -> bool {
        let leaving = self.under_way.filter(|(_, end)| *end > now);
        let leaving = leaving.map_or(0, |(sweep, _)| sweep.to - sweep.from);
        self.sectors + leaving + sectors <= self.capacity
    }

    /// True if the cache holds all of these sectors at `now`.
    pub(super) fn holds(&self, now: Time, from: u64, to: u64) -> bool {
        let waits = self.waiting.range(..=from).next_back().is_some_and(|(_, e)| to <= e.to);
        let leaves =
            |(sweep, end): &(Sweep, Time)| sweep.from <= from && to <= sweep.to && *end > now;
        waits || self.under_way.as_ref().is_some_and(leaves)
    }

    /// Adds sectors that have been received at `ready`; older content of them is dropped.
    pub(super) fn put(&mut self, mut from: u64, mut to: u64, ready: Time) {
        self.forget(from, to);
        self.sectors += to - from;
        let mut number = self.count;
        self.count += 1;
        let before = self.waiting.range(..from).next_back().map(|(&start, e)| (start, *e));
        if let Some((start, extent)) = before
            && extent.to == from
        {
            (from, number) = (start, extent.number);
        }
        if let Some(extent) = self.waiting.remove(&to) {
            (to, number) = (extent.to, number.min(extent.number));
        }
        self.waiting.insert(from, Extent { to, ready, number });
    }

    /// Drops sectors: they have been written in another way.
    pub(super) fn forget(&mut self, from: u64, to: u64) {
        // The one that reaches in from below is cut first; those that begin within follow.
        let below = self.waiting.range_mut(..from).next_back();
        if let Some((_, extent)) = below
            && extent.to > from
        {
            let rest = *extent;
            extent.to = from;
            self.sectors -= rest.to.min(to) - from;
            if rest.to > to {
                self.waiting.insert(to, rest);
            }
        }
        while let Some((&start, &extent)) = self.waiting.range(from..to).next() {
            self.waiting.remove(&start);
            self.sectors -= extent.to.min(to) - start;
            if extent.to > to {
                self.waiting.insert(to, extent);
            }
        }
    }

    /// Takes the sectors to write next. The owner says with [`WriteCache::ends`] when they are on
    /// the medium.
    pub(super) fn next(&mut self) -> Option<Sweep> {
        let from = if self.reorders {
            let up = self.waiting.range(self.position..).next();
            *up.or_else(|| self.waiting.first_key_value())?.0
        } else {
            *self.waiting.iter().min_by_key(|(_, extent)| extent.number)?.0
        };
        let extent = self.waiting.remove(&from)?;
        let to = extent.to.min(from + SWEEP);
        if to < extent.to {
            self.waiting.insert(to, extent);
        }
        self.sectors -= to - from;
        self.position = to;
        let sweep = Sweep { from, to, ready: extent.ready };
        self.under_way = Some((sweep, Time(u64::MAX)));
        Some(sweep)
    }

    /// The last sweep ends at `end`.
    pub(super) fn ends(&mut self, end: Time) {
        if let Some(under_way) = &mut self.under_way {
            under_way.1 = end;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cache(reorders: bool, writes: &[(u64, u64)]) -> WriteCache {
        let mut cache = WriteCache::new(10_000, reorders);
        for (i, &(from, to)) in writes.iter().enumerate() {
            cache.put(from, to, Time(i as u64));
        }
        cache
    }

    fn taken(cache: &mut WriteCache) -> Vec<(u64, u64)> {
        std::iter::from_fn(|| cache.next()).map(|sweep| (sweep.from, sweep.to)).collect()
    }

    #[test]
    fn a_drive_that_reorders_sweeps_upwards_and_begins_again_below() {
        let mut cache = cache(true, &[(50, 60), (10, 20), (90, 95)]);
        cache.position = 30;
        assert_eq!(taken(&mut cache), [(50, 60), (90, 95), (10, 20)]);
    }

    #[test]
    fn a_drive_that_does_not_reorder_takes_the_oldest() {
        assert_eq!(taken(&mut cache(false, &[(50, 60), (10, 20)])), [(50, 60), (10, 20)]);
    }

    #[test]
    fn writes_that_touch_leave_in_one_sweep_of_limited_length() {
        let mut joined = cache(true, &[(10, 20), (30, 40), (20, 30)]);
        assert_eq!(taken(&mut joined), [(10, 40)]);
        let mut long = cache(true, &[(0, 3000)]);
        assert_eq!(taken(&mut long), [(0, SWEEP), (SWEEP, 3000)]);
    }

    #[test]
    fn what_is_written_again_is_kept_once() {
        let mut all = cache(true, &[(10, 40), (20, 30), (35, 50)]);
        assert_eq!(all.sectors, 40);
        assert_eq!(taken(&mut all), [(10, 50)]);
        let mut holed = cache(true, &[(10, 40)]);
        holed.forget(20, 30);
        assert_eq!(holed.sectors, 20);
        assert_eq!(taken(&mut holed), [(10, 20), (30, 40)]);
    }

    #[test]
    fn a_sweep_occupies_the_cache_and_is_read_from_it_until_it_ends() {
        let mut cache = WriteCache::new(100, true);
        cache.put(0, 60, Time(0));
        cache.next();
        cache.ends(Time(9));
        assert!(!cache.fits(Time(8), 41) && cache.fits(Time(8), 40) && cache.fits(Time(9), 100));
        assert!(cache.holds(Time(8), 10, 20) && !cache.holds(Time(9), 10, 20));
    }

    #[test]
    fn random_writes_are_taken_as_a_plain_set_of_sectors_says() {
        let mut rng = twin_rt::Rng::new(1);
        let mut cache = WriteCache::new(u64::MAX, true);
        let mut set = std::collections::BTreeSet::new();
        for step in 0..3000u64 {
            let from = rng.below(500);
            let to = from + rng.range(1, 40);
            match rng.below(4) {
                0 => {
                    cache.forget(from, to);
                    set.retain(|sector| !(from..to).contains(sector));
                }
                1 => {
                    if let Some(sweep) = cache.next() {
                        let all = (sweep.from..sweep.to).all(|sector| set.remove(&sector));
                        assert!(all, "step {step}");
                    }
                }
                _ => {
                    cache.put(from, to, Time(step));
                    set.extend(from..to);
                }
            }
            assert_eq!(cache.sectors, set.len() as u64, "step {step}");
        }
        let left: Vec<u64> = taken(&mut cache).into_iter().flat_map(|(a, b)| a..b).collect();
        assert_eq!(left.len(), set.len());
        assert!(left.iter().all(|sector| set.contains(sector)));
    }
}
