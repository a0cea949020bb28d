//! Where free space lies in the areas of a volume, and how long its runs are (Smith and Seltzer
//! 1994, section 4.1 and figure 1).

use std::ops::Range;

use crate::map::VolumeMap;

/// The parts into which each area is divided: the paper calls them segments.
pub const TENTHS: usize = 10;

/// The free space of a volume.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FreeSpace {
    /// Free space of the volume in bytes.
    pub bytes: u64,
    /// The share of the areas' bytes that is in use, 0 to 1.
    pub used: f64,
    /// The bytes that lie in each tenth of its area, summed over all areas.
    pub tenths: [u64; TENTHS],
    /// Free bytes that are not part of a free whole block.
    pub fragment_bytes: u64,
    /// The number of runs; runs that touch across the end of an area are one.
    pub runs: u64,
    /// The longest run in bytes.
    pub longest: u64,
    /// Runs by length, shortest first.
    pub classes: Vec<RunClass>,
}

/// Runs whose length in blocks, rounded down to a power of two, is the same.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RunClass {
    /// The fewest blocks of a run in it; 0 for runs that are shorter than a block.
    pub blocks: u64,
    /// The number of runs.
    pub runs: u64,
    /// Bytes in the runs of this class.
    pub bytes: u64,
}

impl FreeSpace {
    /// The free space in a map; `None` where the map does not say what is free.
    pub fn of(map: &VolumeMap) -> Option<FreeSpace> {
        let free = map.free.as_ref()?;
        let mut space = FreeSpace::default();
        let block = u64::from(map.block_size).max(1);
        for (area, free) in in_areas(map, free) {
            space.bytes += free.end - free.start;
            space.add_to_tenths(&area, &free);
            // Blocks are counted from the beginning of their area.
            let first = (free.start - area.start).next_multiple_of(block);
            let last = (free.end - area.start) / block * block;
            space.fragment_bytes += free.end - free.start - last.saturating_sub(first);
        }
        let all = map.area_bytes();
        space.used = if all == 0 { 0.0 } else { 1.0 - space.bytes as f64 / all as f64 };
        space.count_runs(free, block);
        Some(space)
    }

    fn add_to_tenths(&mut self, area: &Range<u64>, free: &Range<u64>) {
        let len = u128::from(area.end - area.start);
        let bound = |tenth: usize| area.start + (len * tenth as u128 / TENTHS as u128) as u64;
        for (tenth, bytes) in self.tenths.iter_mut().enumerate() {
            let from = bound(tenth).max(free.start);
            let to = bound(tenth + 1).min(free.end);
            *bytes += to.saturating_sub(from);
        }
    }

    fn count_runs(&mut self, free: &[Range<u64>], block: u64) {
        let mut at = 0;
        while at < free.len() {
            let start = free[at].start;
            let mut end = free[at].end;
            at += 1;
            while at < free.len() && free[at].start == end {
                end = free[at].end;
                at += 1;
            }
            let bytes = end - start;
            if bytes == 0 {
                continue;
            }
            self.runs += 1;
            self.longest = self.longest.max(bytes);
            let blocks = match bytes / block {
                0 => 0,
                blocks => 1 << blocks.ilog2(),
            };
            let found = self.classes.binary_search_by_key(&blocks, |class| class.blocks);
            let place = found.unwrap_or_else(|place| {
                self.classes.insert(place, RunClass { blocks, ..RunClass::default() });
                place
            });
            self.classes[place].runs += 1;
            self.classes[place].bytes += bytes;
        }
    }

    /// The share of free bytes in the last fifth of the areas; `None` if nothing is free.
    pub fn in_last_fifth(&self) -> Option<f64> {
        let last: u64 = self.tenths[TENTHS - 2..].iter().sum();
        (self.bytes > 0).then(|| last as f64 / self.bytes as f64)
    }
}

/// The free ranges with their areas, cut at the bounds of these; a map without areas has one, the
/// volume.
fn in_areas<'a>(
    map: &'a VolumeMap,
    free: &'a [Range<u64>],
) -> impl Iterator<Item = (Range<u64>, Range<u64>)> + 'a {
    let whole = 0..map.size.max(free.last().map_or(0, |range| range.end));
    let areas = match map.areas.is_empty() {
        true => vec![whole],
        false => map.areas.clone(),
    };
    free.iter().flat_map(move |free| {
        let first = areas.partition_point(|area| area.end <= free.start);
        let touched = areas[first..].iter().take_while(|area| area.start < free.end);
        let cut = touched.map(|area| {
            let part = free.start.max(area.start)..free.end.min(area.end);
            (area.clone(), part)
        });
        cut.collect::<Vec<_>>()
    })
}

#[cfg(test)]
#[allow(clippy::single_range_in_vec_init)] // One area is one range.
mod tests {
    use super::*;

    fn map(areas: &[Range<u64>], free: &[Range<u64>]) -> VolumeMap {
        let (areas, free) = (areas.to_vec(), Some(free.to_vec()));
        VolumeMap { block_size: 10, size: 400, areas, free, ..VolumeMap::default() }
    }

    #[test]
    fn free_bytes_are_counted_in_the_tenth_of_their_area() {
        let space = FreeSpace::of(&map(&[0..100, 200..300], &[75..100, 200..215])).unwrap();
        assert_eq!(space.tenths, [10, 5, 0, 0, 0, 0, 0, 5, 10, 10]);
        assert_eq!((space.bytes, space.used), (40, 0.8));
        assert_eq!(space.in_last_fifth(), Some(0.5));
    }

    #[test]
    fn what_is_no_whole_block_is_in_fragments() {
        let free = [5..20, 31..39, 40..60, 75..95];
        let space = FreeSpace::of(&map(&[0..100], &free)).unwrap();
        assert_eq!(space.fragment_bytes, 5 + 8 + 5 + 5);
    }

    #[test]
    fn a_run_across_two_areas_is_one_run_and_is_counted_in_both() {
        let space = FreeSpace::of(&map(&[0..100, 100..200], &[90..100, 100..130])).unwrap();
        assert_eq!((space.runs, space.longest), (1, 40));
        assert_eq!(space.classes, [RunClass { blocks: 4, runs: 1, bytes: 40 }]);
        let space = FreeSpace::of(&map(&[0..100, 100..200], &[90..130, 150..155])).unwrap();
        assert_eq!(space.tenths, [10, 10, 10, 0, 0, 5, 0, 0, 0, 10]);
        assert_eq!((space.runs, space.longest, space.bytes), (2, 40, 45));
    }

    #[test]
    fn unknown_free_space_is_none_and_a_full_volume_has_none() {
        let unknown = VolumeMap { free: None, ..map(&[], &[]) };
        assert_eq!(FreeSpace::of(&unknown), None);
        let full = FreeSpace::of(&map(&[0..100], &[])).unwrap();
        assert_eq!((full.bytes, full.used, full.in_last_fifth()), (0, 1.0, None));
    }
}
