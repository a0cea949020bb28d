//! ETI, extent-based temperature identification: hot extents, found by counting.
//!
//! Shafaei, Desnoyers and Fitzpatrick, "Write Amplification Reduction in Flash-Based SSDs Through
//! Extent-Based Temperature Identification", HotStorage 2016. At most 1,024 extents with counters
//! of 4 bits cover the space. A request that matches an extent increments its counter; one that
//! matches a part of an extent splits it. Every 4,096 requests the counters are halved and
//! neighbours of like temperature merged. An extent is hot from a count of 4; the cleaner has a
//! class of its own.

use std::collections::BTreeMap;

use super::Placement;
use crate::inputs::{CleanerWrite, LogView, Needs, Setting, UserWrite};

const EXTENTS_MAX: usize = 1024;
const COUNT_MAX: u8 = 15;
const HOT: u8 = 4;
const HALVE_AFTER: u32 = 4096;

pub(super) struct Eti {
    /// By first block: number of blocks and counter. The extents cover the space without gaps.
    extents: BTreeMap<u32, (u32, u8)>,
    requests: u32,
}

impl Eti {
    pub(super) fn new(setting: &Setting) -> Eti {
        Eti { extents: BTreeMap::from([(0, (setting.blocks, 0))]), requests: 0 }
    }

    fn extent(&self, block: u32) -> (u32, u32, u8) {
        let (&first, &(blocks, count)) =
            self.extents.range(..=block).next_back().expect("extents cover the space from 0");
        (first, blocks, count)
    }

    fn halve(&mut self) {
        let mut merged: Vec<(u32, u32, u8)> = Vec::new();
        for (&first, &(blocks, count)) in &self.extents {
            let count = count / 2;
            match merged.last_mut() {
                Some((_, last_blocks, last)) if *last == count || (*last < HOT && count < HOT) => {
                    *last_blocks += blocks;
                }
                _ => merged.push((first, blocks, count)),
            }
        }
        self.extents = merged.into_iter().map(|(first, n, count)| (first, (n, count))).collect();
    }
}

impl Placement for Eti {
    fn request(&mut self, first_block: u32, blocks: u32, _: &LogView<'_>) {
        self.requests += 1;
        if self.requests == HALVE_AFTER {
            self.requests = 0;
            self.halve();
        }
        let end = first_block + blocks;
        let mut at = first_block;
        while at < end {
            let (first, extent_blocks, count) = self.extent(at);
            let extent_end = first + extent_blocks;
            let (part_end, whole) = (end.min(extent_end), at == first && end >= extent_end);
            if count < COUNT_MAX && (whole || self.extents.len() < EXTENTS_MAX) {
                if first < at {
                    self.extents.insert(first, (at - first, count));
                }
                self.extents.insert(at, (part_end - at, count + 1));
                if part_end < extent_end {
                    self.extents.insert(part_end, (extent_end - part_end, count));
                }
            }
            at = extent_end;
        }
    }

    fn user_write(&mut self, write: &UserWrite, _: &mut u64, _: &LogView<'_>) -> u8 {
        u8::from(self.extent(write.block).2 < HOT)
    }

    fn cleaner_write(&mut self, _: &CleanerWrite, _: &mut u64, _: &LogView<'_>) -> u8 {
        2
    }

    fn needs(&self) -> Needs {
        Needs { requests: true, ..Needs::default() }
    }
}
